"""GPFedRec: a device's round and the graph of users against plain NumPy, the two readings of the
graph, and what goes on without aggregation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from entrenous_field.gpfedrec import GPFedRec, GPFedRecDownload, GPFedRecServer
from entrenous_field.kernels import graph_ncf

import entrenous
from entrenous.core.contract.update import add_update, empty_total, gathered
from entrenous.core.errors import InputError
from entrenous.core.keys import below, draw, fold, folds, key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.kernels.sampling import negative, shuffle

USERS, ITEMS = 9, 21
SMALL: dict[str, Any] = {
    "factors": 16,
    "layers": (12, 8),
    "negatives": 2,
    "batch": 5,
    "learning_rate": 0.5,
    "scale": 5.0,
    "reg": 0.7,
    "init_std": 0.4,
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=USERS, items=ITEMS, interactions=70, seed=3)


class Layer(NamedTuple):
    weights: np.ndarray
    bias: np.ndarray


def unpacked(s: GPFedRec, network: np.ndarray) -> list[Layer]:
    """The layers of a flat MLP without padding, the head last."""
    shape, inputs, layers = s.shape, 2 * s.factors, []
    for n, outputs in enumerate((s.factors, *s.layers)):
        wide, narrow = shape.width[n], shape.width[n + 1]
        start, bias = shape.weight[n], shape.bias[n]
        weights = network[start : start + wide * narrow].reshape(wide, narrow)
        layers.append(Layer(weights[:inputs, :outputs], network[bias : bias + outputs]))
        inputs = outputs
    head = network[shape.head : shape.head + inputs]
    last = shape.head + shape.width[-1]
    layers.append(Layer(head[:, None], network[last : last + 1]))
    return [Layer(*(part.astype(float) for part in layer)) for layer in layers]


def forward(layers: list[Layer], x: np.ndarray) -> list[np.ndarray]:
    """The outputs of all layers for one input, the logit last."""
    out = [x]
    for n, layer in enumerate(layers):
        z = out[-1] @ layer.weights + layer.bias
        out.append(z if n == len(layers) - 1 else np.maximum(z, 0))
    return out


def plain_device(
    s: GPFedRec, p: np.ndarray, layers: list[Layer], q: np.ndarray, near: np.ndarray, rows: Any
) -> tuple[np.ndarray, list[Layer], np.ndarray]:
    """p_u, the MLP and Q_u after one epoch of SGD, in plain NumPy. rows: items and labels."""
    eta, f = s.learning_rate, s.factors
    for low in range(0, len(rows), s.batch):
        batch = rows[low : low + s.batch]
        dp, dq = np.zeros_like(p), np.zeros_like(q)
        slopes = [Layer(np.zeros_like(w), np.zeros_like(b)) for w, b in layers]
        for item, label in batch:
            out = forward(layers, np.concatenate([p, q[item]]))
            back = 1 / (1 + np.exp(-out[-1])) - label
            for n in range(len(layers) - 1, -1, -1):
                slopes[n].weights[...] += np.outer(out[n], back)
                slopes[n].bias[...] += back
                back = layers[n].weights @ back * ((out[n] > 0) if n else 1)
            dp += back[:f]
            dq[item] += back[f:]
        m = len(batch)
        p = p - eta * (s.scale - 1) * dp / m
        whole = dq / m + s.reg * 2 * (q - near) / q.size
        q = q - eta * (s.scale * len(q) - 1) * whole
        layers = [
            Layer(w - eta * dw / m, b - eta * db / m)
            for (w, b), (dw, db) in zip(layers, slopes, strict=True)
        ]
    return p, layers, q


def samples_of(own: np.ndarray, negatives: int, drawn: np.uint64) -> list[tuple[int, int]]:
    """The items and labels of an epoch, in their order."""
    n = len(own) * (1 + negatives)
    order, epoch = np.zeros(n, np.int32), np.uint64(fold(drawn, 0))
    shuffle(order, 0, n, epoch)
    found = []
    for which in order.tolist():
        if which < len(own):
            found.append((int(own[which]), 1))
        else:
            k = below(np.uint64(draw(epoch, n + which)), ITEMS - len(own))
            found.append((int(negative(own, k)), 0))
    return found


def test_a_round_of_a_device_is_sgd_in_plain_numpy(data: Interactions) -> None:
    s = GPFedRec(**SMALL).configured(data.catalogue)
    users, drawn = np.arange(USERS), key(4)
    devices = s.init_devices(users, data.catalogue, key(4, "devices"))
    server = s.init_server(data.catalogue, key(1, "server"))
    rng = np.random.default_rng(0)
    near = (server.near + rng.normal(0, 0.2, server.near.shape)).astype(np.float32)
    histories = data.histories(users)
    received = GPFedRecDownload(server.q, near)
    after, update = s.local(received, devices, histories, users, drawn)
    logits = s.score(received, after, histories)
    for u in users:
        own = histories.item[histories.ptr[u] : histories.ptr[u + 1]]
        rows = samples_of(own, s.negatives, folds(drawn, users)[u])
        layers = unpacked(s, devices.network[u])
        first = devices.user[u].astype(float), layers, server.q.astype(float)
        p, layers, q = plain_device(s, *first, near[u].astype(float), rows)
        assert np.allclose(after.user[u], p, atol=2e-5)
        assert np.allclose(after.table[u], q, atol=2e-5)
        assert np.allclose(update.shown["move"][u], q - server.q, atol=2e-5)
        for mine, plain in zip(unpacked(s, after.network[u]), layers, strict=True):
            assert np.allclose(mine.weights, plain.weights, atol=2e-5)
            assert np.allclose(mine.bias, plain.bias, atol=2e-5)
        scores = [forward(layers, np.concatenate([p, row]))[-1][0] for row in q]
        assert np.allclose(logits[u], scores, atol=1e-4)
    # The MLP lets gradients through, and the table learns from it and from R_u.
    assert np.abs(after.user - devices.user).max() > 1e-3
    assert np.abs(after.table - server.q).max() > 1e-2 and after.started.all()


@pytest.mark.parametrize(("m", "n"), [(1, 16), (2, 48), (7, 1040), (8, 16 * 37)])
def test_similarities_and_means_are_those_of_numpy(m: int, n: int) -> None:
    tables = np.random.default_rng(m).normal(size=(m, n)).astype(np.float32)
    length = np.linalg.norm(tables.astype(float), axis=1)
    wanted = tables.astype(float) @ tables.T / length / length[:, None]
    assert np.allclose(graph_ncf.similarities(tables), wanted, atol=1e-5)
    near = wanted >= np.median(wanted)
    near |= np.eye(m, dtype=bool)
    assert np.allclose(
        graph_ncf.means(tables, near), near @ tables / near.sum(1)[:, None], atol=1e-5
    )
    tables[0] = 0
    assert np.isfinite(graph_ncf.similarities(tables)).all()


def test_the_two_readings_of_the_graph() -> None:
    """Two groups of two: near takes one's own group with oneself, as-run the other group."""
    alike = np.array([[1, 0.9, 0, 0], [0.9, 1, 0, 0], [0, 0, 1, 0.9], [0, 0, 0.9, 1]])
    own = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    assert np.array_equal(GPFedRec().graph(alike), own)
    assert np.array_equal(GPFedRec(neighbours="as-run").graph(alike), ~own)
    # Above every similarity there is nobody but the user.
    assert np.array_equal(GPFedRec(threshold=50).graph(alike), np.eye(4, dtype=bool))


