"""The statistics of FBALF's table 3, from the errors it prints: loss/win, Wilcoxon's p and F-ranks
come out as printed.
"""

import numpy as np
import pytest
from entrenous_lab.papers.loss_win import TOTAL, against, friedman
from scipy import stats

# Table 3: D1 MAE, RMSE, D2 MAE, RMSE, D3 MAE, RMSE
PRINTED = {
    "FedMF": [0.6981, 0.8919, 0.9683, 1.2387, 0.5844, 0.7762],
    "FedRec": [0.6867, 0.8753, 0.9394, 1.2244, 0.5906, 0.7830],
    "MetaMF": [0.6905, 0.8769, 0.9680, 1.2273, 0.5869, 0.7772],
    "FedRec++": [0.7096, 0.9105, 0.9062, 1.1794, 0.6155, 0.8149],
    "RFRec": [0.6893, 0.8728, 1.0314, 1.2751, 0.7184, 0.9495],
    "FBALF": [0.6639, 0.8442, 0.8817, 1.1607, 0.5713, 0.7523],
}
F_RANKS = {
    "FedMF": 4.0000,
    "FedRec": 3.1667,
    "MetaMF": 3.6667,
    "FedRec++": 4.3333,
    "RFRec": 4.8333,
    "FBALF": 1.0000,
}


def test_the_printed_table_has_the_printed_statistics():
    found = against("FBALF", PRINTED)
    assert {name: round(found[name, "F-rank"], 4) for name in PRINTED} == F_RANKS
    assert (found[TOTAL, "losses"], found[TOTAL, "wins"]) == (0, 30)


@pytest.mark.parametrize("other", [name for name in PRINTED if name != "FBALF"])
def test_both_sides_and_holm_say_less_than_the_paper(other):
    """Of six pairs 1/64 is the smallest one-sided p there is, which the paper prints; two-sided it
    is twice that, and for five systems at once five times.
    """
    found = against("FBALF", PRINTED)
    assert (found[other, "losses"], found[other, "wins"]) == (0, 6)
    assert (found[other, "p (less)"], found[other, "p (two-sided)"]) == (0.015625, 0.03125)
    assert found[other, "p (Holm)"] == pytest.approx(5 * 0.03125)


def test_a_tie_is_neither_won_nor_lost():
    found = against("a", {"a": [1.0, 2.0, 3.0], "b": [1.0, 3.0, 2.0]})
    assert (found["b", "losses"], found["b", "wins"]) == (1, 1)


def test_friedman_shares_ranks_and_agrees_with_scipy():
    table = np.random.default_rng(0).integers(0, 4, (4, 20))
    ranks, p = friedman(dict(zip("abcd", table.tolist(), strict=True)))
    assert p == pytest.approx(stats.friedmanchisquare(*table).pvalue)
    assert sum(ranks.values()) == pytest.approx(1 + 2 + 3 + 4)
    assert friedman({"a": [1, 1], "b": [1, 1]}) == ({"a": 1.5, "b": 1.5}, 1)
