"""The parts of a peer by themselves: frames, records, the address book, limits, intake, what is
kept, what terms refuse.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from bad_answers import mutated

pytest.importorskip("msgspec")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.invitation import Contact
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.agreement.tickets import MOST, RevocationList
from entrenous_network.node.node_store import STORE
from entrenous_network.peers.address_book import LARGEST, AddressBook
from entrenous_network.peers.events import PeerEvent
from entrenous_network.peers.intake import BODIES, WAITING, PeerIntake
from entrenous_network.peers.messages import (
    CARRIED,
    LONGEST,
    AddressRecord,
    Offer,
    ProtocolError,
    Reply,
    Shuffle,
    frame,
    message_of,
)
from entrenous_network.peers.node import PeerNode, ReceivedModel
from entrenous_network.peers.rate_limits import RateLimits
from entrenous_network.peers.reachable import can_be_a_peers
from entrenous_network.peers.records import Verifier
from entrenous_network.peers.state import StateStore
from entrenous_network.wire.pushed import digest, pack, packed_bytes, unpack
from entrenous_network.wire.tensors import schema_of, write
from peers_in_memory import UNTIL, identity_of, public_of, rows_of, store_of, terms

from entrenous.core.errors import EntrenousError, InputError

OF = terms(100)
NOW = 1_800_000_000.0


def record(
    number: int,
    wall: float = NOW,
    address: str = "127.0.0.1:1",
    of: FederationTerms = OF,
    until: int = UNTIL,
    key: Ed25519PrivateKey | None = None,
) -> AddressRecord:
    return identity_of(of, number, key, until).record([address], wall)


def book(own: int = 99, **more: Any) -> AddressBook:
    return AddressBook(own, Verifier(OF, 15.0), **more)


def offer(number: int = 1, push: int = 0, **more: Any) -> Offer:
    said: dict[str, Any] = {
        "schema": OF.run_bytes,
        "record": record(number),
        "push": push,
        "size": OF.body_bytes,
        "digest": bytes([push % 256]) * 32,
        "age": 1,
        "samples": 2,
        "peers": (3, -1),
        **more,
    }
    return Offer(**said)


# ---- frames --------------------------------------------------------------------------------------


def test_the_largest_messages_fit_into_a_frame() -> None:
    wide = record(1)
    wide = msgspec.structs.replace(
        wide, addresses=("a" * 56,) * 4, issued=(1 << 40) - 1, until=(1 << 40) - 1, number=99
    )
    for message in (
        Shuffle(OF.run_bytes, (wide,) * CARRIED, ((1 << 31) - 1,) * CARRIED, (1 << 31) - 1),
        Reply("records", (wide,) * CARRIED),
        Reply("records", (wide,), RevocationList((1 << 31) - 1, (b"k" * 32,) * MOST, b"s" * 64)),
        offer(record=wide, peers=((1 << 31) - 1,) * 100, push=(1 << 40) - 1, size=(1 << 62) - 1),
    ):
        said = frame(message)
        assert len(said) <= 4 + LONGEST and message_of(said[4:]) == message


def test_ten_thousand_damaged_frames_are_messages_or_errors() -> None:
    draw = random.Random(2)
    said = (offer(), Shuffle(OF.run_bytes, (record(1), record(2)), (5,)), Reply("go"))
    good = [frame(message)[4:] for message in said]
    refused = 0
    for _ in range(10_000):
        try:
            message_of(mutated(draw, draw.choice(good)))
        except ProtocolError as wrong:
            assert wrong.code == "frame"
            refused += 1
    assert refused > 3_000
    for bad_bytes in (
        b"",
        b"\xc1",
        b"\x91" * 4000,
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ):
        with pytest.raises(ProtocolError):
            message_of(bad_bytes)


def test_unknown_fields_wrong_lengths_and_answers_are_refused() -> None:
    known = msgspec.to_builtins(offer(), builtin_types=(bytes,))
    assert message_of(msgspec.msgpack.encode(known)) == offer()
    for wrong in (
        {**known, "more": 1},
        {**known, "digest": b"short"},
        {**known, "size": -1},
        {**known, "age": 1 << 31},
        {**known, "peers": [-2]},
        {**known, "type": "other"},
        {"type": "reply", "answer": "gone"},
        {**known, "push": 1.5},
        {**known, "peers": [0] * 101},
    ):
        with pytest.raises(ProtocolError):
            message_of(msgspec.msgpack.encode(wrong))


# ---- records and the book ------------------------------------------------------------------------


def test_a_book_takes_what_is_signed_and_fresh() -> None:
    own = book()
    assert own.take([record(1), record(2), record(3, NOW - 20)], NOW) == 1
    assert set(own.entries) == {1, 2}
    own.put(record(1, NOW + 5, "127.0.0.1:2"), NOW + 5)
    assert own.contact(1) == Contact(1, public_of(1), ("127.0.0.1:2",))
    own.put(record(1, NOW + 1, "127.0.0.1:3"), NOW + 5)
    assert own.contact(1).addresses == ("127.0.0.1:2",), "an older one does not count"  # type: ignore[union-attr]
    own.put(record(99), NOW)
    assert 99 not in own.entries, "nor one of its own"
    own.expire(NOW + 16)
    assert set(own.entries) == {1} and own.contact(2) is None and 2 in own.past


def test_forged_records_are_refused_whatever_else_they_say() -> None:
    own, good = book(), record(4)
    for bad in (
        record(4, of=terms(100, seed=9)),
        msgspec.structs.replace(good, signature=b"\0" * 64),
        msgspec.structs.replace(good, ticket=record(5).ticket),
        msgspec.structs.replace(good, number=6),
        msgspec.structs.replace(good, id=b"\0" * 32),
        msgspec.structs.replace(good, issued=good.issued + 1),
        msgspec.structs.replace(good, number=100),
        msgspec.structs.replace(good, until=good.until + 1),
    ):
        with pytest.raises(ProtocolError, match="record"):
            own.take([bad], NOW)
    assert not own.entries


def test_who_cannot_be_reached_is_forgotten_until_there_is_news() -> None:
    own = book(bootstraps=[Contact(0, b"\0" * 32, ("127.0.0.1:9",))])
    own.put(record(1), NOW)
    own.failed(1, 10.0)
    assert own.waits(1, 11.9) and not own.waits(1, 12.1)
    own.reached(1)
    assert not own.waits(1, 10.0)
    own.failed(1, 20.0)
    own.failed(1, 30.0)
    assert own.contact(1) is None
    own.put(record(1), NOW)
    assert own.contact(1) is None, "the record by which it could not be reached is no news"
    assert {one.number for one in own.last_resorts(30.0)} == {0, 1}
    own.failed(0, 30.0)
    assert {one.number for one in own.last_resorts(30.0)} == {1} and {
        one.number for one in own.last_resorts(33.0)
    } == {0, 1}
    own.put(record(1, NOW + 1), NOW + 1)
    assert own.contact(1) is not None


def test_a_book_is_bounded_and_tells_what_is_wanted_first() -> None:
    own = book()
    for number in range(90):
        own.put(record(number, NOW + number / 10), NOW + number / 10)
    assert len(own.entries) == LARGEST and len(own.past) == LARGEST and min(own.entries) >= 20
    told = own.some((88, 3, 77), lambda n: 0, besides=77)
    assert told[0].number == 88 and len(told) == CARRIED and 77 not in {one.number for one in told}
    assert own.unknown([3, 88, -1, 99, 3]) == [3]


# ---- limits and intake ---------------------------------------------------------------------------


def test_three_errors_in_a_row_ban_for_a_while_and_one_good_deed_forgives() -> None:
    limits = RateLimits(interval=1.0, ban=60.0)
    assert [limits.error(b"a", 0.0), limits.error(b"a", 1.0)] == [False, False]
    limits.good(b"a")
    assert [limits.error(b"a", t) for t in (2.0, 3.0, 4.0)] == [False, False, True]
    assert (
        limits.is_banned(b"a", 63.9)
        and not limits.is_banned(b"a", 64.1)
        and not limits.is_banned(b"b", 5.0)
    )
    assert [limits.error(b"c", t) for t in (0.0, 61.0, 122.0, 150.0)] == [False] * 4, (
        "long ago does not count"
    )
    assert (
        limits.may("offer", b"b", 0.0)
        and not limits.may("offer", b"b", 0.9)
        and limits.may("offer", b"b", 1.0)
    )
    for n in range(5000):
        limits.error(n.to_bytes(4, "little"), 0.0)
    assert len(limits._of) <= 1024


def intake(interval: float = 0.0) -> PeerIntake:
    return PeerIntake(OF, book(), RateLimits(interval, 1.0), Counter())


def test_back_pressure_costs_an_answer_and_not_a_model() -> None:
    one = intake()
    key = {number: record(number).id for number in range(10)}
    answers = [one.offered(key[n], offer(n), 0.0, NOW) for n in range(6)]
    assert answers == ["go"] * BODIES + ["busy"] * 3
    for n in range(BODIES):
        one.arrived(received(n))
    assert (
        one.offered(key[3], offer(3), 0.0, NOW) == "go"
        and one.offered(key[4], offer(4), 0.0, NOW) == "busy"
    )
    assert one.offered(key[0], offer(0, 1), 0.0, NOW) == "go", (
        "a newer one of a sender that waits already"
    )
    one.arrived(received(0, 1))
    one.dropped(offer(3))
    assert len(one.waiting) == BODIES <= WAITING and one.tally["received.replaced"] == 1
    assert [one.next().sender for _ in range(3)] == [1, 2, 0] and one.next() is None  # type: ignore[union-attr]
    assert one.offered(key[0], offer(0, 1), 0.0, NOW) == "seen"
    slow = intake(interval=1.0)
    assert [slow.offered(key[1], offer(1, n), t, NOW) for n, t in ((0, 0.0), (1, 0.5))] == [
        "go",
        "busy",
    ]


def received(number: int, push: int = 0) -> ReceivedModel:
    return ReceivedModel(number, push, None, np.zeros(1, np.float32), bytes([push]) * 32)  # type: ignore[arg-type]


def test_ten_thousand_damaged_bodies_are_models_or_errors() -> None:
    draw, one = random.Random(3), intake()
    body = pack(np.linspace(-1, 1, one.width, dtype=np.float32))
    assert (
        len(body) == OF.body_bytes == packed_bytes(one.width) and unpack(body, one.width)[-1] == 1
    )
    refused = Counter[str]()
    for _ in range(10_000):
        bad = bytearray(body)
        for _ in range(draw.randint(1, 3)):
            bad[draw.randrange(160 if draw.random() < 0.5 else len(bad))] = draw.randrange(256)
        try:
            found = one.judged(offer(digest=digest(bad)), bad)
        except ProtocolError as wrong:
            refused[wrong.code] += 1
        else:
            assert np.isfinite(found.model).all() and np.abs(found.model).max() <= one.largest
    assert {"body-json", "body-names", "too-large"} <= refused.keys()
    with pytest.raises(ProtocolError, match="digest"):
        one.judged(offer(), bytearray(body))


# ---- what is kept --------------------------------------------------------------------------------


def test_what_is_kept_is_whole_private_and_verified(tmp_path: Path) -> None:
    path = tmp_path / STORE
    node = PeerNode(terms(8), 3, rows_of(8)[3], 3)
    node.start()
    store = store_of(path, 8, 3)
    state = StateStore(store)
    state.save(node.arrays(), 0, node.fresh, {"a": 1}, [record(5)])
    state.save(node.arrays(), 1, [PeerEvent(2, 5, 9, b"x" * 32)], {"a": 2}, [record(6)])
    store.close()
    assert path.stat().st_mode & 0o077 == 0
    store = store_of(path, 8, 3)
    again = StateStore(store)
    kept = again.load(schema_of(node.arrays()))
    assert (
        kept is not None
        and again.about() == {"a": 2}
        and [one.number for one in again.met()] == [6]
    )
    assert again.events() == [
        PeerEvent(0, -1, -1, b""),
        PeerEvent(2, 5, 9, b"x" * 32),
    ] and again.taken() == [(5, 9, b"x" * 32)]
    other = PeerNode(terms(8), 3, rows_of(8)[3], 3)
    other.restore(kept)
    assert (
        other.push().body == node.push().body
        and other.nodes.view.tolist() == node.nodes.view.tolist()
    )  # type: ignore[attr-defined]
    store.close()
    whole = write(node.arrays())
    for at in (200, len(whole) - 1):  # in what describes the arrays, and in one of the numbers
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        file = sqlite3.connect(path)
        file.execute("update peer set arrays = ?", (damaged,))
        file.commit()
        file.close()
        with pytest.raises(EntrenousError, match="restore the folder from a backup"):
            StateStore(store_of(path, 8, 3)).load(schema_of(node.arrays()))
    path.write_bytes(b"nonsense" * 100)
    with pytest.raises(EntrenousError, match="cannot be read"):
        store_of(path, 8, 3)


def test_terms_are_known_by_all_that_is_in_it() -> None:
    names = {
        terms(8, **more).run
        for more in (
            {},
            {"seed": 4},
            {"period": 3.0},
            {"draws": "secret"},
            {"items_root": "1"},
            {"operator": "0" * 64},
            {"oldest": 9},
            {"users": 9},
        )
    }
    assert len(names) == 8 and terms(8).run in names
    for bad, said in (
        ({"algorithm": "fpl", "settings": {}}, "server"),
        ({"draws": "none"}, "'public' or 'secret'"),
        ({"settings": {"factors": 1024, "view": 3}, "items": 9000}, "MB"),
    ):
        with pytest.raises(InputError, match=said):
            _ = terms(8, **bad).gossip  # type: ignore[arg-type]
    assert identity_of(terms(8), 2).record([], NOW).id == public_of(2)


def test_nobody_else_may_read_a_peers_state_nor_what_lies_beside_it(tmp_path: Path) -> None:
    """From its first byte, and whatever the user's mask is."""
    before = os.umask(0o000)
    try:
        store = store_of(tmp_path / STORE, 8, 3)
        StateStore(store).save({"a": np.zeros(3, np.float32)}, 0, [], {}, [])
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert "store.sqlite-wal" in modes and set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:53",
        "127.8.9.1:1",
        "[::1]:53",
        "[::ffff:127.0.0.1]:53",
        "0.0.0.0:9",
        "0.1.2.3:9",
        "[::]:9",
        "224.0.0.251:5353",
        "[ff02::fb]:5353",
        "255.255.255.255:9",
        "240.0.0.1:9",
        "169.254.169.254:80",
        "[fe80::1]:9",
        "[fe80::1%eth0]:9",
        "10.0.0.7:0",
        "10.0.0.7:65536",
        "10.0.0.7:x",
        "10.0.0.7:٨",
        "10.0.0.7",
        "::1:53",
        "[10.0.0.7]:9",
        "name.example:9",
        "2130706433:9",
        "0x7f.1:9",
        "",
    ],
)
def test_an_address_that_cannot_be_a_peers_is_not_dialled(address: str) -> None:
    assert not can_be_a_peers(address, on_loopback=False)


def test_addresses_of_other_machines_are_dialled_and_loopback_where_all_are_on_it() -> None:
    for address in (
        "10.0.0.7:9411",
        "192.168.1.7:1",
        "8.8.8.8:65535",
        "[2001:db8::7]:9411",
        "[fd00::7]:9",
    ):
        assert can_be_a_peers(address, on_loopback=False)
    assert can_be_a_peers("127.0.0.1:9", on_loopback=True) and can_be_a_peers(
        "[::1]:9", on_loopback=True
    )
    assert not can_be_a_peers("224.0.0.1:9", on_loopback=True)


def test_a_record_has_no_more_than_four_addresses() -> None:
    """Each is one machine that everybody who has the record dials."""
    four = msgspec.structs.replace(record(3), addresses=("10.0.0.7:1",) * 4)
    five = msgspec.structs.replace(four, addresses=("10.0.0.7:1",) * 5)
    assert message_of(frame(Shuffle(OF.run_bytes, (four,)))[4:]) == Shuffle(OF.run_bytes, (four,))
    with pytest.raises(ProtocolError, match="frame"):
        message_of(frame(Shuffle(OF.run_bytes, (five,)))[4:])
