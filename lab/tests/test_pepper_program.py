"""PEPPER's experiments as the authors' program runs them: single steps by hand, and small runs."""

from __future__ import annotations

import numpy as np
import pytest
from entrenous_lab.papers import pepper_program as program
from entrenous_lab.papers.pepper_program import (
    Learners,
    Lists,
    Peers,
    ProgramRows,
)
from numba import njit

WIDTH = (6 + 30 + 1) * 8 + 1


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
    learners = program.Learners(
        np.tile(model, (6, 1)),
        np.zeros((6, 2, width), np.float32),
        np.zeros(6, np.int64),
        np.zeros(width, np.float32),
    )
    program._epoch(rows, learners, 2, batch, 2)
    assert learners.steps.tolist() == [0, 0, 1, 0, 0, 0]
    assert not learners.gradient.any()
    moved = learners.model[2] - before
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


def peers(rows: ProgramRows, model: np.ndarray) -> tuple[Learners, Peers]:
    """Returns nodes that begin with these models, and have heard of nobody."""
    nodes, width = model.shape
    learners = Learners(
        model,
        np.zeros((nodes, 2, width), np.float32),
        np.zeros(nodes, np.int64),
        np.zeros(width, np.float32),
    )
    state = Peers(
        np.full(nodes, 3),
        np.zeros(nodes, np.int64),
        np.zeros((nodes, 2)),
        np.full((nodes, nodes), -1.0),
        model.copy(),
        np.full(nodes, -1.0),
    )
    return learners, state


def test_a_model_that_fails_like_the_own_one_is_not_merged() -> None:
    """As the program restores its model and does not train, where both fail."""
    rows = small()
    # 30 negatives with equal scores go before every held-out item: HR@20 is 0 for both.
    negatives = np.tile(np.arange(30, dtype=np.int32), (12, 1))
    rows = rows._replace(weighting=rows.weighting._replace(candidates=negatives))
    learners, state = peers(rows, np.zeros((6, WIDTH), np.float32))
    theirs = np.ones(WIDTH, np.float32)
    program._receive(rows, learners, state, 0, 1, theirs, 9, program.HIT_RATIO)
    assert not learners.model.any()
    assert state.heard[0, 1] == 0.0
    assert (state.updates == 0).all() and (state.age == 3).all()


def test_a_node_that_has_trained_enough_ignores_what_it_receives() -> None:
    rows = small()
    learners, state = peers(rows, np.zeros((6, WIDTH), np.float32))
    state.updates[0] = program.MOST_UPDATES
    program._receive(rows, learners, state, 0, 1, np.ones(WIDTH, np.float32), 1, program.ROWS)
    assert not learners.model.any()
    assert state.updates[0] == program.MOST_UPDATES


def test_merging_and_training_in_one_pass_is_one_after_the_other_to_the_bit() -> None:
    rows = small(items=90)
    width = (6 + 90 + 1) * 8 + 1
    rng = np.random.default_rng(4)
    model = rng.normal(0, 0.3, (6, width)).astype(np.float32)
    theirs = rng.normal(0, 0.3, width).astype(np.float32)
    mine, _ = peers(rows, model.copy())
    mine.moments[:] = np.abs(rng.normal(0, 0.1, mine.moments.shape))
    plain, _ = peers(rows, model.copy())
    plain.moments[:] = mine.moments
    _seed(8)
    program._merge_and_train(rows, mine, 2, theirs, 0.3)
    _seed(8)
    program._merge(plain.model[2], theirs, 0.3)
    own = rows.item[10:15]
    batch = program._batch(rows.items, own)
    assert len(np.unique(batch)) < rows.items
    for _ in range(program.LOCAL_EPOCHS):
        program._epoch(rows, plain, 2, batch, len(own))
    np.testing.assert_array_equal(mine.model, plain.model)
    np.testing.assert_array_equal(mine.moments, plain.moments)
    assert mine.steps.tolist() == plain.steps.tolist() == [0, 0, 2, 0, 0, 0]
    assert not mine.gradient.any()


def test_a_node_keeps_the_last_of_its_best_models() -> None:
    rows = small()
    learners, state = peers(rows, np.zeros((6, WIDTH), np.float32))
    # Four negatives: HR@20 is 1 whatever the model.
    for _ in range(2):
        program._train(rows, learners, state, 0, learners.model[0], 0.0)
        np.testing.assert_array_equal(state.best_model[0], learners.model[0])
    assert state.best_hits[0] == state.performance[0, 0] == 1.0
    kept = state.best_model[0].copy()
    negatives = np.tile(np.arange(30, dtype=np.int32), (12, 1))
    worse = rows._replace(weighting=rows.weighting._replace(candidates=negatives))
    learners.model[:] = 0.0
    program._train(worse, learners, state, 0, np.zeros(WIDTH, np.float32), 1.0)
    assert state.performance[0, 0] < 1.0
    np.testing.assert_array_equal(state.best_model[0], kept)


@pytest.mark.parametrize("best_peers", [0, 1, 2, 3])
def test_a_view_begins_with_the_best_heard_from_and_forgets(best_peers: int) -> None:
    heard = np.full(9, -1.0)
    heard[[3, 7]] = 0.2, 0.6
    views = []
    for _ in range(30):
        view = np.full(program.VIEW, -1)
        mine = heard.copy()
        program._draw_view(view, mine, 5, 9, best_peers)
        assert len(set(view.tolist())) == program.VIEW and 5 not in view
        # As run, L_N is emptied at each new view.
        assert (mine == -1.0).all()
        views.append(tuple(view.tolist()))
    # Two were heard from: they come first, the better one before the other.
    known = min(best_peers, 2)
    assert {view[:known] for view in views} == {(7, 3)[:known]}
    assert len({view[known] for view in views}) > 1


@njit
def _seed(seed: int) -> None:
    """Seeds the generator of compiled functions, which is not NumPy's."""
    np.random.seed(seed)
