"""Recordings of peers, replayed: the data and the first state are the engine's, and recordings that
cannot all be true are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec")

from entrenous_network.peers.replay import MESSAGE, PUSH, Recording, ReplayError, joined, replay
from memory_transport import in_virtual_time
from peers_in_memory import ITEMS, SMALL, Street, run, terms
from small_gossip import shop

from entrenous.federation.gossip import Gossip
from entrenous.systems.pepper import PepperGMF

N = 5


@pytest.fixture(scope="module")
def street() -> Street:
    return in_virtual_time(run(Street(terms(N)), 30.0))


def again(street: Street, recordings: list[Recording]) -> Any:
    return replay(street.of.gossip, street.of.catalogue, street.of.seed, recordings)


def test_with_public_draws_peers_have_what_nodes_of_a_simulation_have(street: Street) -> None:
    gossip = Gossip(PepperGMF(**SMALL), shop(N, items=ITEMS, each=9), seed=street.of.seed)
    own, theirs = (
        joined([peer.node.data for _, peer in sorted(street.peers.items())]),
        gossip.private,
    )
    for mine, engine in zip(
        (*own.histories, *own.weighing), (*theirs.histories, *theirs.weighing), strict=True
    ):
        assert (mine is None) == (engine is None) and (mine is None or np.array_equal(mine, engine))
    begun = gossip.start()
    starts = [one._replace(events=one.events[:1]) for one in street.recordings()]
    found = again(street, starts)
    assert found.models.tobytes() == begun.models.tobytes()
    for name, array in begun.nodes._asdict().items():
        assert getattr(found.nodes, name).tobytes() == array.tobytes(), name


def test_what_was_not_sent_is_found(street: Street) -> None:
    recordings = street.recordings()
    events = list(recordings[1].events)
    last = max(n for n, event in enumerate(events) if event.kind == MESSAGE)
    for kind in (MESSAGE, PUSH):
        place = max(n for n, event in enumerate(events) if event.kind == kind)
        changed = [*events[:place], events[place]._replace(digest=b"\0" * 32), *events[place + 1 :]]
        with pytest.raises(
            ReplayError, match=rf"peer 1, event {place} .*: the model is .* here, 0000"
        ):
            again(
                street, [*recordings[:1], recordings[1]._replace(events=changed), *recordings[2:]]
            )
    swapped = [
        *events[:last],
        events[last]._replace(push=events[last].push - 1),
        *events[last + 1 :],
    ]
    with pytest.raises(ReplayError, match=r"peer 1, event"):
        again(street, [*recordings[:1], recordings[1]._replace(events=swapped), *recordings[2:]])


def test_an_event_left_out_is_found(street: Street) -> None:
    recordings = street.recordings()
    for number in (0, 3, 10):
        events = [event for n, event in enumerate(recordings[2].events) if n != number]
        with pytest.raises(ReplayError):
            again(street, [*recordings[:2], recordings[2]._replace(events=events), *recordings[3:]])


def test_other_rows_or_another_seed_are_found(street: Street) -> None:
    recordings = street.recordings()
    for wrong in (recordings[0]._replace(seed=99), recordings[0]._replace(data=recordings[1].data)):
        with pytest.raises(ReplayError, match="the model is"):
            again(street, [wrong, *recordings[1:]])
