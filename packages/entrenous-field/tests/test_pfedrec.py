"""PFedRec: the compiled loop against a plain reading of its equations, the mean of all views, what
aggregation=off does, newcomers, and what devices keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field.pfedrec import PFedRec
from small_federations import same

import entrenous
from entrenous.core.contract.declared import bound
from entrenous.core.keys import draw, fold, folds, key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.kernels.sampling import negative
from entrenous.runs.conformance import conform

USERS, ITEMS, FACTORS = 12, 30, 5


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=USERS, items=ITEMS, interactions=120, seed=1)


def below(bits: int, n: int) -> int:
    return ((bits >> 32) * n) >> 32


def drawn(own: np.ndarray, key_: Any, negatives: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of a device and their labels, as the package draws them."""
    many = len(own) * (1 + negatives)
    places = [below(int(draw(key_, s)), ITEMS - len(own)) for s in range(len(own), many)]
    others = [negative(own, place) for place in places]
    return np.concatenate([own, others]).astype(int), np.arange(many) < len(own)


def shuffled(n: int, key_: Any) -> np.ndarray:
    order = np.arange(n)
    for last in range(n - 1, 0, -1):
        at = below(int(draw(key_, last)), last + 1)
        order[last], order[at] = order[at], order[last]
    return order


def plain(
    algorithm: PFedRec, q: np.ndarray, w: np.ndarray, c: float, own: np.ndarray, key_: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    """Equations (1) to (4) in float64: Q_u, w_u and c_u after a round."""
    q, w = q.astype(float), w.astype(float)
    item, label = drawn(own, key_, algorithm.negatives)
    rate = algorithm.learning_rate

    def slope(i: np.ndarray, r: np.ndarray) -> np.ndarray:
        return (1 / (1 + np.exp(-(q[i] @ w + c))) - r) / len(i)

    for epoch in range(algorithm.local_epochs):
        order = shuffled(len(item), np.uint64(fold(key_, epoch)))
        for start in range(0, len(item), algorithm.batch):
            batch = order[start : start + algorithm.batch]
            i, r = item[batch], label[batch]
            d = slope(i, r)
            w, c = w - rate * d @ q[i], c - rate * d.sum()
            move = np.zeros_like(q)
            np.add.at(move, i, slope(i, r)[:, None] * w)
            q = q - rate * ITEMS * algorithm.eta * move
    return q, w, c


def test_the_compiled_loop_is_the_plain_reading_of_the_equations(data: Interactions) -> None:
    algorithm = PFedRec(factors=FACTORS, eta=2.0, batch=16, negatives=2, local_epochs=2)
    algorithm = algorithm.configured(data.catalogue)
    server, users = algorithm.init_server(data.catalogue, key(0)), np.arange(USERS)
    begun = algorithm.init_devices(users, data.catalogue, key(1))
    histories = data.histories(users)
    after, update = algorithm.local(server, begun, histories, users, key(2))
    mean = server.q.astype(float)
    for u in users:
        own = histories.item[histories.ptr[u] : histories.ptr[u + 1]]
        keys = folds(key(2), users)
        q, w, c = plain(algorithm, server.q, server.first[:-1], server.first[-1], own, keys[u])
        assert np.allclose(after.w[u], w, atol=2e-5) and np.isclose(after.c[u], c, atol=2e-5)
        assert np.allclose(after.own.over(server.q, u), q, atol=2e-4)
        mean += (q - server.q) / USERS
    rounds = Rounds(algorithm, data)
    total, _ = rounds.everybody.work(server, begun, users, key(2))
    assert np.allclose(algorithm.aggregate(server, total).q, mean, atol=2e-4)
    assert np.diff(update.ptr).max() <= bound(algorithm, data.catalogue).sizes["rows"]


def test_scores_are_those_of_the_devices_own_view(data: Interactions) -> None:
    algorithm = PFedRec(factors=FACTORS, rounds=3)
    rounds = Rounds(algorithm, data)
    training = rounds.advance(rounds.start(), 3)
    server, devices, users = training.server, training.devices, np.arange(USERS)
    scores = rounds.algorithm.score(server, devices, data.histories(users))
    for u in users:
        expected = devices.own.over(server.q, u) @ devices.w[u] + devices.c[u]
        assert np.allclose(scores[u], expected, atol=1e-4)


def test_alone_nothing_is_sent_and_each_device_goes_on_from_its_own_view(
    data: Interactions,
) -> None:
    rounds = Rounds(PFedRec(factors=FACTORS, aggregation="off"), data)
    first = rounds.start()
    one = rounds.advance(first, 1)
    item, row = one.devices.own.of(0)
    before = dict(zip(item.tolist(), row.copy(), strict=True))
    two = rounds.advance(one, 2)
    assert two.ledger.bytes_up == 0 and same(two.server, first.server)
    item, row = two.devices.own.of(0)
    after = dict(zip(item.tolist(), row, strict=True))
    assert before.keys() <= after.keys()
    # What the device consumed moves in every round, and from where it was.
    own = data.histories(np.array([0])).item
    far = max(np.abs(after[i] - two.server.q[i]).max() for i in own.tolist())
    near = max(np.abs(after[i] - before[i]).max() for i in own.tolist())
    assert 0 < near < far


def test_a_newcomer_tunes_on_the_device(data: Interactions) -> None:
    """Their view moves what they have to the top, as the device of anybody does."""
    settings = {"factors": 4}
    run = entrenous.run("pfedrec", data, split="random-80-20", rounds=5, settings=settings, seed=0)
    given = ["0", "1", "2"]
    lists = run.recommend_for(given, n=ITEMS)
    assert len(lists) == ITEMS - 3 and np.isfinite(np.asarray(lists["score"])).all()
    assert not {*given} & set(map(str, lists["item"]))


@pytest.mark.parametrize("settings", [{}, {"aggregation": "off"}, {"cohort": 5}])
def test_it_conforms(settings: dict[str, Any]) -> None:
    conform(PFedRec(factors=FACTORS, **settings))
