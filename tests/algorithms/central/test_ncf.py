"""Centralised GMF, MLP and NeuMF: against automatic differentiation and finite differences;
pre-training; what they learn.
"""

from __future__ import annotations

import hashlib
from typing import Any

import ncf_by_autograd
import numpy as np
import pytest
from autograd import grad
from plain_python import printed_both_ways

from entrenous.core.errors import InputError
from entrenous.core.keys import below, draw, folds, key, normals
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.kernels import ncf
from entrenous.kernels.sampling import negative
from entrenous.systems.central import ncf as central
from entrenous.systems.central.ncf import CentralNCF, learn
from entrenous.systems.central.popular import Popular

MODELS: dict[str, dict[str, Any]] = {
    "gmf": {"factors": 5, "layers": ()},
    "mlp": {"factors": 0, "layers": (6, 3)},
    "neumf": {"factors": 5, "layers": (6, 3)},
}
WAYS: dict[str, dict[str, Any]] = {
    "SGD, one sample a step": {"batch": 1},
    "SGD, batches across users, reg": {"batch": 7, "reg": 0.3},
    "SGD, one step": {"batch": 1000},
    "Adam": {"batch": 4, "adam": True},
    "Adam, reg": {"batch": 11, "adam": True, "reg": 0.2},
}
USERS, ITEMS, NEGATIVES = 5, 8, 2
EVERYTHING = [(3, item) for item in range(ITEMS)]  # user 2 has nothing
ROWS = [(0, 1), (0, 4), (0, 6), (1, 0), *EVERYTHING, (4, 2), (4, 3)]


def data() -> Interactions:
    user, item = np.array(ROWS).T
    return build(user, item, users=Vocabulary(size=USERS), items=Vocabulary(size=ITEMS))


def rows_of(data: Interactions) -> central.NCFRows:
    return central.NCFRows(data.ptr, data.user.astype(np.int32), data.item, ITEMS)


def rates(*, batch: int, reg: float = 0.0, adam: bool = False, rate: float = 0.1) -> ncf.NCFRates:
    """With an epsilon that does not enlarge slopes which float32 nearly loses."""
    speed = np.float32(rate)
    return ncf.NCFRates(
        speed,
        speed,
        speed,
        np.float32(reg),
        np.float32(0),
        adam,
        np.float32(1e-3),
        1,
        NEGATIVES,
        batch,
    )


def start(name: str, way: ncf.NCFRates) -> tuple[CentralNCF, Any]:
    """A model with embeddings and biases of some size."""
    algorithm = CentralNCF(**MODELS[name], optimiser="adam" if way.adam else "sgd", init_std=0.5)
    state, shape = algorithm._start(data(), key(1, name)), algorithm.shape
    for part, at in ncf_by_autograd.places(shape, algorithm.layers).items():
        state.net[0, at] += normals(folds(key(2, part), np.arange(at.size)), 1, 0.3).reshape(
            at.shape
        )
    return algorithm, state


def trained(name: str, way: ncf.NCFRates, epochs: int) -> tuple[CentralNCF, Any, Any]:
    """The model, its parts at the start and after some epochs of `learn`, float64."""
    algorithm, state = start(name, way)
    before, rows = parts_of(algorithm, state), data()
    room = central._room(algorithm.shape, way, len(state.table), len(rows.item))
    for epoch in range(epochs):
        learn(algorithm.shape, way, state, rows_of(rows), key(3, epoch), room)
    assert (room.slot_of == -1).all() and not room.gnet.any()  # as the next epoch finds them
    return algorithm, before, parts_of(algorithm, state)


def parts_of(algorithm: CentralNCF, state: Any) -> dict[str, np.ndarray]:
    row = ncf.unpadded(algorithm.shape, state.table)
    return ncf_by_autograd.model(
        algorithm.shape, algorithm.layers, row[:USERS], row[USERS:], state.net[0]
    )


