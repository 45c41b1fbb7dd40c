"""What peers learn of each other: leakage of the first push and of later ones, for one peer and for several that pool what reaches them."""

from __future__ import annotations

from collections.abc import Iterator

from ..audit.subject import AuditPlan
from .leakage import LeakPoint, by_family, found_of, measured_point
from .result import Context
from .table import PaperTable

SYSTEMS = ("pepper-gmf", "gossip-average-gmf")
TIMES, QUICK_TIMES = (1, 5, 20), (1, 3)  # units of time: in each a peer pushes once
WATCHED = (1, 20)


def points(context: Context) -> Iterator[LeakPoint]:
    """Every system after some units of time."""
    for name in SYSTEMS[: 1 if context.quick else None]:
        for watched in WATCHED[1:] if context.quick else WATCHED:
            for rounds in QUICK_TIMES if context.quick else TIMES:
                plan = AuditPlan(algorithm=name, view="neighbour", rounds=rounds, watched=watched)
                family = f"{name}, {watched} peer{'s' if watched > 1 else ''}"
                yield measured_point(f"{family}, {rounds} pushes", family, plan, context)


EXPERIMENTS = {
    "privacy-gossip": PaperTable(
        title="what peers learn of each other: leakage, accuracy and bytes over time",
        data=lambda context, notes: (),
        before=found_of(points, by_family),
    )
}
