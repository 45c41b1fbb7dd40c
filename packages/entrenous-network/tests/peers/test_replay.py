"""Recordings of peers, replayed: a peer trains as the nodes of a simulation do, and recordings that
cannot all be true are found.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("msgspec")

from entrenous_lab.trials.replayed import ReplayError, replay
from entrenous_network.peers.events import MESSAGE, PUSH
from entrenous_network.peers.node import PeerNode, ReceivedModel
from entrenous_network.wire.pushed import unpack
from memory_transport import in_virtual_time
from peers_in_memory import ITEMS, SMALL, Street, run, terms
from small_gossip import shop

from entrenous.core.contract.gossip import ACCEPTED, Arrivals
from entrenous.core.keys import folded
from entrenous.federation.gossip import Gossip, node_keys
from entrenous.systems.pepper import PepperGMF

N = 5


@pytest.fixture(scope="module")
def street() -> Street:
    return in_virtual_time(run(Street(terms(N)), 30.0))


def test_peers_do_what_all_nodes_of_a_simulation_do_at_once() -> None:
    """With public draws: they begin, push, and take the model of the next one."""
    of = terms(N)
    gossip = Gossip(PepperGMF(**SMALL), shop(N, items=ITEMS, each=9), seed=of.seed)
    begun = gossip.start()
    everyone, pool, nodes = np.arange(N), begun.pool.values[begun.slot].copy(), begun.nodes
    peers = [Street(of).node(number) for number in range(N)]
    for peer in peers:
        peer.start()

    def same() -> None:
        for number, peer in enumerate(peers):
            assert peer.pool[0].tobytes() == pool[number].tobytes()
            for name, array in nodes._asdict().items():
                assert getattr(peer.nodes, name)[0].tobytes() == array[number].tobytes(), name

    same()
    keys = [folded(node_keys(of.seed, everyone), np.full(N, event)) for event in (1, 2)]
    headers = gossip.algorithm.on_timer(nodes, everyone, gossip.private, keys[0]).headers
    pushed = [peer.push() for peer in peers]
    same()
    following = np.roll(everyone, -1)
    sent = np.concatenate([pool, pool[following]])
    arrivals = Arrivals(
        sent, everyone, everyone, everyone + N, everyone, headers.at(following), keys[1]
    )
    gossip.algorithm.on_message(arrivals, nodes, gossip.private)
    pool = sent[:N]
    for peer, sender in zip(peers, following.tolist(), strict=True):
        own = pushed[sender]
        model = unpack(own.body, len(pool[0]))
        received = ReceivedModel(sender, own.number, own.headers, model, own.digest)
        assert peer.receive(received) == ACCEPTED
    same()


def test_what_was_not_sent_is_found(street: Street) -> None:
    recordings = street.recordings()
    events = list(recordings[1].events)
    last = max(n for n, event in enumerate(events) if event.kind == MESSAGE)
    for kind in (MESSAGE, PUSH):
        recordings = street.recordings()
        place = max(n for n, event in enumerate(events) if event.kind == kind)
        changed = [*events[:place], events[place]._replace(digest=b"\0" * 32), *events[place + 1 :]]
        with pytest.raises(
            ReplayError, match=rf"peer 1, event {place} .*: the model is .* here, 0000"
        ):
            replay([*recordings[:1], recordings[1]._replace(events=changed), *recordings[2:]])
    swapped = [
        *events[:last],
        events[last]._replace(push=events[last].push - 1),
        *events[last + 1 :],
    ]
    recordings = street.recordings()
    with pytest.raises(ReplayError, match=r"peer 1, event"):
        replay([*recordings[:1], recordings[1]._replace(events=swapped), *recordings[2:]])


def test_an_event_left_out_is_found(street: Street) -> None:
    for number in (0, 3, 10):
        recordings = street.recordings()
        events = [event for n, event in enumerate(recordings[2].events) if n != number]
        with pytest.raises(ReplayError):
            replay([*recordings[:2], recordings[2]._replace(events=events), *recordings[3:]])


def test_other_rows_or_another_seed_are_found(street: Street) -> None:
    for rows, seed in ((0, 99), (1, street.of.seed)):
        recordings = street.recordings()
        wrong = PeerNode(street.of, 0, street.rows[rows], seed)
        with pytest.raises(ReplayError, match="the model is"):
            replay([recordings[0]._replace(node=wrong), *recordings[1:]])
