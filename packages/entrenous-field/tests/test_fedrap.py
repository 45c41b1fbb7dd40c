"""FedRAP: a device's round against a plain reading of its equations, its two readings, and what
aggregation=off keeps on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field.fedrap import STEP_DECAY, FedRAP
from small_federations import same

from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import draw, folds, key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.kernels.sampling import negative
from entrenous.runs.conformance import conform

USERS, ITEMS = 10, 24
SMALL: dict[str, Any] = {
    "factors": 5,
    "learning_rate": 0.2,
    "learning_rate_item": 3.0,
    "apart": 0.3,
    "sparse": 0.4,
    "negatives": 2,
    "batch": 1000,
    "local_epochs": 3,
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=USERS, items=ITEMS, interactions=80, seed=2)


def drawn(own: np.ndarray, key_: Any, negatives: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples of a device and their labels, as the package draws them."""
    many = len(own) * (1 + negatives)
    left = ITEMS - len(own)
    places = [((int(draw(key_, s)) >> 32) * left) >> 32 for s in range(len(own), many)]
    others = [negative(own, place) for place in places]
    return np.concatenate([own, others]).astype(int), np.arange(many) < len(own)


@pytest.mark.parametrize("reading", ["printed", "as-run"])
def test_a_round_is_the_plain_reading_of_the_equations(data: Interactions, reading: str) -> None:
    """In batches of the whole history, whose order does not matter."""
    algorithm = FedRAP(**SMALL, reading=reading).configured(data.catalogue)
    server = algorithm.init_server(data.catalogue, key(0))
    server = server._replace(round=np.array([7]))
    users, histories = np.arange(USERS), data.histories(np.arange(USERS))
    begun = algorithm.init_devices(users, data.catalogue, key(1))
    after, update = algorithm.local(server, begun, histories, users, key(2))
    as_run = reading == "as-run"
    schedule = 1.0 if as_run else np.tanh(0.7)
    first = algorithm._first_own(server)
    keys = folds(key(2), users)
    for u in users:
        own = histories.item[histories.ptr[u] : histories.ptr[u + 1]]
        i, r = drawn(own, keys[u], 2)
        c, d = server.common.astype(float), first.astype(float)
        w, b = server.first[:-1].astype(float), float(server.first[-1])
        score, rate, n = 0.2 * 0.97**7, 3.0 * 0.97**7, len(i)
        for _ in range(3):
            e = (1 / (1 + np.exp(-((c[i] + d[i]) @ w + b))) - r) / n
            apart = 2 * 0.3 * schedule * (c[i] - d[i]) / (5 * n)
            by_c, by_d = np.zeros_like(c), np.zeros_like(d)
            np.add.at(by_c, i, e[:, None] * w - apart + 0.4 * schedule * np.sign(c[i]) / (5 * n))
            np.add.at(by_d, i, e[:, None] * w + apart)
            w, b = w - score * e @ (c[i] + d[i]), b - score * e.sum()
            c, d = c - rate * by_c, d - rate * by_d
            if as_run:
                score, rate = score * STEP_DECAY, rate * STEP_DECAY
        assert np.allclose(after.w[u], w, atol=1e-4) and np.isclose(after.b[u], b, atol=1e-4)
        assert np.allclose(after.own.over(first, u), d, atol=1e-4)
        item = update.item[update.ptr[u] : update.ptr[u + 1]]
        moved = update.rows["c"][update.ptr[u] : update.ptr[u + 1]]
        assert item.tolist() == sorted(set(i.tolist()))
        assert np.allclose(server.common[item] + moved, c[item], atol=1e-4)


def test_alone_the_common_view_stays_and_each_device_has_its_own_of_it(data: Interactions) -> None:
    rounds = Rounds(FedRAP(**SMALL, aggregation="off"), data)
    first = rounds.start()
    begun = first.server.common.copy()
    done = rounds.advance(first, 3)
    assert done.ledger.bytes_up == 0 and same(done.server.common, begun)
    item, row = done.devices.changed.of(0)
    assert done.devices.own.of(0)[0].tolist() == item.tolist()
    assert len(item) and not np.allclose(row, begun[item])


def test_views_that_move_apart_without_end_are_an_error_of_one_line(data: Interactions) -> None:
    """The second term of the loss has no lower bound."""
    rounds = Rounds(FedRAP(**{**SMALL, "apart": 1000.0, "reading": "as-run"}), data)
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        rounds.advance(rounds.start(), 30)


@pytest.mark.parametrize("settings", [{}, {"aggregation": "off"}, {"reading": "as-run"}])
def test_it_conforms(settings: dict[str, Any]) -> None:
    conform(FedRAP(**SMALL, **settings))
