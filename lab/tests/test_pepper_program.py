"""PEPPER's experiments as the authors' program runs them: single steps by hand, and small runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from entrenous_lab.papers import pepper_program as program
from entrenous_lab.papers import pepper_run
from entrenous_lab.papers.effort import RowSource
from entrenous_lab.papers.pepper_accuracy import FOURSQUARE, MOVIELENS
from entrenous_lab.papers.pepper_program import (
    Gossip,
    Learners,
    Lists,
    Peers,
    ProgramCurve,
    ProgramRows,
    run_program,
)
from entrenous_lab.papers.pepper_run import COMPETITORS
from entrenous_lab.papers.pepper_run import PEPPER as PEPPER_RUN
from entrenous_lab.papers.pepper_views import rounds_to_converge
from entrenous_lab.papers.program_curves import curves_of
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.table import Trained
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


def test_an_older_model_counts_more_and_makes_older() -> None:
    rows = small()
    learners, state = peers(rows, np.zeros((6, WIDTH), np.float32))
    program._receive(rows, learners, state, 0, 1, np.ones(WIDTH, np.float32), 9, program.AGE)
    # Vectors of other users are merged and not trained: 9 / (3 + 9) of ones.
    np.testing.assert_allclose(learners.model[0, 8:48], 0.75)
    assert state.age.tolist() == [10, 3, 3, 3, 3, 3]
    # Ages say nothing of how well a model does.
    assert (state.heard == -1.0).all()


def test_models_count_by_the_rows_of_their_nodes() -> None:
    """The peer has one row and the sender four, so that the merge takes 4 / 5 of the sender's."""
    rows = small()
    rows = rows._replace(ptr=np.array([0, 1, 5, 10, 15, 20, 25]))
    learners, state = peers(rows, np.zeros((6, WIDTH), np.float32))
    program._receive(rows, learners, state, 0, 1, np.ones(WIDTH, np.float32), 1, program.ROWS)
    np.testing.assert_allclose(learners.model[0, 8:48], 0.8)
    assert state.age.tolist() == [4, 3, 3, 3, 3, 3]


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
    first = run_program(rows, Gossip(weighing, 12), 3)
    again = run_program(rows, Gossip(weighing, 12), 3)
    other = run_program(rows, Gossip(weighing, 12), 4)
    for mine, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(mine, same)
    assert not np.array_equal(first.by_round, other.by_round)
    # The reported round is the best one: no other round has a higher NDCG@20.
    assert first.best[:, 5].mean() == pytest.approx(first.by_round[:, 5].max())
    # The last round that is evaluated is that of the restored models.
    np.testing.assert_allclose(first.by_round[-1], first.restored.mean(axis=0))
    np.testing.assert_allclose(first.node_hits[-1], first.restored[:, 8])


def test_reptile_goes_on_alone_after_the_gossip() -> None:
    rows = small()
    gossip = run_program(rows, Gossip(program.ROWS, 12), 3)
    reptile = run_program(rows, Gossip(program.ROWS, 12, reptile=True), 3)
    # One training is both decentralised FedAvg and Reptile's beginning.
    for field in ("by_round", "best", "last", "restored"):
        np.testing.assert_array_equal(getattr(gossip, field), getattr(reptile, field))
    assert not gossip.tuned.any()
    assert reptile.tuned.any()
    assert not np.array_equal(reptile.tuned, reptile.restored)


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


def test_alpha_and_the_size_of_the_view_change_a_run() -> None:
    rows = small()
    usual = run_program(rows, Gossip(program.HIT_RATIO_NDCG, 22), 3)
    at_random = run_program(rows, Gossip(program.HIT_RATIO_NDCG, 22, alpha=1.0), 3)
    wide = run_program(rows, Gossip(program.HIT_RATIO_NDCG, 22, view_size=5), 3)
    # The first view is drawn at random; the second one, after the first round, of those heard from.
    assert not np.array_equal(usual.by_round, at_random.by_round)
    assert not np.array_equal(usual.by_round, wide.by_round)


@njit
def _seed(seed: int) -> None:
    """Seeds the generator of compiled functions, which is not NumPy's."""
    np.random.seed(seed)


