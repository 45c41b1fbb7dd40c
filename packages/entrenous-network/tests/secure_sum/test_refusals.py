"""What a client refuses whatever the server says, and what a server refuses whatever a client
sends: each by its code.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bad_answers import mutated
from entrenous_network.secure_sum import client as client_module
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum import primitives as p
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.quorum import quorum
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.terms import Floors, SumTerms
from entrenous_network.secure_sum.vector import SumRows
from entrenous_network.wire.statement import DOMAIN, Head
from msgspec import msgpack, structs
from secure_sum_in_memory import (
    ALL,
    MODEL,
    OTHER,
    SMALL,
    advertised,
    clients,
    consented,
    identity,
    masked,
    members,
    name,
    plain,
    shared,
    terms,
    unmasked,
    vectors,
)

Sum = tuple[dict[str, SecureSumClient], SecureSumServer]


def refused(code: str, call: Callable[[], object]) -> SumRefused:
    with pytest.raises(SumRefused) as found:
        call()
    assert found.value.code == code, found.value
    assert "\n" not in str(found.value)
    return found.value


def started(parties: int, about: SumTerms | None = None, floors: Floors = SMALL) -> Sum:
    agreed = about or terms()
    return clients(parties, agreed, floors), SecureSumServer(agreed, members(parties))


def listed(signed: m.Signed, parties: int) -> m.SignedAdvert:
    """An advert as a roster has it."""
    entry = members(parties).entry(signed.sender)
    return m.SignedAdvert(entry, signed.signature, signed.body)


def signature(number: int, head: bytes) -> bytes:
    """The signature of a party under whatever head."""
    return p.sign(identity(number), DOMAIN + head)


def heads(stage: int, who: int, view: bytes, body: bytes) -> list[bytes]:
    """Heads that are not those of a message of `terms()`: each has one thing wrong."""
    good = terms().head(stage, name(who), view, body)
    fields = msgpack.decode(good, type=Head)
    wrong: list[tuple[str, Any]] = [
        ("kind", m.STAGES[(stage + 1) % 5]),
        ("run", "another"),
        ("round", 4),
        ("attempt", 1),
        ("node", name(who + 1).encode()),
        ("view", bytes(32)),
        ("view", terms(attempt=1).digest(members(5).head)),
        ("size", len(body) + 1),
        ("digest", bytes(32)),
        ("model", bytes(32)),
    ]
    made = [m.encode(structs.replace(fields, **{field: value})) for field, value in wrong]
    # The same number in a longer form.
    made.append(good.replace(b"\x03\x00\xc4", b"\xcc\x03\x00\xc4"))
    assert good not in made
    return made


# ---- floors of the client ------------------------------------------------------------------------


def test_a4_a_cohort_below_the_floor() -> None:
    """A4. At the roster, at the list of sharers and at the list of survivors."""
    parties, server = started(6, floors=Floors(people=7, occupancy=1))
    advertised(parties, server)
    refused("floor", lambda: parties[name(0)].share(server.roster()))

    parties, server = started(6, floors=Floors(people=6, occupancy=1))
    shared(advertised(parties, server), server, [name(5)])
    refused("floor", lambda: parties[name(0)].mask(server.inbox(name(0)), vectors(6)[name(0)], ALL))

    parties, server = started(6, floors=Floors(people=6, occupancy=1))
    shared(advertised(parties, server), server)
    masked(parties, server, vectors(6), [name(5)])
    refused("floor", lambda: parties[name(0)].consent(server.survivors()))


def test_a_cohort_below_the_people_of_the_terms() -> None:
    """M6: noise is shared among so many, whatever a device asks for by itself."""
    agreed = replace(terms(), people=7)
    parties, server = started(6, agreed, Floors(people=2, occupancy=1))
    advertised(parties, server)
    refused("floor", lambda: parties[name(0)].share(server.roster()))


def test_rows_that_too_few_devices_fill() -> None:
    parties, server = started(6, floors=Floors(people=2, occupancy=10))
    shared(advertised(parties, server), server)
    values = vectors(6)[name(0)]
    for rows in (SumRows(10, 10), SumRows(16, 10), SumRows(0, 5), SumRows(1, 0)):
        refused(
            "occupancy",
            lambda rows=rows: parties[name(0)].mask(server.inbox(name(0)), values, rows),
        )
    assert parties[name(0)].mask(
        server.inbox(name(0)), values, SumRows(17, 10)
    )  # 10.2 devices a row


def test_rows_that_too_few_are_left_to_fill() -> None:
    parties, server = started(6, floors=Floors(people=2, occupancy=10))
    shared(advertised(parties, server), server)
    for k in range(5):
        server.add(
            parties[name(k)].mask(server.inbox(name(k)), vectors(6)[name(k)], SumRows(17, 10)),
        )
    refused("occupancy", lambda: parties[name(0)].consent(server.survivors()))


def test_noise_on_every_row_makes_up_for_empty_ones() -> None:
    parties, server = started(6, floors=Floors(people=2, occupancy=10, noise=True))
    shared(advertised(parties, server), server)
    assert parties[name(0)].mask(server.inbox(name(0)), vectors(6)[name(0)], SumRows(1, 1000))


def test_a7_another_model_is_seen_by_all() -> None:
    """A7. The server shows one client another model: the honest intake refuses the advert, and
    under a server that does not, the client and all others see that the roster states two models,
    and withhold.
    """
    parties, server = started(6)
    victim = SecureSumClient(terms(model=OTHER), members(6).head, name(3), identity(3), SMALL)
    parties[name(3)] = victim
    refused("model", lambda: server.add(victim.advertise()))
    adverts = [listed(client.advertise(), 6) for client in parties.values()]
    roster = m.encode(adverts)
    assert "5 of 6 parties signed another model" in str(
        refused("model", lambda: victim.share(roster))
    )
    for each, client in parties.items():
        if each != name(3):
            assert "1 of 6 parties" in str(
                refused("model", lambda client=client: client.share(roster))
            )
    # a roster of only those with the victim's model is one of too few; and nobody's statement of
    # another model can be changed
    refused("floor", lambda: victim.share(m.encode([adverts[3]])))
    lied = [structs.replace(advert, body=advert.body.replace(MODEL, OTHER)) for advert in adverts]
    refused("signature", lambda: victim.share(m.encode(lied)))


def test_a4_never_both_kinds_of_share() -> None:
    """A4. A server that wants the seed of one party and the key of its pairs' masks has to show two
    lists of survivors.
    """
    parties, server = started(10)
    shared(advertised(parties, server), server)
    masked(parties, server, vectors(10))
    whole, without_9 = server.survivors(), m.to_bits(range(9), 10)

    # half of them are shown a list with party 9, the other half one without
    one = {name(k): parties[name(k)].consent(whole) for k in range(5)}
    two = {name(k): parties[name(k)].consent(without_9) for k in range(5, 9)}

    def consents(of: dict[str, m.Signed]) -> bytes:
        signers = sorted(int(each[-4:]) for each in of)
        return m.encode(
            m.Consents(m.to_bits(signers, 10), b"".join(of[name(k)].signature for k in signers))
        )

    refused("quorum", lambda: parties[name(0)].unmask(consents(one)))
    refused("quorum", lambda: parties[name(8)].unmask(consents(two)))
    for k in (0, 8):  # the other half's signatures are under the other list
        refused("signature", lambda k=k: parties[name(k)].unmask(consents({**one, **two})))
    for k in range(5):  # and nobody signs twice
        refused("both", lambda k=k: parties[name(k)].consent(without_9))
    for k in range(5, 9):
        refused("both", lambda k=k: parties[name(k)].consent(whole))
    # party 9 sent, and is said not to have
    refused("survivors", lambda: parties[name(9)].consent(without_9))


def test_lists_that_cannot_be() -> None:
    parties, server = started(6)
    shared(advertised(parties, server), server, [name(5)])
    values, inbox = vectors(6)[name(0)], m.decode(server.inbox(name(0)), m.Inbox, 1 << 20)
    for code, bits, boxes in (
        ("sharers", b"\x80", inbox.boxes),  # a place that is none
        ("sharers", b"\x1f\x00", inbox.boxes),
        ("sharers", m.to_bits(range(1, 5), 6), inbox.boxes),  # not the client itself
        ("floor", m.to_bits(range(3), 6), inbox.boxes[:2]),
        ("box", m.to_bits(range(5), 6), inbox.boxes[:-1]),
        ("box", m.to_bits(range(5), 6), [*inbox.boxes, inbox.boxes[0]]),
    ):
        wrong = m.encode(m.Inbox(bits, boxes))
        refused(code, lambda wrong=wrong: parties[name(0)].mask(wrong, values, ALL))
    masked(parties, server, vectors(6), [name(5)])
    everybody = m.to_bits(range(6), 6)  # 5 never shared
    refused("survivors", lambda: parties[name(0)].consent(everybody))


# ---- rosters -------------------------------------------------------------------------------------


def test_rosters_that_the_server_made_up() -> None:
    parties, server = started(5)
    advertised(parties, server)
    adverts = m.decode(server.roster(), m.Roster, 1 << 20)
    client = parties[name(0)]

    def ask(*some: m.SignedAdvert) -> Callable[[], m.Signed]:
        return lambda: client.share(m.encode(list(some)))

    *others, last = adverts
    view = terms().digest(members(5).head)
    body = m.encode(m.Advert(MODEL, *(p.public_of(bytes([k]) * 32) for k in (1, 2)), bytes(32)))
    # A key of the server's in the name of another.
    head = terms().head(m.ADVERT, name(4), view, body)
    forged = m.SignedAdvert(last.entry, signature(99, head), body)
    refused("roster", ask(*adverts[::-1]))
    refused("roster", ask(*adverts, adverts[-1]))
    refused("roster", ask(*adverts[1:]))
    refused("signature", ask(*others, forged))
    # Who is in no log, or in another one, or elsewhere, or otherwise, is no party.
    entry = last.entry
    for wrong in (
        structs.replace(entry, leaf=structs.replace(entry.leaf, shop=bytes(32))),
        structs.replace(entry, index=3),
        members(6).entry(name(4)),
    ):
        refused("unknown", ask(*others, structs.replace(last, entry=wrong)))
    # What the party has signed, but for something else.
    for said in heads(m.ADVERT, 4, view, last.body):
        other = structs.replace(last, signature=signature(4, said))
        refused("signature", ask(*others, other))
    # Of a client that was before this one.
    own = listed(clients(5)[name(0)].advertise(), 5)
    refused("roster", ask(own, *adverts[1:]))
    refused("floor", ask(*adverts[:1]))
    refused("malformed", lambda: client.share(b"\x91" * 2000))


def test_signatures_of_something_else_that_the_server_shows() -> None:
    """Of a consent: it was made by its party, under another head."""
    parties, server = started(5)
    shared(advertised(parties, server), server)
    client = parties[name(0)]
    masked(parties, server, vectors(5))
    consented(parties, server)
    good = m.decode(server.consents(), m.Consents, 1 << 20)
    for head in heads(m.CONSENT, 0, client._views[3], b""):
        signatures = signature(0, head) + good.signatures[64:]
        shown = m.encode(m.Consents(good.signers, signatures))
        refused("signature", lambda shown=shown: client.unmask(shown))
    assert client.unmask(server.consents())


def test_a_key_that_no_one_can_agree_with() -> None:
    parties, server = started(3)
    client = parties[name(2)]
    view = client._views[0]
    for at in range(2):
        keys = [p.public_of(b"\1" * 32), p.public_of(b"\2" * 32)]
        keys[at] = bytes(32)  # a point of low order: what is agreed on would be 0
        bad = client._signed(m.ADVERT, view, m.encode(m.Advert(MODEL, *keys, bytes(32))))
        refused("keys", lambda bad=bad: server.add(bad))
    roster = [listed(parties[name(k)].advertise(), 3) for k in range(2)]
    bad = client._signed(
        m.ADVERT, view, m.encode(m.Advert(MODEL, bytes(32), p.public_of(b"\1" * 32), bytes(32)))
    )
    refused("keys", lambda: parties[name(0)].share(m.encode([*roster, listed(bad, 3)])))


# ---- below the threshold -------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["advert", "shares", "masked", "consent"])
def test_a3_below_the_threshold_a_round_is_abandoned_and_nothing_is_revealed(stage: str) -> None:
    """A3. Of 20, 9 of 20 drop out: 11 are left where 12 must be. The server has no share, and no
    client gives it one.
    """
    parties, server = started(20)
    values, q = vectors(20), quorum(20)
    gone = [name(k) for k in range(20 - q + 1)]
    assert q == 12 and len(gone) == 9
    at = ("advert", "shares", "masked", "consent").index(stage)
    here = parties
    if stage == "advert":
        here = advertised(parties, server, [name(k) for k in range(19)])
        refused("threshold", server.roster)
        return
    for number, step in enumerate(
        (advertised, shared, lambda a, s, g: masked(a, s, values, g), consented)
    ):
        here = step(here, server, gone if number == at else [])
        if number == at:
            break
    close = (
        server.roster,
        lambda: server.inbox(name(19)),
        server.survivors,
        server.consents,
    )[at]
    assert "nothing is revealed" in str(refused("threshold", close))
    # a server that goes on regardless gets no further with any client that is left
    said = m.to_bits(range(len(gone), 20), 20)
    for client in here.values():
        if stage == "shares":
            refused(
                "floor",
                lambda client=client: client.mask(
                    m.encode(m.Inbox(said, [])), values[client.name], ALL
                ),
            )
        elif stage == "masked":
            refused("floor", lambda client=client: client.consent(said))
        else:
            signatures = b"".join(server._said[m.CONSENT][each] for each in sorted(here))
            refused(
                "quorum",
                lambda client=client, got=signatures: client.unmask(
                    m.encode(m.Consents(said, got))
                ),
            )
    assert server._shares == {} and server.heard(m.UNMASKING) == frozenset()
    refused("stage", server.total)


def test_a_member_that_lies_about_its_shares_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    parties, server = started(6)
    advertised(parties, server)
    roster, honest = server.roster(), client_module.split
    for each, client in parties.items():
        lie = each == name(2)
        monkeypatch.setattr(
            client_module,
            "split",
            lambda secret, t, x, lie=lie: honest(bytes(32) if lie else secret, t, x),
        )
        server.add(client.share(roster))
    masked(parties, server, vectors(6))
    unmasked(consented(parties, server), server)
    refused("shares", server.total)
    assert list(server.liars) == [name(2)]


# ---- what the server refuses ---------------------------------------------------------------------


def test_messages_the_server_refuses() -> None:
    parties, server = started(5)
    client, good = parties[name(0)], parties[name(0)].advertise()
    view = client._views[0]
    for head in heads(m.ADVERT, 0, view, good.body):
        bad = structs.replace(good, head=head, signature=signature(0, head))
        refused("signature", lambda bad=bad: server.add(bad))
    for code, bad in (
        ("unknown", structs.replace(good, sender="zoe")),
        ("signature", structs.replace(good, body=good.body[:-1] + b"\0")),
        ("malformed", client._signed(m.ADVERT, view, b"\x90")),
        ("size", client._signed(m.ADVERT, view, bytes(4096))),
        ("stage", structs.replace(good, stage=m.SHARES)),
    ):
        refused(code, lambda bad=bad: server.add(bad))
    assert server.heard(m.ADVERT) == frozenset()
    advertised(parties, server)
    other = clients(5)[name(0)].advertise()
    refused("duplicate", lambda: server.add(other))
    server.roster()
    refused("stage", lambda: server.add(other))


def test_later_messages_the_server_refuses() -> None:
    parties, server = started(5)
    advertised(parties, server, [name(4)])
    roster = server.roster()
    client = parties[name(0)]
    good = client.share(roster)

    def bad(code: str, stage: int, view: bytes, body: bytes) -> None:
        """The client signs this, and the server refuses it."""
        refused(code, lambda: server.add(client._signed(stage, view, body)))

    refused("unknown", lambda: server.add(structs.replace(good, sender=name(4))))
    for code, box, boxes, hashes in (
        ("box", m.BOX, 2, 4),
        ("box", m.BOX, 3, 3),
        ("malformed", m.BOX - 1, 3, 4),
    ):
        body = m.encode(m.Shares([bytes(box)] * boxes, bytes(m.COMMITTED * hashes)))
        bad(code, m.SHARES, client._views[1], body)
    here = shared({name(k): parties[name(k)] for k in range(4)}, server)
    refused("unknown", lambda: server.inbox(name(4)))
    inbox = server.inbox(name(0))
    upload = client.mask(inbox, vectors(5)[name(0)], ALL)
    view = client._views[2]
    for length in (0, 319, 321):
        bad("vector", m.MASKED, view, bytes(length))
    masked(here, server, vectors(5), [name(0)])
    server.add(upload)
    bad("duplicate", m.MASKED, view, bytes(320))
    client.consent(server.survivors())
    bad("size", m.CONSENT, client._views[3], b"more")
    consented(here, server)
    shares = client.unmask(server.consents())
    for body in (b"", shares.body[:-1], shares.body + b"\0"):
        bad("size", m.UNMASKING, client._views[3], body)
    unmasked(here, server)
    assert np.array_equal(server.total(), plain(vectors(5), here))


def test_a_journal_that_is_none() -> None:
    journal: list[bytes] = []
    agreed = terms()
    server = SecureSumServer(agreed, members(3), journal.append)
    shared(advertised(clients(3), server), server)
    refused(
        "malformed", lambda: SecureSumServer.rebuilt(agreed, members(3), [*journal[:2], b"\xff"])
    )
    refused("stage", lambda: SecureSumServer.rebuilt(agreed, members(3), journal[::-1]))
    closed = m.encode(m.Close(0))
    refused("stage", lambda: SecureSumServer.rebuilt(agreed, members(3), [*journal, closed]))
    refused("threshold", lambda: SecureSumServer.rebuilt(agreed, members(3), [closed]))
    refused("signature", lambda: SecureSumServer.rebuilt(terms(round=9), members(3), journal))


# ---- mutations -----------------------------------------------------------------------------------


MUTANTS = 120  # of every message, and of the head and the body of one that is signed


def test_thousands_of_mutated_messages_are_refused_and_change_nothing() -> None:
    """Before every message on its way, to the server and to a client, its mutants: each is refused
    by code, and the sum is exact.
    """
    rng, values = random.Random(7), vectors(6)
    parties, server = started(6)
    tried, codes = 0, set[str]()

    def attack(receive: Callable[[bytes], object], message: bytes) -> None:
        nonlocal tried
        for _ in range(MUTANTS):
            tried += 1
            with pytest.raises(SumRefused) as found:
                receive(mutated(rng, message))
            codes.add(found.value.code)

    def send(message: m.Signed) -> None:
        attack(lambda data: server.add(structs.replace(message, head=data)), message.head)
        attack(lambda data: server.add(structs.replace(message, body=data)), message.body)
        assert server.add(message)

    for client in parties.values():
        send(client.advertise())
    roster = server.roster()
    for client in parties.values():
        attack(client.share, roster)
        send(client.share(roster))
    for each, client in parties.items():
        inbox = server.inbox(each)
        # With other bytes in a box it would be taken, since a box that does not open is none.
        bare = m.encode(structs.replace(m.decode(inbox, m.Inbox, 1 << 20), boxes=[]))
        attack(lambda data, each=each, client=client: client.mask(data, values[each], ALL), bare)
        send(client.mask(inbox, values[each], ALL))
    for client in parties.values():
        # Other bytes may be another list, which is signed by fewer than a quorum.
        send(client.consent(server.survivors()))
    consents = server.consents()
    for client in parties.values():
        attack(client.unmask, consents)
        send(client.unmask(consents))
    assert tried > 6000 and {"malformed", "signature", "box"} <= codes
    assert np.array_equal(server.total(), plain(values, values))


def test_a_sum_takes_no_more_parties_than_a_roster_can_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody could read the roster, and the whole sum would be lost."""
    monkeypatch.setattr(m, "MAX_PARTIES", 3)
    parties, server = started(4)
    adverts = [client.advertise() for client in parties.values()]
    for advert in adverts[:3]:
        assert server.add(advert)
    refused("size", lambda: server.add(adverts[3]))
    assert len(server.heard(m.ADVERT)) == 3
