"""One system against others over many cells (data sets, folds, metrics), as FBALF's table 3 does
it: loss/win, Wilcoxon, F-rank.

>>> errors = {"ours": [0.66, 0.84], "a": [0.70, 0.89], "b": [0.69, 0.83]}
>>> found = against("ours", errors)
>>> [(row.other, row.losses, row.wins) for row in found.rows], found.ranks
([('a', 0, 2), ('b', 1, 1)], {'ours': 1.5, 'a': 3.0, 'b': 1.5})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .significance import friedman, holm, wilcoxon


class LossWinRow(NamedTuple):
    """One system against another over the same cells.

    losses, wins: cells in which ours is worse, better; the rest are ties. p_less: exact one-sided
    Wilcoxon, that ours errs less; p_two_sided: that they differ; holm: the latter, corrected for
    all the systems compared with."""

    other: str
    losses: int
    wins: int
    p_less: float
    p_two_sided: float
    holm: float


class LossWinTable(NamedTuple):
    """A comparison of one system with others. rows: ours against each other system; ranks: mean
    rank of every system over the cells, 1 = least error; p: of Friedman's test."""

    rows: tuple[LossWinRow, ...]
    ranks: dict[str, float]
    p: float


def against(ours: str, errors: Mapping[str, Sequence[float]]) -> LossWinTable:
    """Compare the system `ours` with every other one. errors: {system: its error in each cell};
    lower is better.
    """
    of = {name: np.asarray(values, np.float64) for name, values in errors.items()}
    mine, others = of[ours], [name for name in of if name != ours]
    less = [wilcoxon(mine, of[name], alternative="less").p for name in others]
    both = [wilcoxon(mine, of[name]).p for name in others]
    rows = [
        LossWinRow(
            name,
            int((mine > of[name]).sum()),
            int((mine < of[name]).sum()),
            one,
            two,
            float(corrected),
        )
        for name, one, two, corrected in zip(others, less, both, holm(both), strict=True)
    ]
    ranked = friedman(errors, higher_is_better=False)
    return LossWinTable(tuple(rows), ranked.mean_rank, ranked.p)
