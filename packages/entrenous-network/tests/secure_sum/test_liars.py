"""Parties that lie to the others or to the server: the sum comes out all the same where it can, and
who lies to many is named, never the victim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import pytest
from entrenous_network.secure_sum import client as client_module
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.server import GAVE_WRONG, SENT_WRONG, SecureSumServer
from secure_sum_in_memory import (
    ALL,
    advertised,
    clients,
    consented,
    left,
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
LIAR = name(2)
Lies = Mapping[int, Collection[int]]
"""The parties that are lied to or about, by the place of each liar."""
PARTIES = 20  # of whom two may be in league, and twelve shares give a secret
LATE = {name(k) for k in (15, 16)}  # gone before they have sent their vector
LATER = {name(k) for k in (17, 18, 19)}  # gone before they have given shares


def started(parties: int) -> Sum:
    return clients(parties), SecureSumServer(terms(), members(parties))


def resigned(
    client: SecureSumClient, honest: m.Signed, change: Callable[[bytes], bytes], view: int
) -> m.Signed:
    """A client's message with another body, signed by itself."""
    return client._signed(honest.stage, client._views[view], change(honest.body))


def with_bad_boxes(me: int, holders: Collection[int]) -> Callable[[bytes], bytes]:
    """Shares of which the boxes for some holders hold nothing."""

    def change(body: bytes) -> bytes:
        said = m.decode(body, m.Shares, 1 << 20)
        others = [place for place in range(PARTIES) if place != me]
        boxes = [
            bytes(m.BOX) if place in holders else box
            for place, box in zip(others, said.boxes, strict=True)
        ]
        return m.encode(m.Shares(boxes, said.commitments))

    return change


def with_wrong_shares(owners: Collection[int]) -> Callable[[bytes], bytes]:
    """Revealed shares of which those of some owners are zeros."""

    def change(body: bytes) -> bytes:
        changed = bytearray(body)
        for owner in owners:
            changed[m.SHARE * owner : m.SHARE * (owner + 1)] = bytes(m.SHARE)
        return bytes(changed)

    return change


def lied_to(boxes: Lies, shares: Lies, late: set[str], later: set[str]) -> SecureSumServer:
    """A sum of 20 up to its end. boxes: who gives whom a bad box; shares: about whose shares who
    lies; late, later: who goes before it has sent its vector, and before it has given shares.
    """
    here, server = started(PARTIES)
    advertised(here, server)
    roster = server.roster()
    for place, client in enumerate(here.values()):
        answer = client.share(roster)
        if place in boxes:
            answer = resigned(client, answer, with_bad_boxes(place, boxes[place]), 1)
        server.add(answer)
    here = consented(masked(here, server, vectors(PARTIES), late), server)
    consents = server.consents()
    for each, client in left(here, later).items():
        place = int(each[-4:])
        answer = client.unmask(consents)
        if place in shares:
            answer = resigned(client, answer, with_wrong_shares(shares[place]), 3)
        server.add(answer)
    return server


class Case(NamedTuple):
    """Lies in a sum, and who is named for them."""

    boxes: Lies
    """Who gives whom a bad box."""
    shares: Lies
    """About whose shares who lies."""
    named: dict[int, str]


CASES = {
    "a bad box for one": Case({2: [1]}, {}, {}),
    "bad boxes for as many as may be in league": Case({2: [0, 1]}, {}, {}),
    "bad boxes for more": Case({2: [0, 1, 3]}, {}, {2: GAVE_WRONG}),
    "two give one victim bad boxes": Case({2: [1], 3: [1]}, {}, {}),
    "two lie about the shares of one victim": Case({}, {2: [1], 3: [1]}, {}),
    "one lies about the shares of more": Case({}, {2: [0, 1, 3]}, {2: SENT_WRONG}),
    "a bad box, and lies about one victim": Case({2: [1]}, {3: [1]}, {}),
    "many bad boxes, and many lies": Case(
        {2: [0, 1, 4]}, {3: [0, 1, 4]}, {2: GAVE_WRONG, 3: SENT_WRONG}
    ),
}


