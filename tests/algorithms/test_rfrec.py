"""RFRec against its loss: gradients by finite differences, Adam's first step by hand, gateways, the
coin of RFRecF.
"""

from __future__ import annotations

import numpy as np
import pytest
from small_data import few_ratings

from entrenous.core.contract.update import add_update, empty_total, real
from entrenous.core.keys import key
from entrenous.core.types import Float64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.systems.rfrec import EACH, RFRec

USERS, ITEMS, CLIENTS, IDLE = 7, 9, 3, 6
SETTINGS = {
    "factors": 3,
    "clients": CLIENTS,
    "init_std": 0.5,
    "reg": 0.3,
    "consensus": 2.0,
    "learning_rate": 0.05,
}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS, idle=True)


def begun(data: Interactions, **settings: object) -> tuple[RFRec, Rounds, Training]:
    """A federation in which the gateways' tables already differ, as they do after some rounds."""
    rounds = Rounds(RFRec(**{**SETTINGS, **settings}), data, seed=1)
    training = rounds.start()
    v = np.random.default_rng(3).normal(0, 0.5, training.server.v.shape).astype(np.float32)
    return (
        rounds.algorithm,
        rounds,
        training._replace(server=training.server._replace(v=v, mean=v.mean(0))),
    )


def loss(
    data: Interactions, u: Float64Array, v: Float64Array, mean: Float64Array, gateway: np.ndarray
) -> float:
    """L of the module's docstring, in float64."""
    r = (data.value - 1) / 4
    z = (u[data.user] * v[gateway[data.user], data.item]).sum(axis=1)
    return float(
        ((r - 1 / (1 + np.exp(-z))) ** 2).sum() + 0.3 * (u**2).sum() + 2.0 * ((v - mean) ** 2).sum()
    )


def slope_of(f, at: Float64Array) -> Float64Array:  # type: ignore[no-untyped-def]
    """Central differences."""
    out, eps = np.zeros_like(at), 1e-5
    for index in np.ndindex(*at.shape):
        bump = np.zeros_like(at)
        bump[index] = eps
        out[index] = (f(at + bump) - f(at - bump)) / (2 * eps)
    return out


def test_devices_send_the_gradient_of_the_squared_errors(data: Interactions) -> None:
    algorithm, _, training = begun(data)
    everyone, server, u = np.arange(USERS), training.server, training.devices.u.astype(float)
    received = algorithm.deliver(server, everyone)
    _, update = algorithm.local(
        received, training.devices, data.histories(everyone), everyone, key(1)
    )
    total = add_update(empty_total(update, ITEMS), update)
    v, mean = server.v.astype(float), server.mean.astype(float)
    slope = slope_of(lambda table: loss(data, u, table, mean, server.gateway), v) - 4 * (v - mean)
    assert np.abs(slope).max() > 0.05
    assert np.allclose(real(total.dense["v"]) / EACH, slope, atol=2e-6)
    for d in range(USERS):  # nothing but rated rows
        assert set(np.flatnonzero(update.dense["v"][d].any(axis=1))) == set(
            data.item[data.user == d]
        )


def test_both_sides_take_adams_first_step(data: Interactions) -> None:
    """At first m / (1 - beta1) = g and s / (1 - beta2) = g^2: every number moves by 0.05 g / (|g| +
    1e-8).
    """
    _, rounds, training = begun(data)
    u, v = training.devices.u.copy(), training.server.v
    mean, gateway = training.server.mean.astype(float), training.server.gateway
    slope_u = slope_of(lambda x: loss(data, x, v.astype(float), mean, gateway), u.astype(float))
    slope_v = slope_of(lambda x: loss(data, u.astype(float), x, mean, gateway), v.astype(float))
    after = rounds.one_round(training)
    busy = np.arange(USERS) != IDLE
    assert np.allclose(after.devices.u[busy], (u - 0.05 * np.sign(slope_u))[busy], atol=1e-4)
    assert np.array_equal(
        after.devices.u[IDLE], u[IDLE]
    )  # without ratings there is nothing to learn from
    assert np.allclose(after.server.v, v - 0.05 * np.sign(slope_v), atol=1e-4)
    assert np.allclose(after.server.mean, after.server.v.mean(axis=0), atol=1e-6)
    assert np.allclose(after.server.m, 0.1 * slope_v, atol=1e-5) and (
        after.server.step,
        after.server.round,
    ) == (1, 1)


def test_every_user_has_a_gateway_and_gateways_are_as_even_as_can_be(data: Interactions) -> None:
    algorithm, _, training = begun(data)
    assert training.server.gateway.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert RFRec(clients=200).configured(data.catalogue).clients == USERS
    received = algorithm.deliver(training.server, np.array([1, 2, 6]))
    assert np.array_equal(
        received.v[received.at], training.server.v[[0, 0, 2]]
    ) and received.group.tolist() == [0, 0, 2]
    near = algorithm.deliver(training.server, np.arange(3, 7))
    assert np.shares_memory(near.v, training.server.v) and near.at.tolist() == [
        0,
        0,
        1,
        1,
    ]  # neighbours need no copy


def test_only_rated_rows_are_sent_unless_something_looks_at_them(data: Interactions) -> None:
    rounds = Rounds(RFRec(**SETTINGS), data)
    ledger = rounds.one_round(rounds.start()).ledger
    assert (ledger.rows_up, ledger.bytes_up) == (len(data), len(data) * (4 + 3 * 4))
    rounds = Rounds(RFRec(**SETTINGS), data, limits=[lambda update, keys: update])
    assert rounds.one_round(rounds.start()).ledger.bytes_up == USERS * ITEMS * 3 * 4


def test_the_coin_of_rfrecf_says_who_works(data: Interactions) -> None:
    """A round either moves users and leaves tables apart, or moves V_c by eta towards Vbar and
    nobody sends anything.
    """
    _, rounds, training = begun(data, style="fast", local_chance=0.4, eta=0.25)
    kinds = []
    for _ in range(40):
        before, u = training, training.devices.u.copy()
        training = rounds.one_round(training)
        kinds.append(not np.array_equal(u, training.devices.u))
        assert (training.ledger.bytes_up > before.ledger.bytes_up) == kinds[-1]
        if not kinds[-1]:
            towards = before.server.v + 0.25 * (before.server.mean - before.server.v)
            assert np.allclose(training.server.v, towards, atol=1e-6)
            assert np.array_equal(training.server.m, before.server.m)
    assert int(training.server.step[0]) == sum(kinds) and 6 <= sum(kinds) <= 26  # 40 tosses at 0.4
