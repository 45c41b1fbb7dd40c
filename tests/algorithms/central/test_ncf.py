"""Centralised GMF, MLP and NeuMF against automatic differentiation."""

from __future__ import annotations

from typing import Any

import ncf_by_autograd
import numpy as np
import pytest
from autograd import grad

from entrenous.core.errors import InputError
from entrenous.core.keys import below, draw, folds, key, normals
from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.kernels import ncf
from entrenous.kernels.sampling import negative
from entrenous.systems.central import ncf as central
from entrenous.systems.central.ncf import CentralNCF, learn

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
                    g = ncf_by_autograd.adam_step(
                        first[name], second[name], rows, g, t, float(way.epsilon)
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
