"""What peers learn of each other: leakage of the first push and of later ones, for one peer and for
several that pool what reaches them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from entrenous_audit.plan import AuditPlan

from entrenous.privacy.protection import PAPER, PRIVATE
from entrenous.runs.options import Profile

from .leakage import LeakPoint, by_family, found_of, measured_point, trained_point
from .result import Context
from .table import PaperTable

SYSTEMS: tuple[tuple[str, Profile], ...] = (
    ("pepper-gmf", PAPER),
    ("pepper-gmf", PRIVATE),
    ("gossip-average-gmf", PAPER),
)
TIMES, QUICK_TIMES = (1, 5, 20), (1, 3)  # units of time: in each a peer pushes once
WATCHED = (1, 20)


def points(context: Context) -> Iterator[LeakPoint]:
    """Every system after some units of time."""
    times, watching = (QUICK_TIMES, WATCHED[1:]) if context.quick else (TIMES, WATCHED)
    for name, profile in SYSTEMS[: 2 if context.quick else None]:
        plan = AuditPlan(algorithm=name, view="neighbour", profile=profile)
        run = trained_point(plan, context)
        for watched, rounds in product(watching, times):
            family = f"{name}, {profile}, {watched} peer{'s' if watched > 1 else ''}"
            seen = replace(plan, rounds=rounds, watched=watched)
            pushes = f"{rounds} push{'es' if rounds > 1 else ''}"
            yield measured_point(f"{family}, {pushes}", family, seen, context, run=run)


EXPERIMENTS = {
    "privacy-gossip": PaperTable(
        title="what peers learn of each other: leakage, accuracy and bytes over time",
        data=lambda context, notes: (),
        before=found_of(points, by_family),
    )
}
