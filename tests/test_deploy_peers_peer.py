"""Peers in memory: what they do together, what they survive, and that all of it happens again to the byte."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from neighbours import Street, charter

from entrenous.core.errors import EntrenousError
from entrenous.deploy.peers.memory import Hub, in_virtual_time
from entrenous.federation.replay import replay

N = 8


async def run(street: Street, seconds: float) -> Street:
    street.start()
    await asyncio.sleep(seconds)
    await street.stop()
    return street


@pytest.mark.parametrize("draws", ["public", "secret"])
@pytest.mark.parametrize("algorithm", ["pepper-gmf", "gossip-average-gmf", "gossip-age-gmf"])
def test_what_peers_did_happens_again_in_the_engine(algorithm: str, draws: str) -> None:
    street = in_virtual_time(run(Street(charter(N, algorithm, draws=draws)), 60.0))
    again = replay(street.of.made, street.of.catalogue, street.of.seed, street.recordings())
    assert again.models.tobytes() == street.models().tobytes()
    for name, array in again.nodes._asdict().items():
        assert np.concatenate([getattr(p.node.nodes, name) for _, p in sorted(street.peers.items())]).tobytes() == array.tobytes()
    merged = sum(peer.tally["merged"] for peer in street.peers.values())
    assert merged > 0.8 * 3 * sum(peer.node.pushes for peer in street.peers.values()), street.peers[0].tally
    other = replay(street.of.made, street.of.catalogue, street.of.seed, street.recordings(), by_turns=True)
    assert other.models.tobytes() == again.models.tobytes() and other.events == again.events


def test_a_run_happens_again_to_the_byte() -> None:
    first, second = (in_virtual_time(run(Street(charter(N)), 40.0)) for _ in range(2))
    assert first.models().tobytes() == second.models().tobytes()
    assert [peer.tally for peer in first.peers.values()] == [peer.tally for peer in second.peers.values()]


def test_nobody_has_an_error_where_nothing_is_wrong() -> None:
    street = in_virtual_time(run(Street(charter(N)), 120.0))
    for peer in street.peers.values():
        assert not [name for name in peer.tally if name.startswith(("error", "crash", "banned"))], peer.tally
        assert len(peer.book.entries) == N - 1
    assert street.lines == []
