"""Noise on the first pushes of gossip: who carries it, that a node's own model has none, and that a
device of its own repeats it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_network.peers.node import PeerNode
from entrenous_network.wire.pushed import digest, pack, unpack
from federation_links import ratings
from peers_in_memory import rows_of, terms

from entrenous.core.errors import InputError
from entrenous.federation.gossip import Gossip, carries_noise
from entrenous.federation.recorder import NeighbourRecorder
from entrenous.privacy.push_noise import add_push_noise
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import check
from entrenous.systems.named import algorithms

DATA = ratings(24)
SMALL: dict[str, Any] = {"factors": 4, "view": 2}


def received(rounds: int = 4, **settings: Any) -> tuple[Gossip, NeighbourRecorder, np.ndarray]:
    """All messages of a small network, and the models of its nodes at the end."""
    recorder = NeighbourRecorder(np.arange(24))
    gossip = Gossip(algorithms()["pepper-gmf"](**{**SMALL, **settings}), DATA, recorder=recorder)
    swarm = gossip.advance(gossip.start(), rounds)
    return gossip, recorder, swarm.pool.values[swarm.slot].copy()


def table(gossip: Gossip, model: np.ndarray) -> np.ndarray:
    shape = gossip.algorithm.model.shape  # type: ignore[attr-defined]
    return model[: shape.factors * shape.stride].reshape(shape.factors, shape.stride)[
        :, : shape.items
    ]


def test_the_first_push_has_noise_on_every_number_and_a_later_one_is_as_it_was() -> None:
    """Without it an item that was not drawn is as in the base model, and all others are known to be
    trained on.
    """
    for noise in (0.0, 0.5):
        gossip, recorder, _ = received(push_noise=noise)
        base = recorder.rounds[0].received["model"]
        first = [seen.sent["model"][0] for seen in recorder.rounds if int(seen.sent["age"][0]) == 1]
        assert len(first) > 10
        moved = np.array([table(gossip, model) - table(gossip, base) for model in first])
        still = (np.abs(moved).sum(axis=1) == 0).mean()
        assert (
            (still > 0.05) if noise == 0 else (still == 0 and abs(np.std(moved) / noise - 1) < 0.05)
        )


def test_what_arrives_at_a_peer_is_noised_once_for_an_age_and_differs_between_nodes() -> None:
    """A second look at a model that has not changed shows the same noise; all three peers get the
    same copy.
    """
    models, keys = np.zeros((3, 64), np.float32), np.array([5, 5, 6], np.uint64)
    algorithm = algorithms()["pepper-gmf"](push_noise=0.1)
    add_push_noise(algorithm, models, keys, np.array([1, 1, 1]))
    assert np.array_equal(models[0], models[1]) and not np.array_equal(models[0], models[2])
    again = np.zeros((1, 64), np.float32)
    add_push_noise(algorithm, again, keys[:1], np.array([2]))
    assert not np.array_equal(again[0], models[0])


def test_who_has_merged_nothing_goes_on_with_noise_however_often_it_pushed() -> None:
    """A node that nobody answers pushes base model and own rows again and again."""

    class Nodes:
        pushes, age = np.array([1, 2, 9, 9]), np.array([1, 1, 1, 7])

    who = np.arange(4)
    for noisy, expected in ((1, [0, 1, 2]), (2, [0, 1, 2]), (0, [0, 1, 2, 3])):
        assert (
            carries_noise(
                algorithms()["pepper-gmf"](push_noise=0.1, noisy_pushes=noisy), Nodes, who
            ).tolist()
            == expected
        )
    assert not len(carries_noise(algorithms()["pepper-gmf"](), Nodes, who))


def test_the_noise_of_a_device_of_its_own_stays_out_of_its_model() -> None:
    of = terms(8).model_copy(update={"profile": "private"})
    assert of.gossip.push_noise == 0.1
    node = PeerNode(of, 3, rows_of(8)[3], 3)
    node.start()
    own, pushed = node.pool[0].copy(), node.push()
    assert np.array_equal(node.pool[0], own) and digest(pack(own)) != pushed.digest
    seen = unpack(pushed.body, len(own))
    assert abs(float(np.std(seen - own)) / 0.1 - 1) < 0.2


def test_one_that_was_not_measured_is_refused_in_one_line() -> None:
    check(RunPlan(algorithm="pepper-gmf", protocol="pepper-85-15", profile="private"))
    with pytest.raises(InputError, match="--profile"):
        check(RunPlan(algorithm="gossip-age-gmf", protocol="pepper-85-15", profile="private"))
