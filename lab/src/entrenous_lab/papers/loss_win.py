"""One system against others over many cells (data sets, metrics), as in FBALF's table 3: loss/win,
Wilcoxon, F-rank.

>>> errors = {"ours": [0.66, 0.84], "a": [0.70, 0.89], "b": [0.69, 0.83]}
>>> found = against("ours", errors)
>>> found["a", "wins"], found["b", "losses"], found["ours", "F-rank"], found["a", "F-rank"]
(2, 1, 1.5, 3.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.evaluation.significance import holm

TOTAL = "all of them"
Figures = dict[tuple[str, str], float]  # {(system, or TOTAL; statistic): its value}


def against(ours: str, errors: Mapping[str, Sequence[float]]) -> Figures:
    """Compares the system `ours` with every other one. errors: {system: its error in each cell};
    lower is better.

    Returns of each other system the cells in which ours has lost and won (the rest are ties), the p
    of the exact Wilcoxon tests that ours errs less, and that both differ, the latter also corrected
    for the number of systems; of each system its mean rank over the cells, 1 = least error; and the
    p of Friedman's test.
    """
    mine = np.asarray(errors[ours], np.float64)
    others = {name: np.asarray(errors[name], np.float64) for name in errors if name != ours}
    ranks, p = friedman(errors)
    both = {name: wilcoxon(mine, theirs, "two-sided") for name, theirs in others.items()}
    corrected = dict(zip(both, holm(list(both.values())).tolist(), strict=True))
    figures: Figures = {}
    for name, theirs in others.items():
        figures[name, "F-rank"] = ranks[name]
        figures[name, "losses"] = int((mine > theirs).sum())
        figures[name, "wins"] = int((mine < theirs).sum())
        figures[name, "p (less)"] = wilcoxon(mine, theirs, "less")
        figures[name, "p (two-sided)"] = both[name]
        figures[name, "p (Holm)"] = corrected[name]
    figures[ours, "F-rank"] = ranks[ours]
    figures[TOTAL, "losses"] = sum(figures[name, "losses"] for name in others)
    figures[TOTAL, "wins"] = sum(figures[name, "wins"] for name in others)
    figures[TOTAL, "p (Friedman)"] = p
    return figures


def wilcoxon(a: Float64Array, b: Float64Array, alternative: str) -> float:
    """Returns the exact p of Wilcoxon's signed-rank test over all signs, also with ties, of up to
    13 pairs. less: tests that a tends to be smaller than b.

    >>> wilcoxon(np.zeros(6), np.array([6.0, 5.0, 4.0, 3.0, 3.0, 1.0]), "less")
    0.015625
    """
    from scipy import stats

    if (a == b).all():
        return 1.0
    # 2^13 signs are fewer than the resamples that the method draws by default.
    every_sign = stats.PermutationMethod()
    return float(stats.wilcoxon(a, b, alternative=alternative, method=every_sign).pvalue)


def friedman(errors: Mapping[str, Sequence[float]]) -> tuple[dict[str, float], float]:
    """Returns the mean rank of each system over the cells, 1 = best, ties sharing theirs, and the p
    of Friedman's test; of two systems as of more, which SciPy's own function refuses.
    """
    from scipy import stats

    rank = stats.rankdata(np.array(list(errors.values())), axis=0).T
    cells, systems = rank.shape
    # Ties lower the variance within a cell; it is 0 if all systems are equal everywhere.
    variance = rank.var(axis=1).sum()
    squares = ((rank.sum(axis=0) - cells * (systems + 1) / 2) ** 2).sum()
    statistic = squares * (systems - 1) / (systems * variance) if variance else 0.0
    ranks = dict(zip(errors, rank.mean(axis=0).tolist(), strict=True))
    return ranks, chi_square_tail(float(statistic), systems - 1)


def chi_square_tail(x: float, freedom: int) -> float:
    """Returns P(X > x) for a chi-square X with a whole number of degrees of freedom, as a finite
    sum of Poisson terms. SciPy's last digit is its release's, which a stored result must not have.

    >>> chi_square_tail(0.0, 3), round(chi_square_tail(2 * math.log(4), 2), 12)
    (1.0, 0.25)
    """
    half = x / 2
    if half <= 0:
        return 1.0
    # The terms half^s e^-half / gamma(s + 1) at s = 0, 1, .. or 1/2, 3/2, ..
    exponents = [number + freedom % 2 / 2 for number in range(freedom // 2)]
    terms = [math.exp(s * math.log(half) - half - math.lgamma(s + 1)) for s in exponents]
    first = math.erfc(math.sqrt(half)) if freedom % 2 else 0.0
    return min(1.0, first + math.fsum(terms))
