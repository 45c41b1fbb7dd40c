"""The same bytes by every way through the code: threads, blocks, with limits, gossip with messages
under way; FPL also with one-device rounds and in plain Python."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from plain_python import printed_both_ways
from small_federations import GOSSIP, PLAIN, gossiping
from small_federations import shop as small

from entrenous.core.contract.update import Total, Update, add_update, empty_total
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.gossip import Gossip
from entrenous.federation.network import Network
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Debug, Threads
from entrenous.federation.swarm import Swarm
from entrenous.privacy.choice import Choice
from entrenous.runs.recommenders import checkpoint_arrays, fitted, restore_training
from entrenous.systems.cali3f import Cali3F
from entrenous.systems.ditto import Ditto
from entrenous.systems.fedavg import FedAvg
from entrenous.systems.fedfast import FedFast
from entrenous.systems.fpl import ALGORITHMS, FPL
from entrenous.systems.reptile import Reptile

SETTINGS: dict[str, dict[str, Any]] = {
    "as run": {"factors": 20, "triples": 0},
    "one lane": {"factors": 3, "triples": 7},
    "whole lanes": {"factors": 32, "triples": 5, "user_step": "once"},
    "no positives": {"factors": 17, "triples": 9, "pi": 0.0},
    "a choice": {"factors": 5, "triples": 6, "pi": Choice(0.5, {3: 0.0}, {(1, 2): 1.0})},
    "a few devices": {"factors": 20, "triples": 4, "cohort": 11},
}

NEURAL: dict[str, Any] = {
    "fedavg": FedAvg(**{**PLAIN, "local_epochs": 2}, cohort=0),
    "fedavg, Adam": FedAvg(**{**PLAIN, "optimiser": "adam"}, layers=(), cohort=25),
    "cali3f": Cali3F(**PLAIN, clusters=5, cohort=25, init_std=0.3),
    "cali3f, everybody": Cali3F(**PLAIN, clusters=5, factors=0, phi=2.0, cohort=0),
    "cali3f, averages": Cali3F(**PLAIN, clusters=5, cohort=25, fast=False, sampled=False),
    "cali3f, as run": Cali3F(clusters=5, cohort=25),
    "fedfast": FedFast(**PLAIN, clusters=5, cohort=25, init_std=0.3),
    "ditto": Ditto(**PLAIN, cohort=25, reg_global=0.5),
    "ditto, as run": Ditto(cohort=25),
    "reptile": Reptile(**PLAIN, cohort=25, meta_rate=0.5),
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=60, items=90, interactions=1500, skew=0.65, seed=0)


def digest(training: Training) -> str:
    parts = [
        np.asarray(part).tobytes()
        for part in (*training.server, *training.devices, training.ledger)
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def trained(data: Interactions, settings: dict[str, Any], many: int = 3, **how: Any) -> str:
    rounds = Rounds(FPL(**settings), data, seed=1, **how)
    return digest(rounds.advance(rounds.start(), many))


@pytest.mark.parametrize("name", SETTINGS)
def test_threads_blocks_and_limits_change_nothing(name, data):
    expected = trained(data, SETTINGS[name])
    for threads in (2, 8):
        assert trained(data, SETTINGS[name], executor=Threads(threads)) == expected
    for block in (1, 7):
        assert trained(data, SETTINGS[name], block=block) == expected
    assert trained(data, SETTINGS[name], executor=Debug()) == expected
    assert (
        trained(data, SETTINGS[name], limits=[lambda update, keys: update]) == expected
    )  # updates made whole, then added
    assert trained(data, SETTINGS[name], many=2) != expected


@pytest.mark.parametrize("name", NEURAL)
def test_neural_networks_end_with_the_same_bytes_too(name, data):
    def run(many: int = 3, block: int = 0, **how: Any) -> tuple[str, bytes]:
        rounds = Rounds(NEURAL[name], data, seed=1, block=block, **how)
        training = rounds.advance(rounds.start(), many)
        scores = fitted(rounds, training).recommender.scores
        size = block or 60
        return digest(training), b"".join(
            scores(np.arange(60)[low : low + size]).tobytes() for low in range(0, 60, size)
        )

    expected = run()
    for how in (
        {"executor": Threads(2)},
        {"executor": Threads(8)},
        {"block": 1},
        {"block": 7},
        {"executor": Debug()},
    ):
        assert run(**how) == expected
    assert run(limits=[lambda update, keys: update]) == expected
    assert run(2)[0] != expected[0]


NETWORKS: dict[str, dict[str, Any]] = {
    "lock-step": {},
    "late": {"clock": "random", "latency": "uniform:0:3", "churn": 0.2},
    "rough": {
        "clock": "regular",
        "period": "uniform:0.5:1.5",
        "latency": "uniform:0.3:2.5",
        "bandwidth": "loguniform:200:20000",
        "loss": 0.2,
        "churn": 0.3,
        "session": 3,
        "restarts": 0.02,
        "partition": "3:5",
        "bad": 0.2,
    },
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", GOSSIP)
def test_gossip_ends_with_the_same_bytes_too(name: str, network: str) -> None:
    """By threads, one node at a time, and stopped and stored between any two rounds."""
    data, until = small(), 6

    def made(seed: int = 1, **how: Any) -> Gossip:
        return Gossip(
            gossiping(name), data, seed=seed, network=Network.read(NETWORKS[network]), **how
        )

    def told(gossip: Gossip, swarm: Swarm) -> tuple[bytes, ...]:
        result = fitted(gossip, swarm)
        arrays = [
            *result.arrays.values(),
            *swarm.counts,
            np.array(swarm.ledger),
            result.recommender.scores(np.arange(24)),
        ]
        return tuple(array.tobytes() for array in arrays)

    def run(seed: int = 1, **how: Any) -> tuple[bytes, ...]:
        gossip = made(seed, **how)
        return told(gossip, gossip.advance(gossip.start(), until))

    expected = run()
    for executor in (Threads(2), Threads(8), Debug()):
        assert run(executor=executor) == expected
    assert run(seed=2) != expected
    gossip = made()
    swarm = gossip.start()
    for number in range(1, until + 1):
        swarm = gossip.advance(swarm, number)
        swarm = restore_training(
            gossip, number, {kind: array.copy() for kind, array in checkpoint_arrays(swarm).items()}
        )  # type: ignore[assignment]
    assert told(gossip, swarm) == expected


@pytest.mark.parametrize("name", ["sfpl", "sfpl+"])
def test_a_run_of_one_device_rounds_is_the_rounds_one_by_one(name, data):
    settings = {**ALGORITHMS[name]().model_dump(), "factors": 20, "pi": 0.5}
    assert trained(data, settings, 40) == trained(
        data, settings, 40, limits=[lambda update, keys: update]
    )


def summed(
    algorithm: FPL, data: Interactions, server: Any, users: np.ndarray
) -> tuple[Total, Update, int, int]:
    """The total by `local_sum`, with the update by `local` of the same devices."""
    args = (
        server,
        algorithm.init_devices(users, data.catalogue, key(0, "devices")),
        data.histories(users),
        users,
        key(0, "round"),
    )
    _, update = algorithm.local(*args)
    _, total, rows, nbytes = algorithm.local_sum(*args, empty_total(update, len(data.items)))
    return total, update, rows, nbytes


@pytest.mark.parametrize("name", SETTINGS)
def test_local_sum_is_local_and_add(name, data):
    algorithm = FPL(**SETTINGS[name]).configured(data.catalogue)
    server = algorithm.init_server(data.catalogue, key(0, "server"))
    total, update, rows, nbytes = summed(algorithm, data, server, np.arange(60))
    expected = add_update(empty_total(update, 90), update)
    assert (
        all((total.rows[k] == expected.rows[k]).all() for k in ("q", "b"))
        and expected.rows["q"].any()
    )
    assert (
        (total.senders == expected.senders).all()
        and total.weight == expected.weight
        and total.devices == 60
    )
    assert (rows, nbytes) == (len(update.item), update.nbytes)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("how", [{}, {"limits": [lambda update, keys: update]}])
def test_a_model_that_is_not_finite_is_refused(value, how, data):
    """In the first round before a device sees it; later on by the sum, when it diverges."""
    rounds = Rounds(FPL(factors=20, triples=5), data, **how)
    start = rounds.start()
    start.server.q[:, 3] = value
    with pytest.raises(
        NonFiniteError, match=r"not finite or beyond|download 'q': a value that is NaN or infinite"
    ):
        rounds.one_round(start)
    rounds = Rounds(FPL(factors=20, triples=5), data, **how)
    later = rounds.one_round(rounds.start())
    later.server.q[:, 3] = value
    with pytest.raises(NonFiniteError, match="not finite or beyond"):
        rounds.one_round(later)


PROGRAM = """
import sys
from tests.federation.test_same_bytes import SETTINGS, trained
from entrenous.data.synthetic import synthetic
data = synthetic(users=12, items=40, interactions=150, skew=0.65, seed=0)
print([trained(data, SETTINGS[name], 2) for name in SETTINGS], trained(data, {"factors": 20, "cohort": 1, "triples": 2}, 20))
"""


def test_plain_python_ends_with_the_same_bytes():
    assert len(set(printed_both_ways(PROGRAM).split())) == 7
