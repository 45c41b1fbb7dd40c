"""Tickets that end, keys that are revoked or replaced, models that are too old: by themselves, and
between peers that hear of it.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.tickets import RevocationList
from entrenous_network.peers.address_book import AddressBook
from entrenous_network.peers.messages import AddressRecord, ProtocolError
from entrenous_network.peers.node import TOO_OLD, PeerNode, ReceivedModel
from entrenous_network.peers.records import Verifier
from memory_transport import EPOCH, in_virtual_time
from peers_in_memory import UNTIL, Street, identity_of, key_of, public_of, revoked, rows_of, terms

from entrenous.core.contract.gossip import ACCEPTED, Headers

N = 8
OF = terms(N)
NOW = EPOCH


def record(number: int, key: Ed25519PrivateKey | None = None, until: int = UNTIL) -> AddressRecord:
    return identity_of(OF, number, key, until).record(["memory:1"], NOW)


def book(**more: object) -> AddressBook:
    return AddressBook(7, Verifier(OF, 15.0), **more)  # type: ignore[arg-type]


def test_an_ended_ticket_counts_no_more() -> None:
    own = book()
    with pytest.raises(ProtocolError, match="stale"):
        own.put(record(1, until=int(NOW)), NOW)
    own.put(record(1, until=int(NOW) + 5), NOW)
    assert own.contact(1) is not None
    own.expire(NOW + 6)
    assert own.contact(1) is None, "though the record itself is good for longer"


def test_only_the_operators_newest_list_counts() -> None:
    kept: list[RevocationList] = []
    verifier = Verifier(OF, 15.0, keep=kept.append)
    newer, older = revoked(OF, 3, 1, 2), revoked(OF, 2, 1)
    assert verifier.take_revoked(newer) and verifier.serial == 3
    assert not verifier.take_revoked(older) and not verifier.take_revoked(newer), (
        "an old list brings nobody back"
    )
    assert verifier.is_revoked(public_of(2)) and kept == [newer]
    for forged in (
        revoked(OF, 9, 3, operator=key_of(3)),  # signed by a member
        revoked(terms(N, seed=9), 9, 3),  # of another federation
        RevocationList(9, newer.keys, newer.signature),  # another number
        RevocationList(3, (*newer.keys, public_of(3)), newer.signature),  # one more key
        RevocationList(4, (), newer.signature),
    ):
        with pytest.raises(ProtocolError, match="revocation"):
            verifier.take_revoked(forged)
    assert verifier.revoked == newer


def test_a_number_is_of_one_key() -> None:
    own = book()
    own.put(record(1), NOW)
    for until in (UNTIL, UNTIL + 1):
        with pytest.raises(ProtocolError, match="number"):
            own.put(record(1, Ed25519PrivateKey.generate(), until), NOW)


def test_all_hear_of_a_revoked_key_from_one_who_knows() -> None:
    async def story() -> None:
        street = Street(OF)
        street.start()
        await asyncio.sleep(20)
        await street.kill(4)
        street.revoked[4] = revoked(OF, 1, 5)
        street.start(4)
        await asyncio.sleep(60)
        others = [peer for number, peer in street.peers.items() if number != 5]
        assert all(peer.book.verifier.serial == 1 and 5 not in peer.book.entries for peer in others)
        before = street.peers[5].tally["pushed.ok"], [peer.tally["merged"] for peer in others]
        await asyncio.sleep(30)
        assert street.peers[5].tally["pushed.ok"] == before[0], "nobody takes a model of it"
        assert all(
            peer.tally["merged"] > count for peer, count in zip(others, before[1], strict=True)
        )
        assert street.lines == []
        await street.stop()

    in_virtual_time(story())


def received(node: PeerNode, age: int) -> ReceivedModel:
    headers = Headers(
        *(np.array([n]) for n in (5, age, 9)),
        np.array([[-1]], np.int32),
        np.array([node.pool.shape[1]]),
    )
    return ReceivedModel(5, 0, headers, node.pool[0] + 1, b"")


@pytest.mark.parametrize(
    ("age", "said"), [(89, TOO_OLD), (90, ACCEPTED), (100, ACCEPTED), (0, TOO_OLD)]
)
def test_a_model_of_long_ago_is_refused_where_the_terms_say_so(age: int, said: int) -> None:
    node = PeerNode(terms(N, oldest=10), 0, rows_of(N)[0], 3)
    node.start()
    node.nodes.age[0] = 100  # type: ignore[attr-defined]
    before, events = node.pool[0].copy(), node.events
    assert node.receive(received(node, age)) == said
    assert (node.events, np.array_equal(node.pool[0], before)) == (
        (events, True) if said == TOO_OLD else (events + 1, False)
    )
