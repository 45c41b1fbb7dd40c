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
    """The p-value of the exact one-sided Wilcoxon test that ours errs less."""
    p_two_sided: float
    """The p-value of the test that both differ."""
    holm: float
    """`p_two_sided`, corrected for the number of systems."""


class LossWinTable(NamedTuple):
    """One system against all others."""

    rows: tuple[LossWinRow, ...]
    ranks: dict[str, float]
    """The mean rank of every system over the cells, 1 = least error."""
    p: float
    """The p-value of Friedman's test."""


def against(ours: str, errors: Mapping[str, Sequence[float]]) -> LossWinTable:
    """Compares the system `ours` with every other one. errors: {system: its error in each cell};
    lower is better.
    """
    mine = np.asarray(errors[ours], np.float64)
    rows = []
    for name, values in errors.items():
        if name == ours:
            continue
        theirs = np.asarray(values, np.float64)
        row = LossWinRow(
            other=name,
            losses=int((mine > theirs).sum()),
            wins=int((mine < theirs).sum()),
            p_less=wilcoxon(mine, theirs, alternative="less"),
            p_two_sided=wilcoxon(mine, theirs),
            holm=1.0,
        )
        rows.append(row)
    # The correction needs the p of all tests, the values of the rows are complete after it.
    corrected = holm([row.p_two_sided for row in rows]).tolist()
    rows = [row._replace(holm=p) for row, p in zip(rows, corrected, strict=True)]
    ranked = friedman(errors)
    return LossWinTable(tuple(rows), ranked.mean_rank, ranked.p)
