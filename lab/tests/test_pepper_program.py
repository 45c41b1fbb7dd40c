"""PEPPER's experiments as the authors' program runs them: single steps by hand, and small runs."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_lab.papers import pepper_program as program
from entrenous_lab.papers.pepper_program import Lists, ProgramRows, run_program


def small(users: int = 6, items: int = 30) -> ProgramRows:
    """Rows of users who each consumed five items in a row; the next two weigh and test."""
    first = np.arange(users) * 3 % items
    item = np.sort((first[:, None] + np.arange(5)) % items, axis=1).astype(np.int32)

    def lists(at: int) -> Lists:
        held = ((first + at) % items)[:, None] + np.zeros((1, 2), np.int64)
        held[:, 1] = (held[:, 1] + 2) % items
        negatives = (held.ravel()[:, None] + 9 + np.arange(4)) % items
        repeats = np.zeros(held.size, np.bool_)
        return Lists(
            np.arange(users + 1) * 2,
            held.ravel().astype(np.int32),
            negatives.astype(np.int32),
            repeats,
        )

    ptr = np.arange(users + 1, dtype=np.int64) * 5
    return ProgramRows(items, ptr, item.ravel(), lists(5), lists(6))


def test_a_step_of_adam_is_that_of_keras() -> None:
    rng = np.random.default_rng(0)
    model = rng.normal(size=6).astype(np.float32)
    moments = np.abs(rng.normal(size=(2, 6))).astype(np.float32)
    slope = rng.normal(size=6).astype(np.float32)
    mean = 0.9 * moments[0] + 0.1 * slope
    square = 0.999 * moments[1] + 0.001 * slope**2
    wanted = model - 0.01 * mean / (np.sqrt(square) + 1e-8)
    wanted[0] = model[0]
    gradient = slope.copy()
    program._adam(model, moments, gradient, 1, 6, np.float32(0.01))
    np.testing.assert_allclose(model, wanted, rtol=1e-5)
    assert gradient[0] == slope[0]
    assert not gradient[1:].any()


def test_an_epoch_goes_down_the_mean_cross_entropy() -> None:
    """Compares the gradient of one epoch with finite differences, through Adam's first step: its
    size is the learning rate, and its sign is the gradient's.
    """
    rows = small()
    width = (6 + rows.items + 1) * program.FACTORS + 1
    model = np.random.default_rng(1).normal(0, 0.3, width).astype(np.float32)
    batch = np.array([0, 1, 7, 9, 11], np.int64)

    def loss(numbers: np.ndarray) -> float:
        logits = [program._score(rows, numbers, 2, item) for item in batch]
        wanted = np.array([1, 1, 0, 0, 0])
        chance = 1 / (1 + np.exp(-np.array(logits)))
        return float(-np.mean(wanted * np.log(chance) + (1 - wanted) * np.log(1 - chance)))

    before = model.copy()
    moments = np.zeros((2, width), np.float32)
    gradient = np.zeros(width, np.float32)
    program._epoch(rows, model, moments, gradient, 2, np.zeros(6, np.int64), batch, 2)
    moved = model - before
    user_at, item_at, output_at = 16, (6 + 7) * 8, width - 9
    for place in (*range(user_at, user_at + 8), item_at, item_at + 3, output_at, width - 1):
        nudged = before.astype(np.float64)
        nudged[place] += 1e-4
        slope = (loss(nudged) - loss(before.astype(np.float64))) / 1e-4
        assert np.sign(moved[place]) == -np.sign(slope), place
        assert abs(moved[place]) == pytest.approx(0.01, rel=1e-2)
    # Vectors of other users, and of items outside the batch, stay.
    assert not moved[:16].any()
    assert not moved[(6 + 20) * 8 : (6 + 21) * 8].any()


def test_a_model_that_fails_like_the_own_one_is_not_merged() -> None:
    """As the program restores its model and does not train, where both fail."""
    rows = small()
    # 30 negatives with equal scores go before every held-out item: HR@20 is 0 for both.
    negatives = np.tile(np.arange(30, dtype=np.int32), (12, 1))
    rows = rows._replace(weighting=rows.weighting._replace(candidates=negatives))
    mine = np.zeros((6 + 30 + 1) * 8 + 1, np.float32)
    theirs = np.ones_like(mine)
    heard = np.full((6, 6), -1.0)
    age = np.full(6, 3)
    trains = program._receive(rows, mine, theirs, age, 9, 0, 1, program.HIT_RATIO, heard)
    assert not trains
    assert not mine.any()
    assert heard[0, 1] == 0.0
    assert age[0] == 9
    merged = program._receive(rows, mine, theirs, age, 1, 0, 1, program.AGE, heard)
    assert merged
    np.testing.assert_allclose(mine, 0.1)


def test_repeats_count_in_the_second_six_figures_alone() -> None:
    rows = small()
    model = np.random.default_rng(2).normal(size=(6 + 30 + 1) * 8 + 1).astype(np.float32)
    both = np.zeros(12)
    program._measure(rows, rows.test, model, 0, both)
    np.testing.assert_array_equal(both[:6], both[6:])
    marked = rows.test._replace(repeats=np.arange(12) % 2 == 1)
    program._measure(rows, marked, model, 0, both)
    scores = [program._score(rows, model, 0, item) for item in range(30)]
    item = rows.test.item[0]
    place = sum(scores[negative] >= scores[item] for negative in rows.test.candidates[0])
    assert both[2] == 1.0
    assert both[5] == pytest.approx(np.log(2) / np.log(place + 2))


@pytest.mark.parametrize("weighing", range(5))
def test_the_same_seed_gives_the_same_figures(weighing: int) -> None:
    rows = small()
    first = run_program(rows, weighing, 12, 3)
    again = run_program(rows, weighing, 12, 3)
    other = run_program(rows, weighing, 12, 4)
    for mine, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(mine, same)
    assert not np.array_equal(first.by_round, other.by_round)
    # The reported round is the best one: no other round has a higher NDCG@20.
    assert first.best[:, 5].mean() == pytest.approx(first.by_round[:, 5].max())


def test_reptile_goes_on_alone_after_the_gossip() -> None:
    rows = small()
    gossip = run_program(rows, program.ROWS, 12, 3)
    reptile = run_program(rows, program.ROWS, 12, 3, reptile=True)
    np.testing.assert_array_equal(gossip.by_round, reptile.by_round)
    assert not np.array_equal(gossip.last, reptile.last)