@pytest.mark.parametrize("late", [set(), LATE])
@pytest.mark.parametrize("lies", CASES)
def test_the_sum_comes_out_and_who_lies_to_many_is_named(lies: str, late: set[str]) -> None:
    """Two may be in league: what two could lay on an honest party names nobody."""
    boxes, shares, named = CASES[lies]
    server = lied_to(boxes, shares, late, LATER if late else set())
    assert server.liars == {name(place): lie for place, lie in named.items()}
    values = vectors(PARTIES)
    assert np.array_equal(server.total(), plain(values, set(values) - late))


def test_a_few_wrong_shares_and_many_dropouts_cost_the_attempt_and_name_nobody() -> None:
    """Eleven right shares are left of a party, and twelve are needed."""
    server = lied_to({2: [0, 1]}, {}, set(), {name(k) for k in range(13, 20)})
    with pytest.raises(SumRefused, match="11 right shares of a party; at least 12"):
        server.total()
    assert server.liars == {}


def test_shares_of_two_owners_exchanged_are_wrong() -> None:
    """Each share is of one owner. Of six, one may be in league."""
    here, server = started(6)
    shared(advertised(here, server), server)
    consented(masked(here, server, vectors(6)), server)
    consents = server.consents()

    def exchanged(body: bytes) -> bytes:
        return body[m.SHARE : 2 * m.SHARE] + body[: m.SHARE] + body[2 * m.SHARE :]

    for each, client in here.items():
        answer = client.unmask(consents)
        if each == LIAR:
            answer = resigned(client, answer, exchanged, 3)
        server.add(answer)
    assert np.array_equal(server.total(), plain(vectors(6), here))
    assert server.liars == {LIAR: SENT_WRONG}


def test_a_share_of_another_secret_for_one_is_found_by_other_subsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The liar commits to it, so the other is none: the subset without it gives the secret."""
    here, server = started(6)
    advertised(here, server)
    roster, honest = server.roster(), client_module.split

    def one_wrong(secret: bytes, t: int, points: list[int]) -> list[bytes]:
        shares = honest(secret, t, points)
        shares[0] = bytes(m.SHARE)
        return shares

    for each, client in here.items():
        monkeypatch.setattr(client_module, "split", one_wrong if each == LIAR else honest)
        server.add(client.share(roster))
    masked(here, server, vectors(6))
    unmasked(consented(here, server), server)
    assert np.array_equal(server.total(), plain(vectors(6), here))
    assert server.liars == {LIAR: "gave somebody a share of another secret"}


# ---- a server that changes boxes ---------------------------------------------------------------


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "other bytes": lambda boxes: [bytes(m.BOX)] * len(boxes),
    "of other senders": lambda boxes: boxes[1:] + boxes[:1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_that_changes_boxes_loses_the_shares_in_them_and_gets_nothing(change: str) -> None:
    """Its parties mask as if the boxes had come, and reveal their own share alone."""
    here, server = started(6)
    shared(advertised(here, server), server)
    for each, client in here.items():
        inbox = m.decode(server.inbox(each), m.Inbox, 1 << 20)
        changed = m.encode(m.Inbox(inbox.sharers, CHANGES[change](inbox.boxes)))
        server.add(client.mask(changed, vectors(6)[each], ALL))
    consented(here, server)
    consents = server.consents()
    for place, client in enumerate(here.values()):
        own = client._held[place][1]
        answer = client.unmask(consents)
        expected = bytes(m.SHARE * place) + own + bytes(m.SHARE * (5 - place))
        assert answer.body == expected
        server.add(answer)
    with pytest.raises(SumRefused, match="1 right shares of a party"):
        server.total()


def test_a_box_that_was_sent_back_does_not_open() -> None:
    """The two parties of a box derive one common secret, and a key for each direction."""
    here, server = started(6)
    shared(advertised(here, server), server)
    client = here[name(0)]
    inbox = m.decode(server.inbox(name(0)), m.Inbox, 1 << 20)
    sent_to_1 = m.decode(server.inbox(name(1)), m.Inbox, 1 << 20).boxes[0]
    changed = m.encode(m.Inbox(inbox.sharers, [sent_to_1, *inbox.boxes[1:]]))
    client.mask(changed, vectors(6)[name(0)], ALL)
    nothing = (bytes(m.SHARE), bytes(m.SHARE))
    assert [client._held[place] == nothing for place in (1, 2)] == [True, False]
