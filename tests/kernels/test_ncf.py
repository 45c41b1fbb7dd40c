"""GMF, MLP and NeuMF on a device: against automatic differentiation, finite differences and plain
Python; what is left alone.
"""

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


@pytest.mark.parametrize("name", ["gmf", "mlp", "neumf"])
def test_one_step_goes_down_the_slope_of_finite_differences(name: str) -> None:
    """All samples in one batch, rate 1: the move is the negative gradient of the loss, whose slope
    is measured.
    """
    how = rates(batch=1000, user=1, item=1, network=1, reg=0.3, pull=0.6)
    shape, layers, user, item, networks, group = start(name)
    user_anchor, network_anchor = anchors(shape, layers)
    sent, d, eps = learnt(name, how), 0, 1e-6
    parts = ncf_by_autograd.model(shape, layers, user[d], item, networks[group[d]])
    held = ncf_by_autograd.model(shape, layers, user_anchor[d], item, network_anchor[d])
    batch = ncf_by_autograd.drawn(data(), d, 0, how.negatives, ITEMS)
    assert len(batch) == 12 and len({i for i, _ in batch}) < 12  # an item twice in a batch
    moves = {
        part: sent.network[d][at] for part, at in ncf_by_autograd.places(shape, layers).items()
    }
    moves |= {"user": sent.user[d] - user[d], "item": np.zeros_like(item)}
    moves["item"][sent.item[: sent.ptr[1]]] = sent.row[: sent.ptr[1]]
    for part, move in moves.items():
        for place in np.ndindex(move.shape):
            up, down = ({**parts, part: parts[part].copy()} for _ in range(2))
            up[part][place] += eps
            down[part][place] -= eps
            high, low = (
                ncf_by_autograd.loss(side, batch, shape.factors, layers, 0.3, 0.6, held)
                for side in (up, down)
            )
            assert move[place] == pytest.approx(-(high - low) / (2 * eps), abs=2e-5), (part, place)


def test_adams_first_step_is_as_long_as_its_rate() -> None:
    """m / sqrt(v) is +-1 after one step, wherever there is a slope."""
    shape, layers, user, *_ = start("neumf")
    sent = learnt("neumf", rates(batch=1000, adam=True, user=0.3, item=0.02))
    assert np.allclose(np.abs(sent.user - user)[REST], 0.3, atol=1e-3)
    assert np.allclose(np.abs(sent.row), 0.02, atol=1e-4)
    assert np.allclose(
        np.abs(sent.network[REST][:, ncf_by_autograd.places(shape, layers)["h0"]]), 0.1, atol=1e-4
    )


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


def test_a_model_s_three_parts_have_their_sizes() -> None:
    shape = ncf.shape_of(5, (6, 3))
    sizes = {part: at.shape for part, at in ncf_by_autograd.places(shape, (6, 3)).items()}
    assert shape.row == 5 + 6
    assert sizes == {"W0": (12, 6), "b0": (6,), "W1": (6, 3), "b1": (3,), "h": (5 + 3,), "h0": (1,)}
    assert len(ncf_by_autograd.padding(shape, (6, 3))) == shape.network - (72 + 6 + 18 + 3 + 8 + 1)


# ---- devices -------------------------------------------------------------------------------------


def test_a_device_without_history_learns_nothing() -> None:
    sent = learnt("neumf", rates(epochs=2, reg=0.1, pull=0.5))
    user = start("neumf")[2]
    assert (
        sent.ptr[2] == sent.ptr[3] and not sent.network[2].any() and (sent.user[2] == user[2]).all()
    )


def test_a_device_with_everything_consumed_learns_from_its_positives() -> None:
    sent = learnt("neumf", rates())
    assert sorted(sent.item[sent.ptr[3] : sent.ptr[4]].tolist()) == list(range(ITEMS))
    assert ncf_by_autograd.drawn(data(), 3, 0, 2, ITEMS) == ncf_by_autograd.drawn(
        data(), 3, 0, 0, ITEMS
    )
    assert sent.row[sent.ptr[3] : sent.ptr[4]].any() and np.isfinite(sent.network).all()


