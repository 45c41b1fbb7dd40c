"""FedRecon: the kernel against a few lines of plain NumPy, the two server steps, and what a device
does not keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field.fedrecon import FedRecon, FedReconDevices, FedReconModel

import entrenous
from entrenous.core.contract.update import add_update, empty_total
from entrenous.core.keys import below, draw, fold, folds, key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.kernels.sampling import negative, shuffle

USERS, ITEMS = 20, 30
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "batches": {"batch": 3, "passes": 2, "item_steps": 2, "item_rate": 0.5},
    "steps": {"item_steps": 3, "item_rate": 0.7, "biases": False},
    "drawn": {"start_std": 0.3, "batch": 4, "steps": 7},
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=USERS, items=ITEMS, interactions=160, seed=3)


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def examples_of(
    own: np.ndarray, items: int, negatives: int, drawn: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """The items and labels of a device's examples, in their order."""
    n = len(own) * (1 + negatives)
    order = np.zeros(n, np.int32)
    shuffle(order, 0, n, np.uint64(fold(drawn, 0)))
    others_key = np.uint64(fold(drawn, 1))
    others = [
        negative(own, below(np.uint64(draw(others_key, r)), items - len(own)))
        for r in range(n - len(own))
    ]
    item, label = np.zeros(n, int), np.zeros(n)
    item[order] = [*own, *others]
    label[order[: len(own)]] = 1
    return item, label


def plain_client(
    s: FedRecon, model: FedReconModel, own: np.ndarray, p: np.ndarray, drawn: np.uint64
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """ClientUpdate for one client in plain NumPy: p_u, how far q and b go, and n_i."""
    item, label = examples_of(own, len(model.q), s.negatives, drawn)
    half = (len(item) + 1) // 2
    q, b = model.q.astype(float), model.b.astype(float)
    size = s.batch or half
    batches = [np.arange(low, min(low + size, half)) for low in range(0, half, size)]
    for t in range(min(s.steps, s.passes * len(batches) if s.passes else s.steps)):
        at = batches[t % len(batches)]
        error = logistic(q[item[at]] @ p + b[item[at]]) - label[at]
        p = p - s.learning_rate * (error @ q[item[at]] / len(at) + s.reg * p)
    size = s.batch or len(item) - half
    batches = [np.arange(low, min(low + size, len(item))) for low in range(half, len(item), size)]
    for t in range(s.item_steps if len(batches) == 1 else min(s.item_steps, len(batches))):
        at = batches[t % len(batches)]
        step = s.item_rate / len(at) * (label[at] - logistic(q[item[at]] @ p + b[item[at]]))
        np.add.at(q, item[at], step[:, None] * p)
        np.add.at(b, item[at], step * s.biases)
    return p, q - model.q, b - model.b, len(item) - half


@pytest.mark.parametrize("way", WAYS)
def test_a_round_is_algorithm_1_in_plain_numpy(way: str, data: Interactions) -> None:
    chosen = {"factors": 5, "negatives": 2, "steps": 9, "init_std": 0.5, "server": "mean"}
    s = FedRecon(**{**chosen, **WAYS[way]})
    s = s.configured(data.catalogue)
    model, users, drawn = s.init_server(data.catalogue, key(1, "server")), np.arange(USERS), key(4)
    _, update = s.local(model, FedReconDevices(), data.histories(users), users, drawn)
    q, b, n = np.zeros_like(model.q, float), np.zeros(ITEMS), 0
    histories = data.histories(users)
    for u in users:
        own = histories.item[histories.ptr[u] : histories.ptr[u + 1]]
        first = np.zeros(5)
        if s.start_std:
            start = entrenous.fold_name(drawn, "start")
            first = entrenous.generator(entrenous.fold_name(start, int(u))).normal(5, s.start_std)
        _, dq, db, queries = plain_client(s, model, own, first, folds(drawn, users)[u])
        q, b, n = q + queries * dq, b + queries * db, n + queries
    after = s.aggregate(model, add_update(empty_total(update, ITEMS), update))
    assert np.allclose(after.q - model.q, s.server_rate * q / n, atol=2e-6)
    assert np.allclose(after.b, s.server_rate * b / n * s.biases, atol=2e-6)
    assert np.abs(after.q - model.q).max() > 1e-4
    whole = s.model_copy(update={"server": "sum", "server_rate": s.server_rate / n})
    summed = whole.aggregate(model, add_update(empty_total(update, ITEMS), update))
    assert np.allclose(summed.q, after.q, atol=1e-7)


def test_nothing_is_kept_and_everybody_can_be_scored(data: Interactions) -> None:
    """A device that was in no round is served as the others are: its rows and the model suffice."""
    s = FedRecon(factors=4, cohort=5)
    rounds = Rounds(s, data, seed=2)
    training = rounds.advance(rounds.start(), 3)
    assert training.devices == FedReconDevices()
    users = np.arange(USERS)
    own = s.configured(data.catalogue)
    asked = (training.server, FedReconDevices(), data.histories(users), users)
    scores = own.score_with_key(*asked, key(2, "score"))
    assert np.array_equal(scores, own.score_with_key(*asked, key(2, "score")))
    assert not np.array_equal(scores, own.score_with_key(*asked, key(3, "score")))
    assert (np.ptp(scores, axis=1) > 0).all()
