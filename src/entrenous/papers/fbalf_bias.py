"""FBALF, section 4.2.1: what the training bias buys, for all ratings and for strict and generous users, rare and popular items.

The paper has no such table; its claim is that "a significant portion of the variance in rating values is due to bias".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.groups import EVERYBODY, GENEROUS, OFFSET, POPULAR, RARE, STRICT
from ..report.figures import bars
from .cell import Look
from .rating_study import RatingStudy, Source, System, over_sources
from .result import Experiment, Found, Row

# All begin at the middle of the scale: without b_u, p_u alone would have to make up a whole rating from 0, which diverges.
FBALF = System("fbalf-bayes", own=(("start", "middle"),))
VARIANTS = {
    "both biases": FBALF,
    "item bias only": FBALF.replaced(user_bias=False),
    "user bias only": FBALF.replaced(item_bias=False),
    "no bias": FBALF.replaced(user_bias=False, item_bias=False),
}
GROUPS = (EVERYBODY, STRICT, GENEROUS, RARE, POPULAR)
MEASURES = ("rmse", "mae", OFFSET)
SOURCES = (Source("ml-100k"), Source("yahoo-r3"), Source("ml-1m"))


def one(study: RatingStudy) -> Found:
    """FBALF with both biases, with one of them, with none: the other settings are those chosen for it with both."""
    looks = study.tested(list(VARIANTS.values()))
    rows = [row for name, system in VARIANTS.items() for row in _rows(study, name, system, looks[system])]
    return Found(rows=rows, notes=_notes(study, looks), figures={f"bias-{study.slug}": _figure(study, looks)})


def _rows(study: RatingStudy, name: str, system: System, looks: Sequence[Look]) -> list[Row]:
    found = []
    for measure in MEASURES:
        for group in GROUPS:
            label = measure if group == EVERYBODY else f"{measure}, {group}"
            found.append(study.row(system, label, _values(looks, measure, group), None) | {"system": f"fbalf-bayes, {name}"})
    return found


def _values(looks: Sequence[Look], measure: str, group: str) -> list[float]:
    """One value a fold."""
    return [look.by_category[measure][group] for look in looks]


def _notes(study: RatingStudy, looks: Mapping[System, list[Look]]) -> list[str]:
    """How much less each group errs with both biases than without any."""
    both, none = looks[VARIANTS["both biases"]], looks[VARIANTS["no bias"]]
    if not both or not none:
        return [f"{study.name}: a training diverged."]
    gains = {group: np.array(_values(none, "rmse", group)) - np.array(_values(both, "rmse", group)) for group in GROUPS}
    said = ", ".join(
        f"{group} {gain.mean():+.4f} (in {int((gain > 0).sum())} of {len(gain)} folds)" for group, gain in gains.items()
    )
    return [
        f"{study.name}: RMSE without any bias minus RMSE with both: {said}. Strict and generous users: the quarters with the lowest and "
        "highest mean training rating; rare and popular items: those with the fewest and most training ratings."
    ]


def _figure(study: RatingStudy, looks: Mapping[System, list[Look]]) -> str:
    values = {
        name: [float(np.mean(_values(looks[system], "rmse", group))) for group in GROUPS]
        for name, system in VARIANTS.items()
        if looks[system]
    }
    return bars(list(GROUPS), values, x_label="RMSE", y_label="", title=f"What the biases buy: {study.name}")


EXPERIMENTS = {
    "fbalf-bias": Experiment(
        "what the biases buy, by group of users and items (FBALF, section 4.2.1)", {}, over_sources(one, SOURCES, SOURCES[:1])
    )
}
