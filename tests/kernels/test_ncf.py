"""GMF, MLP and NeuMF on a device: against automatic differentiation and plain Python."""

from __future__ import annotations

import hashlib
from typing import Any

import ncf_by_autograd
import numpy as np
import pytest
from plain_python import printed

from entrenous.core.keys import folds, key, normals
from entrenous.kernels import ncf

MODELS: dict[str, tuple[int, tuple[int, ...]]] = {
    "gmf": (5, ()),
    "mlp": (0, (6, 3)),
    "neumf": (5, (6, 3)),
    "wide": (20, (17, 33, 8)),
}
REST = [0, 1, 3, 4]  # the devices that have a history
ITEMS = 9
HISTORIES = ([1, 4, 6, 8], [0, 2], [], list(range(ITEMS)), [3, 5, 7])
AVOIDED = (
    [1, 4, 6, 8],
    [0, 2],
    [],
    list(range(ITEMS)),
    [0, 1, 3, 5, 6, 7],
)  # the last device avoids more than its history
WAYS: dict[str, dict[str, Any]] = {
    "SGD, a positive and its negatives a step": {"batch": 3},
    "SGD, epochs, one step each": {"batch": 1000, "epochs": 3},
    "SGD, a last batch that is short, reg": {"batch": 4, "epochs": 2, "reg": 0.3},
    "SGD, held to anchors": {"batch": 5, "epochs": 2, "reg": 0.1, "pull": 0.7},
    "SGD, a rate for each part": {"batch": 2, "user": 0.3, "item": 0.0, "network": 0.02},
    "Adam": {"batch": 3, "epochs": 3, "adam": True, "epsilon": 1e-3},
    "Adam, reg, held, rates": {
        "batch": 6,
        "epochs": 2,
        "adam": True,
        "reg": 0.2,
        "pull": 0.4,
        "item": 0.01,
        "network": 0.07,
        "epsilon": 0.01,
    },
}


def rates(**other: Any) -> ncf.NCFRates:
    numbers = {"user": 0.1, "item": 0.1, "network": 0.1, "reg": 0.0, "pull": 0.0, "epsilon": 1e-8}
    numbers = {name: np.float32(other.pop(name, value)) for name, value in numbers.items()}
    return ncf.NCFRates(
        **numbers, **{"adam": False, "epochs": 1, "negatives": 2, "batch": 3, **other}
    )


def data() -> ncf.NCFData:
    ptr, avoid_ptr = (
        np.cumsum([0, *map(len, lists)]).astype(np.int64) for lists in (HISTORIES, AVOIDED)
    )
    item, avoid = (
        np.array([i for part in lists for i in part], np.int32) for lists in (HISTORIES, AVOIDED)
    )
    return ncf.NCFData(
        ptr, item, avoid_ptr, avoid, folds(key(0, "devices"), np.arange(len(HISTORIES)))
    )


