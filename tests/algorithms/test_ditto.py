"""Ditto: FedAvg beside a personal model that follows eq. 1; what stays on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_federations import SMALL, USERS, same, sent, shop, started, trained

from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.kernels import ncf
from entrenous.systems._federated_ncf import data_of
from entrenous.systems.ditto import Ditto, own_networks
from entrenous.systems.fedavg import FedAvg

EVERYONE = np.arange(USERS)


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop()


def ditto(**other: Any) -> Ditto:
    return Ditto(**{**SMALL, "reg_global": 0.1, **other})


@pytest.mark.parametrize("reg_global", [0.0, 0.3])
@pytest.mark.parametrize("cohort", [0, 9])
def test_the_global_model_is_fedavgs_exactly(
    data: Interactions, reg_global: float, cohort: int
) -> None:
    ours = trained(ditto(reg_global=reg_global, cohort=cohort), data, 4)
    theirs = trained(FedAvg(**{**SMALL, "cohort": cohort}), data, 4)
    assert same(ours.server, theirs.server) and same(ours.devices.user, theirs.devices.user)
    assert ours.ledger == theirs.ledger  # not a byte more is sent


def test_one_step_of_the_personal_model_is_eq_1(data: Interactions) -> None:
    """v <- v - eta (grad F(v) + lambda (v - w*)), with v and w apart: the penalty's part is the
    difference to lambda = 0.
    """
    once = {"local_epochs": 1, "batch": 1 << 20}  # the whole history is one step
    training = trained(ditto(), data, 3)
    server, devices, eta = training.server, training.devices, SMALL["learning_rate"]
    free, _, _ = sent(ditto(**once, reg_global=0.0), server, devices, data, EVERYONE)
    held, _, _ = sent(ditto(**once, reg_global=0.7), server, devices, data, EVERYONE)
    away_user, away_network = devices.own_user - devices.user, devices.own_network - server.network
    assert np.abs(away_user).max() > 0.01 and np.abs(away_network).max() > 0.01
    assert np.allclose(held.own_user, free.own_user - eta * 0.7 * away_user, atol=1e-6)
    assert np.allclose(held.own_network, free.own_network - eta * 0.7 * away_network, atol=1e-6)
    assert same(held.user, free.user)  # the anchor is w as it was received, which learns by itself


def test_without_lambda_the_personal_part_learns_alone(data: Interactions) -> None:
    """v evolves as a user embedding and a network of the device's own, beside the item embeddings
    of each round.
    """
    algorithm = ditto(reg_global=0.0)
    server, devices = started(algorithm, data)
    user, network, each = (
        devices.user.copy(),
        np.repeat(server.network, USERS, axis=0),
        EVERYONE.astype(np.int32),
    )
    rates = algorithm.rates(item=np.float32(0))
    for number in range(3):
        private = data_of(data.histories(EVERYONE), EVERYONE, key(1, "round", number))
        learnt = ncf.train(algorithm.shape, rates, user, server.item, network, each, private)
        user, network = learnt.user, network + learnt.network
        devices, _, total = sent(algorithm, server, devices, data, EVERYONE, number)
        server = algorithm.aggregate(server, total)
        assert same(devices.own_user, user) and same(devices.own_network, network)


def test_devices_that_never_took_part_score_with_what_they_receive(data: Interactions) -> None:
    training = trained(ditto(cohort=5), data, 2)
    started_now = training.devices.started
    assert 5 <= started_now.sum() <= 10
    shape, one = ditto().shape, np.zeros(USERS, np.int32)
    by_global = ncf.scores(
        shape, training.devices.user, training.server.item, training.server.network, one
    )
    scores = ditto().score(training.server, training.devices, data.histories(EVERYONE))
    assert same(scores[~started_now], by_global[~started_now])
    assert (scores[started_now] != by_global[started_now]).any(axis=1).all()
    assert not training.devices.own_network[~started_now].any()


def test_scores_are_those_of_the_personal_model(data: Interactions) -> None:
    algorithm, training = ditto(), trained(ditto(), data, 3)
    devices = training.devices
    scores = algorithm.score(training.server, devices, data.histories(EVERYONE))
    for d in (0, 7):
        network, one = devices.own_network[d : d + 1], np.zeros(1, np.int32)
        alone = ncf.scores(
            algorithm.shape, devices.own_user[d : d + 1], training.server.item, network, one
        )
        assert same(scores[d], alone[0])
    assert same(own_networks(training.server, devices), devices.own_network)
