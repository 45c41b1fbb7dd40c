"""One system against others over many cells (data sets, folds, metrics), as in FBALF's table 3:
loss/win, Wilcoxon, F-rank.

>>> errors = {"ours": [0.66, 0.84], "a": [0.70, 0.89], "b": [0.69, 0.83]}
>>> table = against("ours", errors)
>>> [(row.other, row.losses, row.wins) for row in table.rows], table.ranks
([('a', 0, 2), ('b', 1, 1)], {'ours': 1.5, 'a': 3.0, 'b': 1.5})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .significance import friedman, holm, wilcoxon


class LossWinRow(NamedTuple):
    """One system against another over the same cells."""

    other: str
    losses: int
    """Cells in which ours is worse."""
    wins: int
    """Cells in which ours is better; the rest are ties."""
    p_less: float
    """p of the exact one-sided Wilcoxon test that ours errs less."""
    p_two_sided: float
    """p of the test that they differ."""
    holm: float
    """`p_two_sided`, corrected for the number of systems."""


class LossWinTable(NamedTuple):
    """One system against all others."""

    rows: tuple[LossWinRow, ...]
    ranks: dict[str, float]
    """The mean rank of every system over the cells, 1 = least error."""
    p: float
    """p of Friedman's test."""


def against(ours: str, errors: Mapping[str, Sequence[float]]) -> LossWinTable:
    """Compares the system `ours` with every other one. errors: {system: its error in each cell};
    lower is better.
    """
    mine = np.asarray(errors[ours], np.float64)
    others = {
        name: np.asarray(values, np.float64) for name, values in errors.items() if name != ours
    }
    two_sided = [wilcoxon(mine, theirs).p for theirs in others.values()]
    corrected = holm(two_sided)
    rows = []
    for k, (name, theirs) in enumerate(others.items()):
        losses = int((mine > theirs).sum())
        wins = int((mine < theirs).sum())
        less = wilcoxon(mine, theirs, alternative="less").p
        rows.append(LossWinRow(name, losses, wins, less, two_sided[k], float(corrected[k])))
    ranked = friedman(errors, higher_is_better=False)
    return LossWinTable(tuple(rows), ranked.mean_rank, ranked.p)