def test_the_server_means_over_neighbours_and_keeps_the_rest(data: Interactions) -> None:
    s = GPFedRec(**SMALL, cohort=4).configured(data.catalogue)
    server = s.init_server(data.catalogue, key(1, "server"))
    users = np.array([1, 4, 5, 8])
    devices = s.init_devices(users, data.catalogue, key(4, "devices"))
    received = s.deliver(server, users)
    _, update = s.local(received, devices, data.histories(users), users, key(2))
    total = add_update(empty_total(update, ITEMS), update)
    after = s.aggregate(server, total)
    tables = (server.q + gathered(total).arrays["move"]).reshape(4, -1)
    graph = s.graph(graph_ncf.similarities(tables))
    means = (graph @ tables / graph.sum(1)[:, None]).reshape(4, ITEMS, 16)
    assert np.allclose(after.near[users], means, atol=1e-5)
    assert np.allclose(after.q, means.mean(axis=0), atol=1e-5)
    others = np.setdiff1d(np.arange(USERS), users)
    assert np.array_equal(after.near[others], server.near[others])
    assert not np.array_equal(after.q, server.q)


def test_without_aggregation_nothing_is_sent_and_devices_go_on(data: Interactions) -> None:
    s = GPFedRec(**SMALL, aggregation="off").configured(data.catalogue)
    server = s.init_server(data.catalogue, key(1, "server"))
    users = np.arange(USERS)
    devices = s.init_devices(users, data.catalogue, key(4, "devices"))
    received = s.deliver(server, users)
    first, update = s.local(received, devices, data.histories(users), users, key(2))
    assert update.nbytes == 0 and s.sends[0].only_if == "aggregates"
    assert s.aggregate(server, add_update(empty_total(update, ITEMS), update)) is server
    again, _ = s.local(received, first, data.histories(users), users, key(2))
    moved = GPFedRecServer(server.q + 1, server.near)
    same, _ = s.local(s.deliver(moved, users), first, data.histories(users), users, key(2))
    assert np.array_equal(again.table, same.table)
    assert not np.array_equal(again.table, first.table)


def test_it_is_refused_under_private_and_serves_newcomers() -> None:
    rows = [(u, i) for u in range(12) for i in range(u % 2, 30, 2) if (u + i) % 7]
    settings = {**SMALL, "batch": 256}
    with pytest.raises(InputError, match="GPFedRec shows 'move' of each device singly"):
        entrenous.run(
            GPFedRec(**settings),
            rows,
            rounds=2,
            profile="private",
            protect={"people": 3, "clip": 10, "multiple": 0.3},
            split="random-80-20",
        )
    run = entrenous.run(GPFedRec(**settings), rows, rounds=3, seed=0, split="random-80-20")
    assert run.recommend_for([0, 2, 4], 5).height == 5
