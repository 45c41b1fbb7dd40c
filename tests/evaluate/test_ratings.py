"""Predicted ratings are held against the true ones: over rows, over users, clipped to the scale;
what cannot be rated is refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from entrenous.core.errors import InputError, NonFiniteError
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.split.protocol import splits
from entrenous.data.split.types import Held
from entrenous.evaluation.protocol import RANKING, RATING, evaluate, goal_of, look
from entrenous.evaluation.ratings import rate, rated, sentence
from entrenous.systems.fbalf import FBALF
from entrenous.systems.fpl import FPL


class Table(NamedTuple):
    """A recommender that has its scores in a table."""

    table: np.ndarray

    def scores(self, users: np.ndarray) -> np.ndarray:
        return self.table[users].astype(np.float32)


def rows(
    user: list[int], item: list[int], value: list[float], scale: tuple[float, float] | None = (1, 5)
) -> Interactions:
    return build(
        user, item, value=value, users=Vocabulary(size=4), items=Vocabulary(size=3), scale=scale
    )


HELD = rows([0, 0, 2], [0, 2, 1], [4, 1, 3])
SCORES = np.array(
    [[3.5, 9, -2.0], [9, 9, 9], [9, 4, 9], [9, 9, 9]]
)  # of the held rows: 3.5, -2 (clipped to 1), 4


def test_mae_and_rmse_are_over_rows_and_for_each_user():
    found = rate(Table(SCORES), HELD, label="table")
    assert found.predicted.tolist() == [3.5, 1.0, 4.0]
    assert found.metrics == {
        "mae": (0.5 + 0 + 1) / 3,
        "rmse": pytest.approx(np.sqrt((0.25 + 0 + 1) / 3)),
    }
    assert found.user.tolist() == [0, 2]
    assert found.per_user["mae"].tolist() == [0.25, 1.0]
    assert found.per_user["rmse"].tolist() == pytest.approx([np.sqrt(0.125), 1.0])


def test_blocks_do_not_matter(monkeypatch):
    whole = rate(Table(SCORES), HELD, label="table")
    monkeypatch.setattr("entrenous.evaluation.recommend.BLOCK_SCORES", 1)
    single = rate(Table(SCORES), HELD, label="table")
    assert whole.predicted.tolist() == single.predicted.tolist() and whole.metrics == single.metrics


def test_the_scale_is_the_declared_one_or_that_of_all_rows():
    declared, found = (
        rows([0, 1], [0, 1], [2, 4], (0.5, 5)),
        rows([0, 1, 1], [0, 1, 2], [2, 4, 3], None),
    )
    assert declared.rating_scale == (0.5, 5) and found.rating_scale == (2, 4)
    assert found.select(np.array([False, False, True])).rating_scale == (
        2,
        4,
    )  # a part is rated on the scale of the whole
    assert rated(declared, np.array([9, 0], np.float32)).predicted.tolist() == [5.0, 0.5]


def test_every_part_of_a_split_has_the_scale_of_the_data():
    data = build(
        np.repeat(np.arange(8), 8),
        np.tile(np.arange(8), 8),
        value=np.arange(64) % 7,
        users=Vocabulary(size=8),
        items=Vocabulary(size=8),
    )
    for split in splits("kfold-5", data):
        parts = [split.train, split.validation.rows, split.test.rows, split.final_train]
        assert [part.rating_scale for part in parts] == [(0, 6)] * 4


def test_rows_without_ratings_are_refused_in_one_line():
    ones = rows([0, 1], [0, 1], [1, 1], None)
    with pytest.raises(
        InputError, match=r"no ratings to learn from; expected ratings that differ"
    ) as refused:
        rated(ones, np.ones(2, np.float32))
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="no held-out rows"):
        rate(Table(SCORES), HELD.select(np.zeros(3, bool)), label="table")


def test_a_prediction_that_is_no_number_is_refused_by_name():
    bad = SCORES.copy()
    bad[2, 0] = np.nan
    with pytest.raises(NonFiniteError, match="table: a score of user '2' is NaN"):
        rate(Table(bad), HELD, label="table")


def test_an_evaluation_has_errors_beside_the_ranking():
    train = rows([0, 1, 1, 2, 3], [1, 0, 1, 0, 2], [5, 4, 3, 2, 1])
    plain, with_errors = (
        evaluate(Table(SCORES), train, Held(HELD), label="table", ratings=on)
        for on in (False, True)
    )
    assert list(with_errors.metrics)[:2] == ["mae", "rmse"] and "mae" not in plain.metrics
    assert {name: with_errors.metrics[name] for name in plain.metrics} == plain.metrics
    assert with_errors.metrics["mae"] == 0.5 and with_errors.per_user["mae"].tolist() == [0.25, 1.0]
    assert with_errors.protocol[0] == sentence(HELD, "table")
    assert (
        with_errors.protocol[0]
        == "ratings: mae and rmse over 3 held-out ratings, predictions of table clipped to 1 .. 5"
    )


def test_what_predicts_ratings_is_chosen_by_its_error_and_the_rest_by_its_ranking():
    train = rows([0, 1, 1, 2, 3], [1, 0, 1, 0, 2], [5, 4, 3, 2, 1])
    assert goal_of(FBALF()) is RATING and goal_of(FPL()) is RANKING
    assert set(look(RATING, Table(SCORES), train, Held(HELD), label="table", seed=0)) == {
        "mae",
        "rmse",
    }
    assert "ndcg@10" in look(RANKING, Table(SCORES), train, Held(HELD), label="table", seed=0)
    assert RATING.key({"rmse": 0.9}) < RATING.key({"rmse": 1.0}) and RANKING.key(
        {"ndcg@10": 0.4}
    ) < RANKING.key({"ndcg@10": 0.3})