def test_negatives_are_not_what_a_device_avoids() -> None:
    sent = learnt("gmf", rates(epochs=20))
    for d, (history, avoided) in enumerate(zip(HISTORIES, AVOIDED, strict=True)):
        touched = set(sent.item[sent.ptr[d] : sent.ptr[d + 1]].tolist())
        assert touched - set(history) == (set(range(ITEMS)) - set(avoided) if history else set())


def test_negatives_differ_from_epoch_to_epoch_and_from_device_to_device() -> None:
    first, second = (ncf_by_autograd.drawn(data(), 0, epoch, 4, ITEMS) for epoch in range(2))
    assert first != second and sorted(i for i, label in first if label) == sorted(
        i for i, label in second if label
    )
    other = data()._replace(keys=data().keys[::-1].copy())
    assert ncf_by_autograd.drawn(other, 0, 0, 4, ITEMS) != first


@pytest.mark.parametrize("name", MODELS)
def test_a_device_does_not_depend_on_the_others(name: str) -> None:
    shape, _, user, item, networks, group = start(name)
    how, whole = rates(epochs=2, adam=True), data()
    together = ncf.train(shape, how, user, item, networks, group, whole)
    for d in range(len(HISTORIES)):
        one = slice(d, d + 1)
        alone = whole._replace(
            ptr=whole.ptr[d : d + 2], avoid_ptr=whole.avoid_ptr[d : d + 2], keys=whole.keys[one]
        )
        sent = ncf.train(shape, how, user[one], item, networks, group[one], alone)
        rows = slice(together.ptr[d], together.ptr[d + 1])
        assert (sent.item == together.item[rows]).all() and (sent.row == together.row[rows]).all()
        assert (sent.network == together.network[one]).all() and (
            sent.user == together.user[one]
        ).all()


def test_inputs_are_left_alone() -> None:
    shape, layers, *arrays = start("neumf")
    arrays, private, held = [*arrays], data(), anchors(shape, layers)
    before = [array.copy() for array in (*arrays, *private, *held)]
    user, item, networks, group = arrays
    how = rates(epochs=2, pull=0.3)
    ncf.train(
        shape,
        how,
        user,
        item,
        networks,
        group,
        private,
        user_anchor=held[0],
        network_anchor=held[1],
    )
    ncf.scores(shape, user, item, networks, group)
    assert all((a == b).all() for a, b in zip(before, (*arrays, *private, *held), strict=True))


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


def test_without_anchors_a_device_is_held_to_where_it_began() -> None:
    shape, _, user, item, networks, _ = start("neumf")
    nearer = [
        np.linalg.norm(
            ncf.train(
                shape,
                rates(pull=pull, epochs=5),
                user,
                item,
                networks[:1],
                np.zeros(5, np.int32),
                data(),
            ).network
        )
        for pull in (0.0, 1.0, 5.0)
    ]
    assert nearer[0] > nearer[1] > nearer[2] > 0


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


def test_gmf_of_ones_is_the_inner_product() -> None:
    shape = ncf.shape_of(3, ())
    network = np.zeros((1, shape.network), np.float32)
    network[0, shape.head : shape.head + 3], network[0, -16] = 1, 0.5
    user, item = (
        np.array([[1, 2, 3]], np.float32),
        np.array([[1, 0, 0], [1, 1, 1], [0, -2, 4]], np.float32),
    )
    assert ncf.scores(shape, user, item, network, np.zeros(1, np.int32)).tolist() == [
        [1.5, 6.5, 8.5]
    ]


def test_what_is_not_a_number_is_not_hidden() -> None:
    shape, _, user, item, networks, group = start("neumf")
    item[4, 7] = np.nan
    assert np.isnan(ncf.scores(shape, user, item, networks, group)[:, 4]).all()
    assert np.isnan(
        ncf.train(shape, rates(), user, item, networks, group, data()).network[[0, 3]]
    ).any()


# ---- plain Python --------------------------------------------------------------------------------


def digest() -> str:
    """All that is learnt and scored by every model in every way."""
    arrays = [
        array for name in MODELS for way in WAYS.values() for array in learnt(name, rates(**way))
    ]
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