def drawn(epoch: int) -> list[tuple[int, int, float]]:
    """The samples of an epoch: the rows in the order of a Fisher-Yates shuffle, after each its
    negatives.
    """
    own, histories = (
        key(3, epoch),
        [sorted(item for user, item in ROWS if user == u) for u in range(USERS)],
    )
    rows, out = sorted(ROWS), []
    order, free = list(range(len(rows))), [ITEMS - len(history) for history in histories]
    for r in range(len(rows) - 1, 0, -1):
        other = below(np.uint64(draw(own, r)), r + 1)
        order[r], order[other] = order[other], order[r]
    count = len(rows)
    for user, item in (rows[r] for r in order):
        out.append((user, item, 1.0))
        for _ in range(NEGATIVES if free[user] else 0):
            k = below(np.uint64(draw(own, count)), free[user])
            out.append((user, negative(np.array(histories[user], np.int32), k), 0.0))
            count += 1
    return out


def loss(parts: Any, batch: list[tuple[int, int, float]], algorithm: CentralNCF, reg: float) -> Any:
    """The mean of cross-entropy + reg/2 (|p|^2 + |q|^2), as the devices have it."""
    single = [
        ({**parts, "user": parts["user"][user]}, [(item, label)]) for user, item, label in batch
    ]
    return sum(
        ncf_by_autograd.loss(part, sample, algorithm.factors, algorithm.layers, reg)
        for part, sample in single
    ) / len(batch)


def reference(algorithm: CentralNCF, parts: Any, way: ncf.NCFRates, epochs: int) -> Any:
    """What `learn` claims to do, in float64 with automatic differentiation."""
    slope, parts, t = grad(loss), dict(parts), 0
    first, second = ({name: np.zeros_like(part) for name, part in parts.items()} for _ in range(2))
    for epoch in range(epochs):
        samples = drawn(epoch)
        for low in range(0, len(samples), way.batch):
            batch, t = samples[low : low + way.batch], t + 1
            gradient = slope(parts, batch, algorithm, float(way.reg))
            touched = {
                "user": sorted({sample[0] for sample in batch}),
                "item": sorted({sample[1] for sample in batch}),
            }
            for name in parts:
                rows = touched.get(name, slice(None))
                g = gradient[name][rows]
                if way.adam:
                    first[name][rows] = 0.9 * first[name][rows] + 0.1 * g
                    second[name][rows] = 0.999 * second[name][rows] + 0.001 * g * g
                    g = (
                        first[name][rows]
                        / (1 - 0.9**t)
                        / (np.sqrt(second[name][rows] / (1 - 0.999**t)) + float(way.epsilon))
                    )
                parts[name] = parts[name].copy()
                parts[name][rows] -= float(way.item) * g
    return parts


# ---- the arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_automatic_differentiation(name, way):
    how = rates(**WAYS[way])
    algorithm, before, after = trained(name, how, epochs=2)
    expected = reference(algorithm, before, how, epochs=2)
    for part in expected:
        assert np.allclose(after[part], expected[part], rtol=0, atol=3e-5), part
        assert part == "h0" or not np.allclose(after[part], before[part], atol=1e-3), part
    assert (after["user"][2] == before["user"][2]).all()  # has no rows


@pytest.mark.parametrize("name", MODELS)
def test_one_step_goes_down_the_slope_of_finite_differences(name):
    how, eps = rates(batch=1000, rate=1, reg=0.3), 1e-6
    algorithm, before, after = trained(name, how, epochs=1)
    batch = drawn(0)
    assert len(batch) == 3 * len(ROWS) - 2 * ITEMS  # no negatives for who consumed everything
    for part, values in before.items():
        for place in np.ndindex(values.shape):
            up, down = ({**before, part: values.copy()} for _ in range(2))
            up[part][place] += eps
            down[part][place] -= eps
            slope = (loss(up, batch, algorithm, 0.3) - loss(down, batch, algorithm, 0.3)) / (
                2 * eps
            )
            assert after[part][place] - values[place] == pytest.approx(-slope, abs=2e-5), (
                part,
                place,
            )


