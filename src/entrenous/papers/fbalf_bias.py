"""FBALF, section 4.2.1: what the training bias buys, for all ratings and for strict and generous users, rare and popular items.

The paper has no such table; its claim is that "a significant portion of the variance in rating values is due to bias".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..evaluate.groups import EVERYBODY, GENEROUS, OFFSET, POPULAR, RARE, STRICT
from ..report.figures import bars
from .cell import CurvePoint
from .opened import rated
from .source import ratings
from .study import System
from .table import PaperTable, Trained, Values

# All begin at the middle of the scale: without b_u, p_u alone would have to make up a whole rating from 0, which diverges.
FBALF = System("fbalf-bayes", own=(("start", "middle"),))
VARIANTS = {
    "both biases": FBALF,
    "item bias only": FBALF.replaced(user_bias=False),
    "user bias only": FBALF.replaced(item_bias=False),
    "no bias": FBALF.replaced(user_bias=False, item_bias=False),
}
VARIANTS = {name: system._replace(called=f"{FBALF}, {name}") for name, system in VARIANTS.items()}
GROUPS = (EVERYBODY, STRICT, GENEROUS, RARE, POPULAR)
MEASURES = ("rmse", "mae", OFFSET)


def values_of(trained: Trained, system: System) -> Values:
    """Every measure of every group; the other settings are those chosen for both biases."""
    looks = trained.looks[system]
    return {
        measure if group == EVERYBODY else f"{measure}, {group}": _values(looks, measure, group)
        for measure in MEASURES
        for group in GROUPS
    }


def _values(looks: Sequence[CurvePoint], measure: str, group: str) -> list[float]:
    """One value a fold."""
    return [look.by_category[measure][group] for look in looks]


def gains(trained: Trained) -> list[str]:
    """How much less each group errs with both biases than without any."""
    both, none = (trained.looks[VARIANTS[name]] for name in ("both biases", "no bias"))
    if not both or not none:
        return [f"{trained.name}: a training diverged."]
    gains = {group: np.array(_values(none, "rmse", group)) - np.array(_values(both, "rmse", group)) for group in GROUPS}
    said = ", ".join(
        f"{group} {gain.mean():+.4f} (in {int((gain > 0).sum())} of {len(gain)} folds)" for group, gain in gains.items()
    )
    return [
        f"{trained.name}: RMSE without any bias minus RMSE with both: {said}. Strict and generous users: the quarters with the lowest "
        "and highest mean training rating; rare and popular items: those with the fewest and most training ratings."
    ]


def _figure(trained: Trained) -> dict[str, str]:
    values = {
        name: [float(np.mean(_values(trained.looks[system], "rmse", group))) for group in GROUPS]
        for name, system in VARIANTS.items()
        if trained.looks[system]
    }
    title = f"What the biases buy: {trained.name}"
    return {f"bias-{trained.study.source.slug}": bars(list(GROUPS), values, x_label="RMSE", y_label="", title=title)}


EXPERIMENTS = {
    "fbalf-bias": PaperTable(
        title="what the biases buy, by group of users and items (FBALF, section 4.2.1)",
        data=rated(*map(ratings, ("ml-100k", "yahoo-r3", "ml-1m"))),
        systems=tuple(VARIANTS.values()),
        metrics=values_of,
        findings=(gains,),
        figures=_figure,
    )
}
