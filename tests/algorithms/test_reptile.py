"""Reptile: a step towards the mean of the devices' models, and adaptation before a device
scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import ITEMS, SMALL, USERS, same, sent, shop, started, trained

from entrenous.data.interactions import Interactions
from entrenous.kernels import ncf
from entrenous.kernels.averaging import EACH
from entrenous.systems.reptile import Reptile

EVERYONE = np.arange(USERS)


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


def reptile(**other: Any) -> Reptile:
    return Reptile(**{**SMALL, "meta_rate": 1.0, "adapt_epochs": 0, **other})


@pytest.mark.parametrize(("meta_rate", "items"), [(1.0, 1.0), (0.25, 1.0), (2.0, 1.0), (0.5, 3.0)])
def test_the_server_steps_towards_the_mean_of_the_models(
    data: Interactions, meta_rate: float, items: float
) -> None:
    algorithm = reptile(meta_rate=meta_rate, server_rate_item=items)
    server, devices = started(algorithm, data)
    users = np.arange(3, 9)
    _, update, total = sent(algorithm, server, devices, data, users)
    models = np.repeat(server.item[None].astype(float), len(users), axis=0)
    for k in range(len(users)):
        for r in range(update.ptr[k], update.ptr[k + 1]):
            models[k, update.item[r]] += update.rows["item"][r] / EACH
    after = algorithm.aggregate(server, total)
    assert np.allclose(
        after.item, server.item + items * meta_rate * (models.mean(axis=0) - server.item), atol=1e-5
    )
    expected = server.network[0] + meta_rate * update.dense["network"].mean(axis=0) / EACH
    assert np.allclose(after.network[0], expected, atol=1e-5)


def test_a_device_without_history_is_no_task() -> None:
    from entrenous.data.interactions import Vocabulary, build

    rows = np.array([0, 0, 0, 2, 2]), np.array([1, 3, 4, 0, 2])
    lonely = build(*rows, users=Vocabulary(size=3), items=Vocabulary(size=ITEMS))
    server, devices = started(reptile(), lonely)
    _, update, total = sent(reptile(), server, devices, lonely, np.arange(3))
    assert update.weight.tolist() == [EACH, 0, EACH]
    mean = (update.dense["network"][0] + update.dense["network"][2]) / EACH / 2
    assert np.allclose(
        reptile().aggregate(server, total).network[0], server.network[0] + mean, atol=1e-5
    )


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_device_scores_with_what_it_has_adapted(data: Interactions, epochs: int) -> None:
    """Each device by itself: its epochs from w, its rows in place of w's, its network, its user
    embedding.
    """
    algorithm, training = reptile(adapt_epochs=epochs), trained(reptile(), data, 2)
    server, devices, histories = training.server, training.devices, data.histories(EVERYONE)
    before = [array.copy() for array in (*server, *devices)]
    scores = algorithm.score(server, devices, histories)
    assert all(map(same, before, (*server, *devices)))
    shape, none = algorithm.shape, np.zeros(USERS, np.int32)
    private = ncf.NCFData(
        histories.ptr, histories.item, histories.avoid_ptr, histories.avoid, devices.key
    )
    learnt = ncf.train(
        shape,
        algorithm.rates(epochs=epochs),
        devices.user,
        server.item,
        server.network,
        none,
        private,
    )
    for d in range(USERS):
        table, rows = server.item.copy(), slice(learnt.ptr[d], learnt.ptr[d + 1])
        table[learnt.item[rows]] += learnt.row[rows]
        network = server.network + learnt.network[d]
        assert same(
            ncf.scores(shape, learnt.user[d : d + 1], table, network, none[:1])[0], scores[d]
        )


def test_what_is_sent_does_not_depend_on_adaptation(data: Interactions) -> None:
    assert same(
        trained(reptile(adapt_epochs=5), data, 3).server, trained(reptile(), data, 3).server
    )
