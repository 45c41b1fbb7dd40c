"""PRME-G: distances on the globe, a device's own sequence, the step against finite differences,
scores against plain NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entrenous.core.contract.gossip import Weighing
from entrenous.core.contract.protocols import Moments, Visits
from entrenous.core.keys import folds, key
from entrenous.kernels import prme, visit_sequence
from entrenous.kernels.geography import flat_points, kilometres, points
from entrenous.kernels.prme import spatial_weight
from entrenous.systems._federated_prme import moves
from entrenous.systems._gossip_prme import hits, performance

ITEMS, FACTORS, NODES = 23, 3, 3
WHO = np.arange(NODES)
NEAREST = prme.PRMEScoring(prme.NEAREST, np.float32(0.3))
PTR, ITEM = (
    np.array([0, 5, 5, 8]),
    np.array([1, 4, 8, 9, 20, 0, 2, 22], np.int32),
)  # node 1 has no rows
TIME = np.array([50, 10, 40, 20, 30, 7, 5, 6], np.int64) * 3600
ROW = np.arange(8)


def places(seed: int = 0) -> np.ndarray:
    """Degrees, around New York; of venue 3 nothing is known."""
    random = np.random.default_rng(seed)
    found = np.stack([random.uniform(40.5, 41, ITEMS), random.uniform(-74.3, -73.7, ITEMS)], axis=1)
    found[3] = np.nan
    return found


def rows(**change: Any) -> prme.PRMERows:
    own = {"ptr": PTR, "item": ITEM, "avoid_ptr": PTR, "avoid": ITEM, "time": TIME, "row": ROW}
    made = {**own, "point": points(places()).reshape(-1), **change}
    return prme.PRMERows(**{"visits": Moments(made["time"], made["row"], None).each, **made})


def rates(**change: Any) -> prme.PRMERates:
    numbers = {"rate": 0.1, "reg": 0.01, "alpha": 0.3, "tau": 0, "epochs": 1} | change
    return prme.PRMERates(
        *(np.float32(numbers[name]) for name in ("rate", "reg", "alpha")),
        numbers["tau"],
        numbers["epochs"],
    )


def models(seed: int = 1) -> np.ndarray:
    pool, random = (
        np.zeros((NODES, prme.width_of(ITEMS, FACTORS)), np.float32),
        np.random.default_rng(seed),
    )
    pool[:, : 2 * FACTORS * ITEMS] = random.normal(0, 0.5, (NODES, 2 * FACTORS * ITEMS))
    return pool


def users(seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.5, (NODES, FACTORS)).astype(np.float32)


def table(model: np.ndarray) -> np.ndarray:
    """P and S, float64 [items, 2, factors]."""
    return model[: 2 * FACTORS * ITEMS].astype(np.float64).reshape(ITEMS, 2, FACTORS)


def haversine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kilometres between degrees [.., 2], as everybody computes them."""
    a, b = np.radians(a), np.radians(b)
    h = (
        np.sin((b - a)[..., 0] / 2) ** 2
        + np.cos(a[..., 0]) * np.cos(b[..., 0]) * np.sin((b - a)[..., 1] / 2) ** 2
    )
    return 2 * 6371.0088 * np.arcsin(np.sqrt(np.minimum(1, h)))


def weight(a: int, b: int) -> float:
    """(1 + km)^0.25, 1 where it is not known where."""
    km = haversine(places()[a], places()[b])
    return 1.0 if np.isnan(km) else float((1 + km) ** 0.25)


def distance(
    user: np.ndarray, vectors: np.ndarray, c: int, venue: int, alpha: float = 0.3
) -> float:
    """D(u, c, l), in float64."""
    to_user = ((user - vectors[venue, 0]) ** 2).sum()
    if c < 0:
        return float(to_user)
    return float(
        weight(c, venue)
        * (alpha * to_user + (1 - alpha) * ((vectors[c, 1] - vectors[venue, 1]) ** 2).sum())
    )


# ---- on the globe --------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [0.001, 0.1, 10, 89])
def test_great_circles_are_those_of_the_haversine_formula(span: float) -> None:
    random = np.random.default_rng(3)
    a, b = (
        np.stack(
            [random.uniform(-span, span, 200), random.uniform(-2 * span, 2 * span, 200)], axis=1
        )
        for _ in range(2)
    )
    square = ((points(a) - points(b)) ** 2).sum(axis=1, dtype=np.float32)
    found, truth = np.array([kilometres(np.float32(one)) for one in square]), haversine(a, b)
    assert np.abs(found - truth).max() < 0.001 + 5e-6 * truth.max()  # a metre: the grid of float32
    weights = np.array([spatial_weight(np.float32(one)) for one in square])
    assert weights == pytest.approx((1 + truth) ** 0.25, abs=3e-4)


