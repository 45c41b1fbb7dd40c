"""What sums protect: leakage over the number of parties in a sum, drawn anew in each round."""

from __future__ import annotations

from collections.abc import Iterator

from entrenous_audit.plan import AuditPlan

from .leakage import LeakPoint, by_family, found_of, measured_point, rows_of
from .result import Context
from .table import PaperTable

COHORTS, QUICK_COHORTS = (10, 30, 100, 300), (10, 30)
SYSTEMS = ("pfpl+", "fcf")
ROUNDS = 20  # that are attacked


def points(context: Context) -> Iterator[LeakPoint]:
    """Every size of every system."""
    users = len(rows_of(context).users)
    for name in SYSTEMS:
        for cohort in QUICK_COHORTS if context.quick else COHORTS:
            plan = AuditPlan(
                algorithm=name,
                view="sum",
                cohort=min(cohort, users),
                rounds=4 if context.quick else ROUNDS,
            )
            trained = round(100 * users / plan.cohort) if name == "pfpl+" else None
            yield measured_point(
                f"{name}, {plan.cohort} drawn anew",
                f"{name}, drawn anew",
                plan,
                context,
                rounds=trained,
            )


EXPERIMENTS = {
    "privacy-cohort": PaperTable(
        title="what sums protect: leakage, accuracy and bytes over the parties in a sum",
        data=lambda context, notes: (),
        before=found_of(points, by_family),
    )
}