def test_a_run_is_remembered_by_its_rows_settings_and_seed(tmp_path: Path) -> None:
    rows = small()
    asked = [(Gossip(program.AGE, 4), 0), (Gossip(program.AGE, 4), 1)]
    first = curves_of(Cells(tmp_path, threads=2), rows, asked)
    files = sorted(tmp_path.glob("program-*.npz"))
    assert len(files) == 2
    kept = [file.stat().st_mtime_ns for file in files]
    again = curves_of(Cells(tmp_path), rows, asked)
    for mine, same in zip(first, again, strict=True):
        for figures, remembered in zip(mine, same, strict=True):
            np.testing.assert_array_equal(figures, remembered)
    assert [file.stat().st_mtime_ns for file in files] == kept
    # Other settings and other rows are other runs; a damaged file is made again.
    files[0].write_bytes(b"PK no archive")
    curves_of(Cells(tmp_path), rows, asked)
    curves_of(Cells(tmp_path), rows, [(Gossip(program.AGE, 4, alpha=1.0), 0)])
    curves_of(Cells(tmp_path), small(items=31), asked[:1])
    assert len(sorted(tmp_path.glob("program-*.npz"))) == 4
    with np.load(files[0], allow_pickle=False) as mended:
        assert set(mended) == set(ProgramCurve._fields)


def curve_of(hits: list[list[float]]) -> ProgramCurve:
    """Returns a curve of these HR@20 over rounds and nodes; each figure tells its array and node."""
    node_hits = np.array(hits, np.float32)
    nodes = node_hits.shape[1]
    each = np.arange(nodes)[:, None] + np.arange(12) / 100
    best, last, restored, tuned = (each + 10 * field for field in range(4))
    return ProgramCurve(np.zeros((len(hits), 12)), best, last, restored, tuned, node_hits)


def test_a_node_has_converged_in_its_first_round_near_its_best() -> None:
    curve = curve_of([[0.1, 0.9, 0.5], [0.78, 0.8, 0.5], [0.8, 1.0, 0.2]])
    assert rounds_to_converge(curve).tolist() == [2.0, 3.0, 1.0]


@dataclass(frozen=True)
class SmallStudy:
    """What the rows of a table ask of a study."""

    source: RowSource
    name: str
    seeds: tuple[int, ...] = (0,)
    quick: bool = False


@pytest.mark.parametrize("source", [MOVIELENS, FOURSQUARE])
def test_each_system_has_a_row_for_each_moment_and_reptile_its_end(source: RowSource) -> None:
    study = SmallStudy(source, str(source))
    curves = {system: [curve_of([[0.5, 0.4]])] for system in (*COMPETITORS, PEPPER_RUN)}
    trained = Trained(study=study, systems=[], more=curves)  # type: ignore[arg-type]
    rows = {(row["system"], row["metric"]): row for row in pepper_run.rows_of(trained)}
    # best, last, restored and tuned are 0, 10, 20 and 30 more.
    for moment, more in (("best round by test rows", 0), ("last round", 10)):
        assert rows[f"model age, {moment}", "hr@5"]["obtained"] == pytest.approx(0.5 + more)
    ended = "decentralised Reptile, after its meta epochs"
    assert rows[ended, "ndcg@20"]["obtained"] == pytest.approx(30.55)
    assert ("decentralised Reptile, last round", "hr@5") not in rows
    repeats = f"{ended}, {pepper_run.WITH_REPEATS}"
    on_foursquare = source == FOURSQUARE
    assert ((repeats, "hr@5") in rows) == on_foursquare
    # The printed figures stand beside the test rows of the program alone.
    printed = [key for key, row in rows.items() if row["paper"] is not None]
    assert len(printed) == 4 * 6
    assert all(name.endswith(pepper_run.WITH_REPEATS) == on_foursquare for name, _ in printed)
    if on_foursquare:
        assert rows[repeats, "hr@5"]["obtained"] == pytest.approx(30.56)


def test_reptile_and_averaging_are_of_one_training() -> None:
    gossips = [system.gossip for system in pepper_run.SYSTEMS]
    assert len(gossips) == 6 and len(set(gossips)) == 5
