"""What noise on sums protects, and costs: leakage and accuracy over its standard deviation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..audit.examine import AuditPlan
from ..privacy.protection import PRIVATE
from .leakage import BY_SERVER, LeakPoint, by_family, found_of, measured_point, rows_of
from .result import Context
from .table import PaperTable

NOISES, QUICK_NOISES = (0.0, 0.01, 0.1, 1.0, 3.0), (0.0, 1.0)
COHORT = 100
SYSTEMS: tuple[tuple[str, dict[str, int]], ...] = (("pfpl+", {"factors": 20}), ("fcf", {}), ("fedavg-neumf", {}))


def points(context: Context) -> Iterator[LeakPoint]:
    """Every noise of every system, on sums of 100."""
    users = len(rows_of(context).users)
    cohort = min(COHORT, users // 2)
    for name, settings in SYSTEMS[: 2 if context.quick else None]:
        trained = round(100 * users / cohort) if name == "pfpl+" else None
        for noise in QUICK_NOISES if context.quick else NOISES:
            plan = AuditPlan(
                algorithm=name, settings=settings, view="sum", cohort=cohort, rounds=4 if context.quick else 20, profile=PRIVATE,
                protect={**BY_SERVER, "noise": noise, "people": min(100, cohort)},
            )  # fmt: skip
            yield measured_point(f"{name}, noise {noise:g}", name, plan, context, rounds=trained)


EXPERIMENTS = {
    "privacy-noise": PaperTable(
        title="what noise on sums protects and costs: leakage, accuracy and bytes over its standard deviation",
        data=lambda context, notes: (),
        before=found_of(points, partial(by_family, beside=", sums")),
    )
}
