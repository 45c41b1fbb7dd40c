"""The statistics of FBALF's table 3, from the errors it prints: loss/win, Wilcoxon's p and F-ranks
come out as printed.
"""

import pytest

from entrenous.evaluation.loss_win import against

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


def test_the_printed_table_has_the_printed_f_ranks():
    ranks = against("FBALF", PRINTED).ranks
    assert {name: round(rank, 4) for name, rank in ranks.items()} == F_RANKS


def test_the_printed_table_has_the_printed_loss_win_and_p():
    rows = against("FBALF", PRINTED).rows
    assert [(row.losses, row.wins) for row in rows] == [(0, 6)] * 5
    assert [row.p_less for row in rows] == [0.015625] * 5


def test_both_sides_and_holm_say_less_than_the_paper():
    """Of six pairs 1/64 is the smallest one-sided p there is; two-sided it is twice that, and for
    five systems at once five times.
    """
    rows = against("FBALF", PRINTED).rows
    assert [row.p_two_sided for row in rows] == [0.03125] * 5
    assert [row.holm for row in rows] == pytest.approx([5 * 0.03125] * 5)


def test_a_tie_is_neither_won_nor_lost():
    row = against("a", {"a": [1.0, 2.0, 3.0], "b": [1.0, 3.0, 2.0]}).rows[0]
    assert (row.losses, row.wins) == (1, 1)