def test_points_are_worked_out_once_for_the_same_places() -> None:
    here, there = places(1), places(2)
    first = flat_points(here)
    assert flat_points(here) is first and first.tobytes() == points(here).tobytes()
    assert flat_points(there).tobytes() == points(there).tobytes() != first.tobytes()
    assert flat_points(here).tobytes() == first.tobytes()


def test_the_other_end_of_the_world_the_same_place_and_nowhere() -> None:
    poles = points(np.array([[90.0, 0.0], [-90.0, 0.0]]))
    assert kilometres(np.float32(((poles[0] - poles[1]) ** 2).sum())) == pytest.approx(
        np.pi * 6371.0088, rel=1e-6
    )
    assert kilometres(np.float32(4.0001)) == pytest.approx(
        np.pi * 6371.0088, rel=1e-6
    )  # as rounding may have it
    assert spatial_weight(np.float32(0)) == 1 == spatial_weight(np.float32(np.nan))


# ---- a device's own sequence ---------------------------------------------------------------------


def test_equal_times_go_by_the_place_in_the_source_and_rows_without_a_time_stand_alone() -> None:
    time = np.array([5, 5, visit_sequence.NO_TIME, 5, visit_sequence.NO_TIME], np.int64)
    order = visit_sequence.in_order(time, np.array([8, 2, 9, 4, 1]))
    assert order.tolist() == [4, 2, 1, 3, 0]
    assert visit_sequence.previous(time, order, 0).tolist() == [3, -1, -1, 1, -1]


def test_a_long_gap_cuts_the_sequence() -> None:
    time = np.array([0, 10, 25, 26], np.int64)
    order = visit_sequence.in_order(time, np.arange(4))
    assert visit_sequence.previous(time, order, 0).tolist() == [-1, 0, 1, 2]
    assert visit_sequence.previous(time, order, 10).tolist() == [-1, 0, -1, 2]
    assert visit_sequence.previous(time[:0], order[:0], 0).tolist() == []