def start(
    name: str, scale: float = 0.5
) -> tuple[ncf.NCFShape, tuple[int, ...], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A model of two networks, biases too, every device from one or the other."""
    factors, layers = MODELS[name]
    shape = ncf.shape_of(factors, layers)
    user, item = (
        normals(folds(key(1, n, name), np.arange(k)), shape.row, scale)
        for n, k in ((1, len(HISTORIES)), (2, ITEMS))
    )
    networks = np.stack([ncf.init_network(shape, layers, key(1, "network", n)) for n in range(2)])
    for n, network in enumerate(networks):
        for part, at in ncf_by_autograd.places(shape, layers).items():
            network[at] += normals(folds(key(1, part, n), np.arange(at.size)), 1, 0.3).reshape(
                at.shape
            )
    return shape, layers, user, item, networks, np.array([0, 1, 0, 1, 1], np.int32)


def anchors(shape: ncf.NCFShape, layers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    user = normals(folds(key(3), np.arange(len(HISTORIES))), shape.row, 0.5)
    network = normals(folds(key(4), np.arange(len(HISTORIES))), shape.network, 0.5)
    network[:, ncf_by_autograd.padding(shape, layers)] = 0
    return user, network


def learnt(name: str, way: ncf.NCFRates) -> ncf.NCFLearnt:
    shape, layers, user, item, networks, group = start(name)
    user_anchor, network_anchor = anchors(shape, layers)
    return ncf.train(
        shape,
        way,
        user,
        item,
        networks,
        group,
        data(),
        user_anchor=user_anchor,
        network_anchor=network_anchor,
    )


# ---- the gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_automatic_differentiation(name: str, way: str) -> None:
    how = rates(**WAYS[way])
    close = {
        "rtol": 0,
        "atol": 2e-5,
        # with a tiny epsilon Adam would enlarge slopes that float32 nearly loses, where y_ui is
        # almost 1
    }
    shape, layers, user, item, networks, group = start(name)
    user_anchor, network_anchor = anchors(shape, layers)
    sent = learnt(name, how)
    for d in range(len(HISTORIES)):
        before = ncf_by_autograd.model(shape, layers, user[d], item, networks[group[d]])
        held = ncf_by_autograd.model(shape, layers, user_anchor[d], item, network_anchor[d])
        after, touched = ncf_by_autograd.trained(shape, layers, how, before, data(), d, held)
        rows = sent.item[sent.ptr[d] : sent.ptr[d + 1]]
        assert rows.tolist() == sorted(
            touched
        )  # each touched row once, no other, and in an order that tells nothing
        moved = sent.row[sent.ptr[d] : sent.ptr[d + 1]]
        assert np.allclose(moved, (after["item"] - before["item"])[rows], **close)
        assert np.allclose(sent.user[d], after["user"], **close)
        for part, at in ncf_by_autograd.places(shape, layers).items():
            assert np.allclose(sent.network[d][at], after[part] - before[part], **close), part


# ---- what is where -------------------------------------------------------------------------------


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_numbers_that_fill_up_stay_zero(name: str, adam: bool) -> None:
    """In the network, where there are some; rows are sent without. Scores after learning are those
    of the numbers that count.
    """
    shape, layers, _, item, networks, group = start(name)
    sent = learnt(name, rates(epochs=2, adam=adam, reg=0.1, pull=0.2))
    assert (
        len(ncf_by_autograd.padding(shape, layers))
        and not sent.network[:, ncf_by_autograd.padding(shape, layers)].any()
    )
    assert sent.row.shape == (len(sent.item), shape.row) and sent.user.shape == (
        len(HISTORIES),
        shape.row,
    )
    assert sent.row.any(axis=1).all() and sent.network[REST].any(axis=1).all()
    for d in REST:
        table, rows, network = (
            item.copy(),
            slice(sent.ptr[d], sent.ptr[d + 1]),
            networks[group[d]] + sent.network[d],
        )
        table[sent.item[rows]] += sent.row[rows]
        scores = ncf.scores(
            shape, sent.user[d : d + 1], table, network[None], np.zeros(1, np.int32)
        )[0]
        parts = ncf_by_autograd.model(shape, layers, sent.user[d], table, network)
        assert np.allclose(
            scores,
            [ncf_by_autograd.logit(parts, i, shape.factors, layers) for i in range(ITEMS)],
            atol=1e-4,
        )


def test_the_first_network_is_uniform_within_glorots_bounds() -> None:
    shape, layers = ncf.shape_of(5, (60, 30)), (60, 30)
    network = ncf.init_network(shape, layers, key(0, "network"))
    limits = {"W0": np.sqrt(6 / (120 + 60)), "W1": np.sqrt(6 / (60 + 30)), "h": np.sqrt(3 / 35)}
    for part, at in ncf_by_autograd.places(shape, layers).items():
        values, limit = network[at], limits.get(part, 0)
        assert (np.abs(values) <= limit).all()
        assert (
            part.startswith("b")
            or part == "h0"
            or abs(values.std() - limit / np.sqrt(3)) < 0.2 * limit
        )
    assert not network[ncf_by_autograd.padding(shape, layers)].any()
    assert (ncf.init_network(shape, layers, key(0, "network")) == network).all()
    assert (ncf.init_network(shape, layers, key(1, "network")) != network).any()


# ---- devices -------------------------------------------------------------------------------------


def test_one_anchor_for_all_is_the_same_anchor_for_each() -> None:
    shape, layers, user, item, networks, group = start("mlp")
    _, network_anchor = anchors(shape, layers)
    how, one = rates(pull=0.5, epochs=2), network_anchor[:1]
    shared = ncf.train(shape, how, user, item, networks, group, data(), network_anchor=one)
    each = ncf.train(
        shape,
        how,
        user,
        item,
        networks,
        group,
        data(),
        network_anchor=np.repeat(one, len(user), axis=0),
    )
    assert (shared.network == each.network).all() and (shared.user == each.user).all()


# ---- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_formula_and_do_not_depend_on_the_block(name: str) -> None:
    shape, layers, user, item, networks, group = start(name)
    scores = ncf.scores(shape, user, item, networks, group)
    assert scores.shape == (len(user), ITEMS) and scores.dtype == np.float32
    for d in range(len(user)):
        parts = ncf_by_autograd.model(shape, layers, user[d], item, networks[group[d]])
        expected = [ncf_by_autograd.logit(parts, i, shape.factors, layers) for i in range(ITEMS)]
        assert np.allclose(scores[d], expected, atol=1e-5)
        assert (
            ncf.scores(shape, user[d : d + 1], item, networks, group[d : d + 1])[0] == scores[d]
        ).all()
    assert ncf.scores(shape, user[:0], item, networks, group[:0]).shape == (0, ITEMS)


def test_what_is_not_a_number_is_not_hidden() -> None:
    shape, _, user, item, networks, group = start("neumf")
    item[4, 7] = np.nan
    assert np.isnan(ncf.scores(shape, user, item, networks, group)[:, 4]).all()
    assert np.isnan(
        ncf.train(shape, rates(), user, item, networks, group, data()).network[[0, 3]]
    ).any()


# ---- plain Python --------------------------------------------------------------------------------


def digest() -> str:
    """All that is learnt by the whole model in every way and by every model in one, and scored."""
    last = "Adam, reg, held, rates"
    pairs = [*(("neumf", way) for way in WAYS), *((name, last) for name in MODELS)]
    arrays = [array for name, way in pairs for array in learnt(name, rates(**WAYS[way]))]
    arrays += [ncf.scores(shape, *rest) for shape, _, *rest in map(start, MODELS)]
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    ).hexdigest()


def test_plain_python_ends_with_the_same_bits() -> None:
    program = "import tests.kernels.test_ncf as tested; print(tested.digest())"
    assert printed(program, compiled=False) == digest()


# ---- a second network in the same pass -----------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_second_network_learns_beside_the_first_and_changes_nothing_for_it(
    name: str, way: str
) -> None:
    """Where embeddings stay as they are it learns, bit for bit, what it would learn alone; and
    always what its equal learns.
    """
    shape, _, user, item, networks, _ = start(name)
    first, second = networks[:1], networks[1:]
    none = np.zeros(len(HISTORIES), np.int32)
    how = rates(**{**WAYS[way], "pull": 0})
    alone, both = (
        ncf.train(shape, how, user, item, first, none, data(), second=beside)
        for beside in (None, second)
    )
    assert all(
        getattr(both, part).tobytes() == getattr(alone, part).tobytes()
        for part in ("item", "row", "network", "user")
    )
    equal = ncf.train(shape, how, user, item, first, none, data(), second=first)
    assert equal.second.tobytes() == equal.network.tobytes() and len(alone.second) == 0
    still = how._replace(user=np.float32(0), item=np.float32(0))
    apart = ncf.train(shape, still, user, item, second, none, data()).network
    assert (
        ncf.train(shape, still, user, item, first, none, data(), second=second).second.tobytes()
        == apart.tobytes()
    )