def test_negatives_are_what_the_user_did_not_consume():
    item = np.array([9, 1, 4, 5, 9], np.int32)  # [1, 4, 5] is a history between two others
    assert [central._other(item, 1, 3, k) for k in range(5)] == [0, 2, 3, 6, 7]
    assert [central._other(item, 2, 0, k) for k in range(3)] == [0, 1, 2]
    for length in range(1, 40):
        history = np.unique(np.random.default_rng(length).integers(0, 60, length)).astype(np.int32)
        free = np.setdiff1d(np.arange(60), history)
        assert [
            central._other(history, 0, len(history), k) for k in range(len(free))
        ] == free.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_numbers_that_fill_up_stay_zero(name):
    how = rates(batch=3, adam=True, reg=0.1)
    algorithm, state = start(name, how)
    rows, shape = data(), algorithm.shape
    room = central._room(shape, how, len(state.table), len(rows.item))
    learn(shape, how, state, rows_of(rows), key(3), room)
    rest = np.setdiff1d(
        np.arange(shape.gmf + shape.mlp),
        np.r_[: shape.factors, shape.gmf : shape.gmf + shape.embedding],
    )
    assert len(rest) and not state.table[:, rest].any()
    assert not state.net[0, ncf_by_autograd.padding(shape, algorithm.layers)].any()


# ---- settings and outcome ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"factors": 0, "layers": ""}, "a model has factors or layers"),
        ({"layers": "16,0"}, "greater than or equal to 1"),
    ],
)
def test_settings_that_make_no_model_are_refused_in_one_line(settings, expected):
    with pytest.raises(InputError, match=expected) as refused:
        CentralNCF.parse(settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", MODELS)
def test_it_learns_tastes_that_popularity_does_not_know(name, optimiser):
    """Two tastes over 60 items; a fifth of the consumed items is hidden and ranked against all
    those of the other taste.
    """
    rng, users, items = np.random.default_rng(8), 120, 60
    same = np.arange(items) % 2 == np.arange(users)[:, None] % 2
    has = same & (rng.random((users, items)) < 0.5)
    shown = has & (rng.random((users, items)) < 0.8)
    train = build(*np.nonzero(shown), users=Vocabulary(size=users), items=Vocabulary(size=items))
    how = {"adam": {"learning_rate": 0.01, "batch": 64}, "sgd": {"learning_rate": 0.5, "batch": 5}}[
        optimiser
    ] | {
        "reg": 0,
        "negatives": 4,
    }
    algorithm = CentralNCF(**MODELS[name], epochs=30, optimiser=optimiser, **how)
    scores = algorithm.score(algorithm.fit(train, key(9)), train, np.arange(users))
    popular = Popular().score(Popular().fit(train, key(9)), train, np.arange(users))
    ours, theirs = (
        np.mean(
            np.concatenate(
                [(s[u][has[u] & ~shown[u]][:, None] > s[u][~same[u]]).ravel() for u in range(users)]
            )
        )
        for s in (scores, popular)
    )
    assert ours > 0.9 > 0.6 > theirs


PROGRAM = """
import hashlib, sys
import numpy as np
from entrenous.systems.central.ncf import CentralNCF
from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary
from entrenous.data.interactions import build

user, item = np.nonzero(np.random.default_rng(0).random((7, 9)) < 0.4)
data = build(user, item, users=Vocabulary(size=8), items=Vocabulary(size=9))
for settings in (
    {"factors": 5, "layers": (), "epochs": 2, "batch": 7},
    {"factors": 0, "layers": (17, 3), "epochs": 1, "optimiser": "sgd", "reg": 0.1},
    {"factors": 3, "layers": (4,), "epochs": 1, "negatives": 2},
):
    algorithm = CentralNCF(**settings)
    model = algorithm.fit(data, key(3))
    parts = [*model, algorithm.score(model, data, np.arange(8))]
    print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""


def test_plain_python_gives_the_same_bytes():
    compiled = printed_both_ways(PROGRAM).split()
    assert len(set(compiled)) == 3 and all(
        len(digest) == len(hashlib.sha256().hexdigest()) for digest in compiled
    )
