"""What noise on sums protects, and costs: leakage and accuracy over its standard deviation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from entrenous_audit.plan import AuditPlan

from entrenous.privacy.protection import PRIVATE

from .leakage import BY_SERVER, LeakPoint, by_family, found_of, measured_point, rows_of
from .result import Context
from .table import PaperTable

NOISES, QUICK_NOISES = (0.0, 0.01, 0.1, 1.0, 3.0), (0.0, 1.0)
COHORT = 100
ROUNDS = 20  # that are attacked


class Summed(NamedTuple):
    """A system whose sums are attacked."""

    algorithm: str
    settings: Mapping[str, int]


# As published: the profile would bring the settings that were tested with its noise.
AS_PUBLISHED = {"alpha": 1, "rounds": 100}
SYSTEMS = (
    Summed("pfpl+", {"factors": 20}),
    Summed("fcf", AS_PUBLISHED),
    Summed("fedavg-neumf", {}),
)


def points(context: Context) -> Iterator[LeakPoint]:
    """Every noise of every system, on sums of 100."""
    users = len(rows_of(context).users)
    cohort = min(COHORT, users // 2)
    for one in SYSTEMS[: 2 if context.quick else None]:
        trained = round(100 * users / cohort) if one.algorithm == "pfpl+" else None
        for noise in QUICK_NOISES if context.quick else NOISES:
            plan = AuditPlan(
                algorithm=one.algorithm,
                settings=one.settings,
                view="sum",
                cohort=cohort,
                profile=PRIVATE,
                rounds=4 if context.quick else ROUNDS,
                protect={**BY_SERVER, "noise": noise, "people": min(100, cohort)},
            )
            yield measured_point(
                f"{one.algorithm}, noise {noise:g}",
                one.algorithm,
                plan,
                context,
                rounds=trained,
            )


EXPERIMENTS = {
    "privacy-noise": PaperTable(
        title=(
            "what noise on sums protects and costs: leakage, accuracy and bytes over its standard"
            " deviation"
        ),
        data=lambda context, notes: (),
        before=found_of(points, partial(by_family, beside=", sums")),
    )
}
