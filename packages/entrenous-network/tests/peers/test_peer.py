"""Peers in memory: what they do together, what they survive, and that all of it happens again to
the byte.
"""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread, current_thread
from time import sleep
from typing import Any

import pytest
from entrenous_network.peers.port import Machine
from memory_transport import in_virtual_time
from peers_in_memory import Street, run, terms

from entrenous.core.errors import EntrenousError

N = 8


@pytest.mark.parametrize("draws", ["public", "secret"])
@pytest.mark.parametrize("algorithm", ["pepper-gmf", "gossip-average-gmf", "gossip-age-gmf"])
def test_what_peers_did_happens_again(algorithm: str, draws: str) -> None:
    street = in_virtual_time(run(Street(terms(N, algorithm, draws=draws)), 60.0))
    street.check_replay()
    merged = sum(peer.tally["merged"] for peer in street.peers.values())
    assert merged > 0.8 * 3 * sum(peer.node.pushes for peer in street.peers.values()), street.peers[
        0
    ].tally


def test_views_are_never_empty_and_one_place_stays_random() -> None:
    street = in_virtual_time(run(Street(terms(N)), 60.0))
    for peer in street.peers.values():
        view = peer.node.nodes.view[0]  # type: ignore[attr-defined]
        assert len(view) == 3 and (view >= 0).all() and len(set(view.tolist())) == 3
    assert street.of.gossip.exploited == 2  # type: ignore[attr-defined]
    for settings in ({"alpha": 0.0}, {"view": 1}):
        with pytest.raises(EntrenousError, match="expected one at random"):
            _ = terms(N, settings={**terms(N).settings, **settings}).gossip


def test_a_push_that_is_still_being_saved_when_the_peer_ends_is_saved_once(tmp_path: Path) -> None:
    """A thread goes on when the loop that waits for it is cancelled: the last save came beside it,
    and wrote its events a second time.
    """
    street = Street(terms(N), folder=tmp_path)
    peer = street.make(0)
    peer.host = Machine()
    peer._begin()
    state, both = peer.state, Barrier(2, timeout=240)
    assert state is not None
    save, threads = state.save, []

    def slow(*arguments: Any) -> None:
        if len(threads) == 1:
            threads.append(Thread(target=peer._end))
            threads[1].start()
            sleep(0.2)  # as long as a busy disk takes; the end of the peer must wait for it
        save(*arguments)
        if current_thread() is threads[0]:
            both.wait()

    state.save = slow  # type: ignore[method-assign]
    threads.append(Thread(target=peer._push))
    threads[0].start()
    both.wait()
    for thread in threads:
        thread.join(240)
    numbers = [one.push for one in state.events()]
    assert numbers == [-1, 0], "the start and one push, each once"
