"""What pi protects: leakage against accuracy over pi, for messages seen one by one, sums of 100,
and sums of 100 with noise.

FPL's section 6.3 discusses the trade-off between what users share and accuracy by counting what is
sent; it measures no attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from entrenous_audit.plan import AuditPlan

from entrenous.privacy.protection import PAPER, PRIVATE
from entrenous.report.figures import FigureFormat, scatter
from entrenous.runs.options import Profile

from .leakage import BY_SERVER, LeakPoint, found_of, front, measured_point, rows_of, said_of
from .result import Context
from .table import PaperTable

PI, QUICK_PI = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0), (0.0, 1.0)
COHORT, NOISE, EPOCHS = 100, 0.1, 100
SINGLY, SUMS, NOISY = "seen one by one", f"sums of {COHORT}", f"sums of {COHORT}, noise {NOISE:g}"


def points(context: Context) -> Iterator[LeakPoint]:
    """Every pi in every view. A cohort trains on as many triples as everybody would."""
    users = len(rows_of(context).users)
    cohort = min(COHORT, users // 2)
    rounds = round(EPOCHS * users / cohort)
    for pi in QUICK_PI if context.quick else PI:
        # As published: the profile would bring fewer factors.
        own = {"pi": pi, "factors": 80}
        singly = AuditPlan(
            algorithm="pfpl+",
            settings=own,
            view="individual",
            rounds=2 if context.quick else 10,
            watched=200,
        )
        yield measured_point(f"{SINGLY}, pi {pi:g}", SINGLY, singly, context)
        kinds: tuple[tuple[str, Profile, dict[str, Any]], ...] = (
            (SUMS, PAPER, {}),
            (NOISY, PRIVATE, {**BY_SERVER, "noise": NOISE, "people": min(100, cohort)}),
        )
        for family, profile, protect in kinds:
            plan = AuditPlan(
                algorithm="pfpl+",
                settings=own,
                view="sum",
                rounds=5 if context.quick else 60,
                cohort=cohort,
                profile=profile,
                protect=protect,
            )
            yield measured_point(f"{family}, pi {pi:g}", family, plan, context, rounds=rounds)


def findings(found: Sequence[LeakPoint]) -> list[str]:
    """What pi does in each view, and which settings nothing beats."""
    said = [
        said_of([point for point in found if point.family == family], family)
        for family in (SINGLY, SUMS, NOISY)
    ]
    best = "; ".join(
        f"{point.system} ({point.metric} {point.accuracy:.4f})" for point in front(found)
    )
    return [
        *said,
        (
            "Settings that no other one beats in accuracy and in what is found beyond popularity"
            f" (the Pareto front): {best}."
        ),
    ]


def figure(found: Sequence[LeakPoint]) -> Mapping[str, str]:
    """Accuracy over leakage, a path of growing pi for each view."""
    series = {}
    for family in (SINGLY, SUMS, NOISY):
        mine = [
            point for point in found if point.family == family and point.r_precision is not None
        ]
        if mine:
            series[family] = (
                [point.r_precision or 0.0 for point in mine],
                [point.accuracy for point in mine],
            )
    if not series:
        return {}
    across, title = "R-precision of the best attack", "pFPL+, pi from 0 to 1 (white)"
    return {
        "leakage-accuracy": scatter(
            series, FigureFormat(title=title, x_label=across, y_label="HR@10"), joined=True
        )
    }


EXPERIMENTS = {
    "privacy-pi": PaperTable(
        title="what pi protects: leakage, accuracy and bytes over pi (beyond FPL, section 6.3)",
        data=lambda context, notes: (),
        before=found_of(points, findings, figure),
    )
}
