"""FedFast: ActvSAMP and ActvAGG in plain float64; its start-up round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import ITEMS, SMALL, USERS, same, sent, shop, started

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds
from entrenous.systems._federated_ncf import TOP
from entrenous.systems._user_clusters import k_means
from entrenous.systems.fedavg import FedAvg
from entrenous.systems.fedfast import FedFast, FedFastServer


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


def fedfast(**other: Any) -> FedFast:
    return FedFast(
        **{**SMALL, "clusters": 4, "cohort": 12, "decay": 1.0, "startup": False, **other}
    )


def select(
    algorithm: FedFast, server: FedFastServer, data: Interactions, number: int
) -> np.ndarray:
    return algorithm.select(server, data.catalogue, key(1, "select", number))


@pytest.mark.parametrize("decay", [1.0, 0.2, 0.0])
def test_rounds_are_the_papers(data: Interactions, decay: float) -> None:
    """ActvAGG in float64 loops over the models that the delegates would have sent whole."""
    algorithm = fedfast(decay=decay)
    server, devices = started(algorithm, data)
    for number in range(4):
        users = select(algorithm, server, data, number)
        _, update, total = sent(algorithm, server, devices, data, users, number)
        after = algorithm.aggregate(server, total)
        n_k = np.diff(data.ptr)[users].astype(float)
        network = server.network[0] + sum(update.dense["network"].astype(float)) / n_k.sum()
        q, models = (
            np.zeros((len(users), ITEMS)),
            np.repeat(server.item[None].astype(float), len(users), axis=0),
        )
        for k in range(len(users)):
            for r in range(update.ptr[k], update.ptr[k + 1]):
                product = update.rows["item"][r] / TOP * algorithm.move_bound
                delta = product / (update.rows["share"][r] / TOP)  # |delta| delta / |delta|
                models[k, update.item[r]] += delta
                q[k, update.item[r]] = np.abs(delta).sum()
        item = np.stack(
            [
                q[:, i] @ models[:, i] / q[:, i].sum() if q[:, i].any() else server.item[i]
                for i in range(ITEMS)
            ]
        )
        user = server.user.astype(float)
        for p in range(4):
            mine = np.flatnonzero(server.cluster[users] == p)
            move = (
                np.mean([update.shown["user"][k] - server.user[users[k]] for k in mine], axis=0)
                if len(mine)
                else 0
            )
            user[server.cluster == p] += np.exp(-decay * (number + 1)) * move
        user[users] = update.shown["user"]
        assert np.allclose(after.network, network, atol=2e-5) and np.allclose(
            after.item, item, atol=2e-3
        )
        assert np.allclose(after.user, user, atol=2e-5) and same(
            after.user[users], update.shown["user"]
        )
        assert same(after.cluster, k_means(after.user, server.centroids)[0])
        server = after


def test_the_start_up_round_is_one_of_fedavg_with_everybody(data: Interactions) -> None:
    ours, theirs = (
        Rounds(fedfast(startup=True), data, seed=1),
        Rounds(FedAvg(**SMALL, server_rate_item=1), data, seed=1),
    )
    left, right = ours.start(), theirs.start()
    right.devices.user[:] = (
        left.server.user
    )  # drawn from another key: the server's, which holds them here
    assert select(ours.algorithm, left.server, data, 0).tolist() == list(range(USERS))
    left, right = ours.one_round(left), theirs.one_round(right)
    assert same(left.server.item, right.server.item) and same(
        left.server.network, right.server.network
    )
    assert same(left.server.user, right.devices.user)
    assert len(select(ours.algorithm, left.server, data, 1)) == 12  # from here on, delegates
    assert not same(ours.one_round(left).server.item, left.server.item)


@pytest.mark.parametrize("startup", [True, False])
def test_the_first_round_of_delegates_is_round_1(data: Interactions, startup: bool) -> None:
    """gamma_1 = exp(-1), whether a start-up round came before or not."""
    algorithm = fedfast(startup=startup, clusters=1, cohort=6)
    federation = Rounds(algorithm, data, seed=1)
    training = federation.advance(federation.start(), int(startup))
    before, after = training.server, federation.one_round(training).server
    moved = (after.user - before.user).astype(float)
    alike = [np.flatnonzero(np.abs(moved - move).max(axis=1) < 1e-6) for move in moved]
    others = max(alike, key=len)  # subordinates, who moved alike
    delegates = np.setdiff1d(np.arange(USERS), others)
    assert len(delegates) == 6
    assert np.allclose(moved[others[0]], np.exp(-1) * moved[delegates].mean(axis=0), atol=1e-6)


def test_each_cluster_sends_delegates(data: Interactions) -> None:
    algorithm = fedfast(cohort=4)
    server, _ = started(algorithm, data)
    for number in range(10):
        assert sorted(server.cluster[select(algorithm, server, data, number)].tolist()) == [
            0,
            1,
            2,
            3,
        ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 25}, "--set clusters: got 25; expected at most 24, the number of users"),
        ({"clusters": 9, "cohort": 8}, "--set cohort: got 8, fewer devices than the 9 clusters"),
    ],
)
def test_clusters_that_cannot_be(
    data: Interactions, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        Rounds(fedfast(**settings), data)
    assert message in str(refused.value) and "\n" not in str(refused.value)
