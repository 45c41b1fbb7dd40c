"""One enrolled peer that lies in the headers of sound models: the network goes on, and nobody honest is banned for it."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from memory_transport import in_virtual_time
from peers_in_memory import Street, rows_of, terms

from entrenous.core.gossip import Headers
from entrenous.core.gossip_node import LEAP, OLDEST, credible
from entrenous.deploy.peers.node import PeerNode, Pushed, ReceivedModel

N, LIAR = 8, 5


def claiming(node: PeerNode, **lies: int) -> None:
    """From now on the node says of its models what is not so."""
    honest = node.push

    def push() -> Pushed:
        sent = honest()
        return sent._replace(headers=sent.headers._replace(**{name: np.array([lie]) for name, lie in lies.items()}))

    node.push = push  # type: ignore[method-assign]


async def lied_to(street: Street, seconds: float, **lies: int) -> list[int]:
    """Models merged by the honest peers, in the first and in the second half of a run."""
    street.start()
    await asyncio.sleep(4.0)
    claiming(street.peers[LIAR].node, **lies)
    merged = []
    for _ in range(2):
        before = sum(peer.tally["merged"] for peer in street.peers.values())
        await asyncio.sleep(seconds)
        merged.append(sum(peer.tally["merged"] for peer in street.peers.values()) - before)
    await street.stop()
    return merged


@pytest.mark.parametrize("algorithm", ["pepper-gmf", "gossip-age-gmf"])
@pytest.mark.parametrize("age", [OLDEST, OLDEST - 3, 1 << 20])
def test_a_model_that_claims_a_huge_age_silences_nobody(algorithm: str, age: int) -> None:
    street = Street(terms(N, algorithm))
    first, second = in_virtual_time(lied_to(street, 40.0, age=age))
    assert second > 0.8 * first > 50
    assert not any(peer.tally["banned"] or peer.tally["error.frame"] for peer in street.peers.values())
    assert max(int(peer.node.nodes.age[0]) for peer in street.peers.values()) < 10_000  # type: ignore[attr-defined]


def received(age: int, samples: int = 9) -> ReceivedModel:
    one = PeerNode(terms(N, "gossip-age-gmf"), LIAR, rows_of(N)[LIAR], 3)
    headers = Headers(*(np.array([n]) for n in (LIAR, age, samples)), np.array([[-1]], np.int32), np.array([one.pool.shape[1]]))
    return ReceivedModel(LIAR, 0, headers, one.pool[0].copy(), b"")


def test_ages_that_climb_by_what_is_believed_stop_where_a_message_can_say_them() -> None:
    """A patient liar stays within what is believed: ages end at the most a message holds, and go on being sent."""
    node = PeerNode(terms(N, "gossip-age-gmf"), 0, rows_of(N)[0], 3)
    node.start()
    for age in (OLDEST - LEAP, OLDEST - 1, OLDEST, OLDEST):
        node.nodes.age[0] = max(int(node.nodes.age[0]), age - LEAP)  # type: ignore[attr-defined]
        assert node.receive(received(age)) == 0
    assert int(node.nodes.age[0]) == OLDEST  # type: ignore[attr-defined]
    assert int(node.push().headers.age[0]) == OLDEST
    node.nodes.age[0] = 1 << 40  # type: ignore[attr-defined]  # as an earlier version kept it
    assert int(node.push().headers.age[0]) == OLDEST


def test_what_a_header_claims_is_believed_within_bounds() -> None:
    """No age far ahead of the own one, no more rows than there are items: else one message would decide the merge."""
    said: Any = [5, 7 + LEAP, 8 + LEAP, 1 << 50, -1]
    headers = Headers(
        np.zeros(5, np.int64), np.array(said), np.array([3, 40, 41, 1 << 31, -4]), np.empty((5, 0), np.int32), np.ones(5)
    )
    found = credible(headers, np.full(5, 7), 40)
    assert found.age.tolist() == [5, 7 + LEAP, 7, 7, 7]
    assert found.samples.tolist() == [3, 40, 40, 40, 0]
