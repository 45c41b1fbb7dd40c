"""Strangers, who need no ticket to connect: they do not keep those out who have one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from memory_transport import in_virtual_time
from peers_in_memory import Street, terms

from entrenous.deploy.peers.port import LinkError
from entrenous.deploy.peers.serving import CONNECTIONS

N, MANY = 8, 2 * CONNECTIONS


async def squatting(street: Street, number: int) -> None:
    """A key without a ticket that takes a place of a bootstrap, begins a request now and then, and comes back when it is put out."""
    key, to = number.to_bytes(32, "little"), number % 2
    link = street.hub.link(key, f"memory:stranger-{number}")
    while True:
        with suppress(LinkError):
            connection = await link.dial(street.links[to].key, [f"memory:at-{to}"])
            await connection.open()  # a stream on which nothing comes, once: three errors would be a ban
            await asyncio.sleep(50.0)
        await asyncio.sleep(1.0)


async def beset(strangers: int) -> tuple[Street, int]:
    """How many models the bootstraps took in a minute, once strangers sit in all of their places."""
    street = Street(terms(N))
    for number in (0, 1):
        street.start(number)
    await asyncio.sleep(0.5)
    crowd = [asyncio.get_running_loop().create_task(squatting(street, 1000 + n)) for n in range(strangers)]
    await asyncio.sleep(2.0)
    street.start(*range(2, N))
    await asyncio.sleep(60.0)
    taken = sum(street.peers[number].tally["received.ok"] for number in (0, 1))
    for task in crowd:
        task.cancel()
    await street.stop()
    return street, taken


def test_strangers_in_all_places_of_the_bootstraps_keep_nobody_out() -> None:
    _, undisturbed = in_virtual_time(beset(0))
    street, taken = in_virtual_time(beset(MANY))
    assert taken > 0.6 * undisturbed > 20, (taken, undisturbed, street.peers[0].tally)
    assert all(len(peer.book.entries) == N - 1 for peer in street.peers.values())
