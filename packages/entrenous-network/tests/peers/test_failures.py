"""Peers in memory that crash, die and are cut off: what the others, and they themselves, do about
it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from memory_transport import Hub, in_virtual_time
from peers_in_memory import Street, public_of, terms

from entrenous.core.errors import EntrenousError

N = 8


async def breaking(street: Street, number: int, times: float) -> Any:
    """One peer's exchange of records fails `times` times."""
    street.start()
    await asyncio.sleep(20)
    sender, whole = street.peers[number].sender, street.peers[number].sender.shuffle

    async def shuffle() -> None:
        nonlocal times
        times -= 1
        if times >= 0:
            raise KeyError("a bug")
        await whole()

    sender.shuffle = shuffle  # type: ignore[method-assign]
    await asyncio.sleep(40)
    return street


def test_a_crashed_task_is_told_and_begun_again() -> None:
    async def story() -> Street:
        street = await breaking(Street(terms(N)), 3, 2)
        peer = street.peers[3]
        before, shuffles = peer.tally["pushed.ok"], peer.tally["shuffles"]
        await asyncio.sleep(40)
        assert peer.tally["crash.shuffle"] == 2
        assert peer.tally["pushed.ok"] > before + 20 and peer.tally["shuffles"] > shuffles + 10
        await street.stop()
        return street

    street = in_virtual_time(story())
    assert (
        len(street.lines) == 2 and "KeyError" in street.lines[0] and "going on" in street.lines[0]
    )


def test_a_task_that_keeps_crashing_ends_the_peer_with_a_word_and_nobody_else(
    tmp_path: Any,
) -> None:
    async def story() -> Street:
        street = await breaking(Street(terms(N), folder=tmp_path), 3, 10**9)
        with pytest.raises(EntrenousError, match=r"peer 3: 'shuffle' failed 5 times.*KeyError"):
            await street.tasks[3]
        gone = street.peers.pop(3)
        assert gone.state is not None and len(gone.state.events()) == gone.node.events
        await asyncio.sleep(40)
        before = {number: peer.tally["pushed.ok"] for number, peer in street.peers.items()}
        await asyncio.sleep(20)
        assert all(
            peer.tally["pushed.ok"] > before[number] for number, peer in street.peers.items()
        )
        await street.stop()
        return street

    in_virtual_time(story())


def test_the_dead_come_back_with_their_state_and_all_of_it_can_be_replayed(tmp_path: Any) -> None:
    async def story() -> Street:
        street = Street(terms(N, draws="secret"), folder=tmp_path)
        street.start()
        await asyncio.sleep(21.3)
        kept = {number: street.peers[number].state.events() for number in (1, 4, 6)}  # type: ignore[union-attr]
        for number in (1, 4, 6):
            await street.kill(number)
        await asyncio.sleep(20)
        street.start(1, 4)
        await asyncio.sleep(20)
        await street.kill(4)
        street.start(4, 6)
        await asyncio.sleep(30)
        await street.stop()
        for number, events in kept.items():
            now = street.peers[number].state.events()  # type: ignore[union-attr]
            assert now[: len(events)] == events and len(now) > len(events) + 20
        return street

    street = in_virtual_time(story())
    street.check_replay()


def test_g6_all_others_are_dead_a_peer_keeps_its_model_and_tries_again(tmp_path: Any) -> None:
    async def story() -> None:
        street = Street(terms(N), folder=tmp_path)
        street.start()
        await asyncio.sleep(21)
        others = [number for number in range(N) if number != 5]
        for number in others:
            await street.kill(number)
        await asyncio.sleep(15)  # what was under way
        alone, model = street.peers[5], street.peers[5].node.pool[0].copy()
        pushes = alone.node.pushes
        await asyncio.sleep(80)
        assert alone.node.pool[0].tobytes() == model.tobytes()
        assert alone.node.pushes > pushes + 35 and not alone.book.entries
        street.start(*others[2:])  # the bootstraps stay dead
        await asyncio.sleep(90)
        assert alone.tally["merged"] > 20 and alone.node.pool[0].tobytes() != model.tobytes()
        assert len(alone.book.entries) == len(others) - 2
        await street.stop()

    in_virtual_time(story())


def test_g4_a_network_that_was_cut_in_two_grows_together_again() -> None:
    async def story() -> None:
        cut, side = (
            [False],
            {public_of(number): number % 2 for number in range(N)},
        )  # bootstrap 0 on one side, 1 on the other
        street = Street(terms(N), Hub(cut=lambda one, other: cut[0] and side[one] != side[other]))
        street.start()
        await asyncio.sleep(30)
        cut[0] = True
        await asyncio.sleep(30 * street.of.period)
        for number, peer in street.peers.items():
            assert {other % 2 for other in peer.book.entries} == {number % 2}, (
                "records of the other side have expired"
            )
        cut[0] = False
        await asyncio.sleep(60 * street.of.period)
        assert all(len(peer.book.entries) == N - 1 for peer in street.peers.values())
        await street.stop()

    in_virtual_time(story())
