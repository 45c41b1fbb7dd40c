"""The measures of an audit, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.claims import Claims
from entrenous_audit.measures import (
    EXPOSED,
    LEAKS,
    NOTHING,
    auc,
    bootstrap,
    measured,
    popularity_guess,
    r_precision,
)
from entrenous_audit.transcript import Transcript
from onlooker import histories, movielens

from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Seen
from entrenous.kernels.generator import generator


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(users=60, items=200, interactions=1800, seed=0)


def transcript(data: Any, rounds: int = 3) -> Transcript:
    about = {"view": "individual", "users": len(data.users), "items": len(data.items)}
    return Transcript(
        about,
        data.popularity,
        tuple(Seen(number, {}, np.arange(60), {}) for number in range(rounds)),
    )


def noise(data: Any, name: int) -> Any:
    return generator(name).uniform((60, 200)).astype(np.float32)


def test_ties_count_by_chance() -> None:
    history = np.array([[True, True, False, False]])
    flat, half = np.zeros((1, 4)), np.array([[1.0, 0.0, 0.0, 0.0]])
    assert r_precision(flat, history).tolist() == [0.5] and auc(flat, history).tolist() == [0.5]
    assert r_precision(half, history)[0] == pytest.approx((1 + 1 / 3) / 2)
    assert np.isnan(r_precision(flat, np.zeros((1, 4), bool))[0]) and np.isnan(
        auc(flat, np.ones((1, 4), bool))[0]
    )


def test_the_whole_truth_is_exposed_from_the_round_in_which_half_of_it_is_known(data: Any) -> None:
    history = histories(data)
    first = np.where(
        history, np.cumsum(history, axis=1) * 3 // (history.sum(axis=1, keepdims=True) + 1), -1
    ).astype(np.int32)
    found = measured(
        Claims(np.arange(60), history.astype(np.float32), history, first), transcript(data), data
    )
    assert [found[name] for name in ("precision", "recall", "r_precision", "auc", "worst")] == [
        1.0
    ] * 5
    assert found["verdict"] == EXPOSED and found["rounds_to_half"] == 2
    assert found["low"] < found["advantage"] < found["high"]


def test_a8_popularity_alone_tells_what_the_study_measured() -> None:
    """The study, on its own split: AUC .867, R-precision .334."""
    train = movielens()
    found = popularity_guess(train, np.arange(len(train.users)))
    assert found == pytest.approx({"auc": 0.867, "r_precision": 0.334}, abs=0.01)


def test_recall_is_of_those_spoken_of(data: Any) -> None:
    some, history = np.arange(10), histories(data)[:10]
    found = measured(Claims(some, history.astype(np.float32), history), transcript(data), data)
    assert found["recall"] == 1.0
    assert (found["users"], found["of_users"], found["rounds_to_half"]) == (10, 60, None)


def test_popularity_and_noise_find_nothing_and_a_part_of_the_truth_leaks(data: Any) -> None:
    popular = np.tile(data.popularity.astype(np.float32), (60, 1))
    everybody, seen = np.arange(60), transcript(data)
    guess = measured(Claims(everybody, popular), seen, data)
    assert (
        guess["advantage"] == 0
        and guess["verdict"] == NOTHING
        and guess["precision"] is None
        and guess["recall"] == 0
    )
    assert guess["r_precision"] == pytest.approx(popularity_guess(data, everybody)["r_precision"])
    assert measured(Claims(everybody, noise(data, 1)), seen, data)["verdict"] == NOTHING
    hint = popular + 3 * histories(data) * (noise(data, 2) < 0.3)
    assert measured(Claims(everybody, hint.astype(np.float32)), seen, data)["verdict"] == LEAKS


def test_pseudonyms_are_matched_on_one_half_of_the_items_and_judged_on_the_other(data: Any) -> None:
    order = generator(3).permutation(60)
    history = histories(data)[order]
    found = measured(
        Claims(np.arange(60), history.astype(np.float32), history, named=False),
        transcript(data),
        data,
    )
    assert found["precision"] == found["recall"] == 1.0 and not found["named"]


def test_a_guess_under_pseudonyms_fits_nobody_by_choice(data: Any) -> None:
    """Matched and judged on the same items, noise would seem to know something."""
    found = [
        measured(
            Claims(np.arange(60), noise(data, name), noise(data, name) > 0.85, named=False),
            transcript(data),
            data,
        )
        for name in range(5)
    ]
    chance = len(data) / (60 * 200)
    assert abs(np.mean([one["precision"] for one in found]) - chance) < 0.02
    assert {one["verdict"] for one in found} == {NOTHING}


def test_an_interval_covers_the_mean() -> None:
    values = generator(4).normal(400) + 0.5
    low, high = bootstrap(values)
    assert (
        low is not None
        and high is not None
        and low < values.mean() < high
        and 0.15 < high - low < 0.25
    )
    assert bootstrap(values) == (low, high) and bootstrap(values[:0]) == (None, None)