@pytest.mark.parametrize("seen", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_every_venue_but_the_observed_ones_may_be_drawn_and_none_twice(seen: list[int]) -> None:
    own, avoid = (
        np.array([2, 5, 9], np.int32),
        np.array([1, 2, 5, 9], np.int32),
    )  # one more is avoided
    many = 10 - 4 + 3 - len(seen)
    drawn = [prme.unobserved(own, avoid, np.array(seen, np.int32), k, 10 - 4) for k in range(many)]
    assert sorted(drawn) == sorted({0, 3, 4, 6, 7, 8, 2, 5, 9} - {int(own[r]) for r in seen})


def test_a_sequence_goes_from_visit_to_visit_repeated_ones_too() -> None:
    """Node 0 goes 4 8 4 8 1 9 9 20, node 2 goes 2 0; 22 was at an unknown time."""
    when = {
        0: [(1, 50), (4, 10), (4, 30), (8, 20), (8, 40), (9, 60), (9, 70), (20, 80)],
        2: [(0, 6), (2, 5), (22, visit_sequence.NO_TIME)],
    }
    both = [when[0], when[2]]
    counts = [
        sum(v == venue for v, _ in own) for own in both for venue in sorted({v for v, _ in own})
    ]
    time = np.array([t for own in both for _, t in own], np.int64)
    visits = Visits(np.concatenate([[0], np.cumsum(counts)]), time, np.arange(len(time)))
    of = rows(visits=visits)
    seen = visit_sequence.sequence_of(of.visits, 0, 5, 0)
    names = ITEM[:5]
    assert names[seen.item].tolist() == [1, 4, 4, 8, 8, 9, 9, 20]
    went = {
        int(names[c]): names[seen.next[seen.ptr[c] : seen.ptr[c + 1]]].tolist() for c in range(5)
    }
    assert went == {1: [9], 4: [8], 8: [1, 4], 9: [9, 20], 20: []}
    assert (seen.before == visit_sequence.NOWHERE).tolist() == [False, True, *[False] * 6]
    assert [int(names[seen.item[b]]) for b in seen.before if b != visit_sequence.NOWHERE] == [
        8,
        8,
        4,
        4,
        1,
        9,
        9,
    ]
    other = visit_sequence.sequence_of(of.visits, 5, 8, 0)
    assert ITEM[5:8][other.next].tolist() == [0] and (
        other.before == visit_sequence.NOWHERE
    ).tolist() == [False, True, True]
    assert len(visit_sequence.sequence_of(of.visits, 5, 5, 0).item) == 0


def test_repeated_visits_are_further_steps() -> None:
    """With each row visited twice, a device takes two steps for each, and draws no venue that it
    went to from where it was.
    """
    twice = Visits(np.arange(0, 17, 2), np.sort(np.concatenate([TIME, TIME + 1])), np.arange(16))
    own, met = rows(visits=twice), np.full(40, -1, np.int32)
    found = prme.learn(models()[0], users()[0], own, 0, rates(epochs=2), key(3), met)
    assert found == 5 + 2 * 10 and prme.met_by(own, 0, 2) == found
    assert (met[:found] >= 0).all() and (met[found:] == -1).all()


def test_a_device_that_went_from_everywhere_to_everywhere_takes_no_step() -> None:
    """Two venues in all, each after each: no venue is left to draw but for the first visit, which
    came from nowhere.
    """
    one = np.array([0, 2])
    own = prme.PRMERows(
        one,
        np.array([0, 1], np.int32),
        one,
        np.array([0, 1], np.int32),
        np.array([4, 3]),
        np.arange(2),
        Visits(np.array([0, 3, 5]), np.array([0, 1, 4, 2, 3]), np.arange(5)),
        points(places()[:2]).reshape(-1),
    )
    met = np.full(7, -1, np.int32)
    assert (
        prme.learn(models()[0], users()[0], own, 0, rates(), key(1), met) == 3
    )  # its two venues, and one drawn
    assert met[:3].tolist() == [0, 1, 1] and met[3] == -1


# ---- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c", "i", "j"), [(4, 9, 11), (4, 9, 4), (4, 4, 9), (3, 8, 0), (-1, 7, 2)])
def test_a_step_is_the_gradient(c: int, i: int, j: int) -> None:
    """Against finite differences of ln sigma(z) - reg |theta|^2: of three venues, j = c, i = c, one
    that is nowhere, no c at all.
    """
    how, start, user = rates(rate=1e-3), models()[0], users()[0]

    def objective(u: np.ndarray, vectors: np.ndarray) -> float:
        z = distance(u, vectors, c, j) - distance(u, vectors, c, i)
        touched = (
            [(u,)]
            + [(vectors[v, 0],) for v in (i, j)]
            + [(vectors[v, 1],) for v in {c, i, j} if c >= 0]
        )
        return float(-np.log1p(np.exp(-z)) - 0.01 * sum((one**2).sum() for (one,) in touched))

    model, u = start.copy(), user.copy()
    w_i, w_j = (np.float32(1 if c < 0 else weight(c, venue)) for venue in (i, j))
    prme.step(model, u, c, i, j, w_i, w_j, how)
    vectors, theta = table(start), user.astype(np.float64)
    gradient_u, gradient = np.zeros(FACTORS), np.zeros((ITEMS, 2, FACTORS))
    for where, out in ((theta, gradient_u), (vectors, gradient)):
        for at in np.ndindex(*where.shape):
            kept, values = where[at], []
            for change in (1e-5, -1e-5):
                where[at] = kept + change
                values.append(objective(theta, vectors))
            where[at], out[at] = kept, (values[0] - values[1]) / 2e-5
    assert (u - user) / 1e-3 == pytest.approx(gradient_u, abs=2e-3)
    assert (table(model) - table(start)) / 1e-3 == pytest.approx(gradient, abs=2e-3)
    assert np.abs(gradient_u).max() > 0.01 and np.abs(gradient).max() > 0.01


def trained(
    pool: np.ndarray, user: np.ndarray, how: prme.PRMERates, own: prme.PRMERows, seed: int = 5
) -> None:
    prme.train(pool, WHO, user, WHO, own, how, folds(key(seed, "train"), WHO))


def test_what_is_avoided_is_never_pushed_away_and_who_avoids_everything_still_has_its_own() -> None:
    before, pool, everything = models(), models(), np.arange(ITEMS, dtype=np.int32)
    own = rows(
        avoid_ptr=np.array([0, ITEMS, ITEMS, 2 * ITEMS]),
        avoid=np.concatenate([everything, everything]),
    )
    trained(pool, users(), rates(epochs=5), own)
    for node, mine in ((0, ITEM[:5]), (2, ITEM[5:])):
        moved = np.flatnonzero((table(pool[node]) != table(before[node])).any(axis=(1, 2)))
        assert moved.tolist() == mine.tolist()


def test_moves_are_what_training_changes_item_by_item() -> None:
    model, user, keys = models()[0], users(), folds(key(5, "train"), WHO)
    sent = moves(
        table(model).astype(np.float32).reshape(ITEMS, -1), user, rows(), rates(epochs=3), keys
    )
    pool, learnt = np.repeat(model[None], NODES, axis=0), users()
    prme.train(pool, WHO, learnt, WHO, rows(), rates(epochs=3), keys)
    assert sent.user.tobytes() == learnt.tobytes() and user.tobytes() == users().tobytes()
    for d in WHO:
        part = slice(sent.ptr[d], sent.ptr[d + 1])
        assert (np.diff(sent.item[part]) > 0).all()
        moved = np.zeros((ITEMS, 2 * FACTORS), np.float32)
        moved[sent.item[part]] = sent.row[part]
        size = 2 * FACTORS * ITEMS
        assert np.array_equal(moved.reshape(-1), pool[d, :size] - model[:size])
    assert np.diff(sent.ptr).tolist()[1] == 0


# ---- judging -------------------------------------------------------------------------------------


def expected(
    node: int, how: int, pool: np.ndarray, user: np.ndarray, mine: np.ndarray, latest: int | None
) -> np.ndarray:
    vectors, theta = table(pool[node]), user[node].astype(np.float64)
    if not len(mine):
        return np.array([-distance(theta, vectors, -1, venue) for venue in range(ITEMS)])
    start = [latest] if how == prme.LATEST else mine.tolist()
    each = np.array([[distance(theta, vectors, c, venue) for venue in range(ITEMS)] for c in start])
    return -(each.mean(axis=0) if how == prme.MEAN else each.min(axis=0))


@pytest.mark.parametrize("how", [prme.NEAREST, prme.MEAN, prme.LATEST])
def test_scores_are_minus_the_distances_from_where_the_user_has_been(how: int) -> None:
    pool, user = models(), users()
    found = prme.scores(pool, WHO, user, WHO, rows(), prme.PRMEScoring(how, np.float32(0.3)))
    assert found.dtype == np.float32 and found.shape == (NODES, ITEMS)
    for node, latest in ((0, 1), (1, None), (2, 0)):
        truth = expected(node, how, pool, user, ITEM[PTR[node] : PTR[node + 1]], latest)
        assert found[node] == pytest.approx(truth, rel=2e-4, abs=2e-4)


def test_more_venues_than_fit_into_a_tile_are_scored_as_any_others() -> None:
    items, random = 2 * prme.TILE + 5, np.random.default_rng(4)
    pool = random.normal(0, 0.5, (1, prme.width_of(items, FACTORS))).astype(np.float32)
    point = points(
        np.stack([random.uniform(40, 41, items), random.uniform(-74, -73, items)], axis=1)
    ).reshape(-1)
    here, own = np.arange(1), rows(ptr=np.array([0, 5]), point=point)
    whole = prme.scores(pool, here, users(), here, own, NEAREST)[0]
    some = random.permutation(items)[:40].astype(np.int32)
    out = np.empty(40, np.float32)
    prme.score(
        pool[0],
        users()[0],
        ITEM[:5],
        some,
        point,
        NEAREST,
        prme.room_of(FACTORS),
        out,
    )
    assert out.tobytes() == whole[some].tobytes()


def test_performance_is_the_f1_of_a_node_s_weighting_venues_in_one_list() -> None:
    pool, user = models(), users()
    ptr, item = np.array([0, 2, 3, 3]), np.array([6, 11, 5], np.int32)
    candidates = np.array(
        [[0, 2, 11, 12, -1, 13], [9, 9, 9, 9, 9, 9], [14, 15, -1, 16, 17, 18]], np.int32
    )
    sets = Weighing(ptr, item, candidates)
    f1 = performance(pool, WHO, user, WHO, rows(), NEAREST, sets, 3)
    scores = prme.scores(pool, WHO, user, WHO, rows(), NEAREST)
    for node, relevant, others in ((0, [6, 11], [0, 2, 12, 13]), (1, [5], [14, 15, 16, 17, 18])):
        best = sorted([*relevant, *others], key=lambda venue: -scores[node, venue])[:3]
        hits = len(set(best) & set(relevant))
        assert f1[node] == pytest.approx(
            2 * hits / (3 + len(relevant))
        )  # 2 P R / (P + R), P = hits / 3, R = hits / relevant
    assert f1[2] == 0  # it has no weighting set


def test_equal_scores_count_against_the_weighting_venues() -> None:
    assert hits(np.zeros(4, np.float32), 1, 3) == 0
    assert hits(np.array([2, 1, 0, 1], np.float32), 2, 1) == 1
    assert hits(np.array([2, 1, 0, 1], np.float32), 2, 3) == 2
