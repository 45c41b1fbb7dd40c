"""Early stopping in its parts: which look is the best, and when patience is over."""

from __future__ import annotations

from typing import Any

from entrenous.evaluation.protocol import RANKING, RATING
from entrenous.runs.train import best_round, patience_is_over


def looks(metric: str, *values: float, phase: str = "select") -> list[dict[str, Any]]:
    """One look every two rounds."""
    return [
        {"phase": phase, "round": 2 * n, "validation": {metric: value}}
        for n, value in enumerate(values, 1)
    ]


def test_the_best_look_is_the_highest_ranking_and_the_lowest_error() -> None:
    assert best_round(looks("ndcg@10", 0.1, 0.3, 0.2), "select", RANKING) == 4
    assert best_round(looks("rmse", 1.1, 0.9, 1.0), "select", RATING) == 4


def test_the_earliest_of_equal_looks_is_the_best() -> None:
    assert best_round(looks("ndcg@10", 0.1, 0.3, 0.3, 0.3), "select", RANKING) == 4
    assert best_round(looks("rmse", 1.0, 0.9, 0.9), "select", RATING) == 4


def test_other_phases_do_not_count() -> None:
    trace = looks("ndcg@10", 0.9, 0.8, 0.7, phase="fold0-final") + looks("ndcg@10", 0.1, 0.3)
    assert best_round(trace, "select", RANKING) == 4
    assert not patience_is_over(trace, "select", 1, RANKING) and patience_is_over(
        trace, "fold0-final", 2, RANKING
    )


def test_patience_is_over_after_so_many_looks_without_a_better_one() -> None:
    for count, over in ((1, False), (2, False), (3, False), (4, True)):
        assert (
            patience_is_over(looks("ndcg@10", 0.1, 0.3, 0.2, 0.3)[:count], "select", 2, RANKING)
            == over
        )
    assert not patience_is_over(looks("ndcg@10", 0.3, 0.2, 0.1), "select", 0, RANKING), "0 = never"
    assert not patience_is_over([], "select", 1, RANKING)
