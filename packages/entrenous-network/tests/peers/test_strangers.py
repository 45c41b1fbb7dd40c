"""Strangers, who need no ticket to connect: they do not keep those out who have one."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from entrenous_network.peers.messages import Reply, Shuffle, frame, read_message
from entrenous_network.peers.port import LinkError
from entrenous_network.peers.rate_limits import AT_ONCE, REQUESTS
from entrenous_network.peers.serving import CONNECTIONS, OF_ONE, STRANGERS
from memory_transport import in_virtual_time
from peers_in_memory import Street, terms

N, MANY = 8, 2 * CONNECTIONS


async def squatting(street: Street, number: int, house: str) -> None:
    """A key without a ticket that takes a place of a bootstrap, begins a request now and then, and
    comes back when it is put out.
    """
    key, to = number.to_bytes(32, "little"), number % 2
    link = street.hub.link(key, f"memory:{house or 'stranger-'}{number}")
    while True:
        with suppress(LinkError):
            connection = await link.dial(street.links[to].key, [f"memory:at-{to}"])
            await (
                connection.open()
            )  # a stream on which nothing comes, once: three errors would be a ban
            await asyncio.sleep(50.0)
        await asyncio.sleep(1.0)


async def counting(street: Street, most: list[int]) -> None:
    """The most places of a bootstrap that strangers have had at once, and that somebody of their
    house has had.
    """
    while True:
        server = street.peers[0].server
        most[0] = max(most[0], server.open - len(server.leaving) - len(server.known))
        most[1] = max(most[1], server.origins["memory:house"])
        await asyncio.sleep(0.05)


async def beset(
    strangers: int, house: str = "", most: list[int] | None = None
) -> tuple[Street, int]:
    """How many models the bootstraps took in a minute, once strangers sit in all of their
    places.
    """
    street = Street(terms(N))
    for number in (0, 1):
        street.start(number)
    await asyncio.sleep(0.5)
    crowd = [
        asyncio.get_running_loop().create_task(squatting(street, 1000 + n, house))
        for n in range(strangers)
    ]
    crowd.append(asyncio.get_running_loop().create_task(counting(street, most or [0, 0])))
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


def test_strangers_from_many_addresses_never_have_more_than_half_of_the_places() -> None:
    most = [1, 0]
    street, _ = in_virtual_time(beset(2 * MANY, "", most))
    assert (
        STRANGERS // 2 < most[0] <= STRANGERS and street.peers[0].tally["connections.evicted"] > 0
    )


def test_strangers_from_one_address_have_few_places_and_disturb_nobody() -> None:
    """The limit counts from the moment a connection is accepted, before anybody has shown a key."""
    most = [1, 0]
    _, undisturbed = in_virtual_time(beset(0))
    street, taken = in_virtual_time(beset(2 * MANY, "house#", most))
    assert most[1] == OF_ONE and taken > 0.9 * undisturbed, (most, taken, undisturbed)
    assert street.peers[0].tally["connections.refused"] > MANY
    assert all(len(peer.book.entries) == N - 1 for peer in street.peers.values())


async def flood(requests: int) -> tuple[float, Street]:
    """The seconds that so many requests of one key take, whatever it says in them, over connections
    old and new.
    """
    street = Street(terms(N))
    street.start(0)
    await asyncio.sleep(0.5)
    key = (77).to_bytes(32, "little")
    link, began = street.hub.link(key, "memory:flood"), asyncio.get_running_loop().time()
    said = frame(Shuffle(b"another schema!!", ()))
    for number in range(requests):
        if number % 20 == 0:
            connection = await link.dial(street.links[0].key, ["memory:at-0"])
        stream = await connection.open()
        await stream.write(said)
        assert (await read_message(stream)) == Reply("schema")
    took = asyncio.get_running_loop().time() - began
    await street.stop()
    return took, street


def test_requests_of_one_key_are_read_as_often_as_a_correct_peer_sends_them() -> None:
    """The rest wait where they are, unread; nobody is banned for haste."""
    took, street = in_virtual_time(flood(100))
    least = (100 - AT_ONCE - 20) / (REQUESTS / street.peers[0].limits.interval)
    assert (
        took > least > 10
        and street.peers[0].tally["requests.held"] > 50
        and not street.peers[0].tally["banned"]
    )
