"""Parties that lie to the others or to the server: the sum comes out all the same where it can, and
the liar is named, never the victim."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from entrenous_network.secure_sum import client as client_module
from entrenous_network.secure_sum import messages as m
from entrenous_network.secure_sum.client import SecureSumClient
from entrenous_network.secure_sum.refusal import SumRefused
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.secure_sum.statements import box_digest, sealed, unsealed
from msgspec.structs import replace
from secure_sum_in_memory import (
    ALL,
    advertised,
    clients,
    consented,
    masked,
    name,
    plain,
    roll,
    shared,
    terms,
    unmasked,
    vectors,
)

Sum = tuple[dict[str, SecureSumClient], SecureSumServer]
LIAR, VICTIM = name(2), name(1)


def started(parties: int) -> Sum:
    return clients(parties), SecureSumServer(terms(), roll(parties))


def resigned(
    client: SecureSumClient, data: bytes, change: Callable[[bytes], bytes], view: int
) -> bytes:
    """A client's message with another body, signed by itself."""
    signed = m.decode(data, m.Signed, 1 << 20)
    return client._signed(signed.stage, client._views[view], change(signed.body))


# ---- wrong shares ------------------------------------------------------------------------------


LIES: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda body: bytes(len(body)),
    # Each share is of one owner: those of two owners, exchanged, are told from right ones.
    "exchanged": lambda body: body[m.SHARE : 2 * m.SHARE] + body[: m.SHARE] + body[2 * m.SHARE :],
}


@pytest.mark.parametrize("lie", LIES)
def test_wrong_shares_of_one_of_six_cost_nothing_and_name_the_liar(lie: str) -> None:
    """M2: all rounds were lost, although five right shares came where four give a secret."""
    here, server = started(6)
    shared(advertised(here, server), server)
    masked(here, server, vectors(6))
    consented(here, server)
    consents = server.consents()
    for each, client in here.items():
        answer = client.unmask(consents)
        if each == LIAR:
            answer = resigned(client, answer, LIES[lie], 3)
        server.add(m.UNMASKING, answer)
    assert np.array_equal(server.total(), plain(vectors(6), here))
    assert server.liars == {LIAR: "sent other shares than it had been given"}


def test_a_share_of_another_secret_for_one_neighbour_is_found_by_other_subsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The liar commits to it, so its neighbour is none: the subset without it gives the secret."""
    here, server = started(6)
    advertised(here, server)
    roster, honest = server.roster(), client_module.split

    def one_wrong(secret: bytes, t: int, points: list[int]) -> list[bytes]:
        shares = honest(secret, t, points)
        shares[0] = bytes(m.SHARE)
        return shares

    for each, client in here.items():
        monkeypatch.setattr(client_module, "split", one_wrong if each == LIAR else honest)
        server.add(m.SHARES, client.share(roster))
    masked(here, server, vectors(6))
    unmasked(consented(here, server), server)
    assert np.array_equal(server.total(), plain(vectors(6), here))
    assert server.liars == {LIAR: "gave somebody a share of another secret"}


# ---- bad boxes ---------------------------------------------------------------------------------


def with_a_bad_box(box: bytes | None = None, hashes: bool = False) -> tuple[Sum, bytes]:
    """A sum in which the liar's box for the victim is bad, and the victim's complaint."""
    here, server = started(6)
    advertised(here, server)
    roster = server.roster()
    for each, client in here.items():
        answer = client.share(roster)
        if each == LIAR:
            answer = resigned(client, answer, lambda body: _spoilt(client, body, box, hashes), 1)  # noqa: B023
        server.add(m.SHARES, answer)
    with pytest.raises(SumRefused) as refused:
        here[VICTIM].mask(server.inbox(VICTIM), vectors(6)[VICTIM], ALL)
    assert refused.value.code == "box"
    return (here, server), refused.value.evidence


def _spoilt(client: SecureSumClient, body: bytes, box: bytes | None, hashes: bool) -> bytes:
    """The liar's message with another box for the victim, or with another hash of its share."""
    said = m.decode(body, m.Shares, 1 << 20)
    boxes, committed = list(said.boxes), bytearray(said.commitments)
    if hashes:
        committed[m.COMMITTED] ^= 1  # the victim is the second of all holders
    else:
        boxes[1] = bytes(m.BOX) if box is None else box
    hashes_of_victim = bytes(committed[m.COMMITTED : 2 * m.COMMITTED])
    client._sent[1] = box_digest(boxes[1], hashes_of_victim)  # as the liar's own program would
    return m.encode(m.Shares(boxes, bytes(committed)))


@pytest.mark.parametrize("hashes", [False, True])
def test_a_bad_box_names_who_sent_it_and_the_others_have_their_sum(hashes: bool) -> None:
    """M2: the log named the victim alone, in every one of 26 lines."""
    (here, server), complaint = with_a_bad_box(hashes=hashes)
    assert server.add_complaint(complaint) == LIAR
    assert server.accused == {LIAR: complaint}
    server.add_opening(here[LIAR].open_box(complaint))
    assert server.liars == {LIAR: f"sent '{VICTIM}' a box without its shares"}
    assert server.accused == {}
    left = masked(here, server, vectors(6), [VICTIM])
    unmasked(consented(left, server), server)
    assert np.array_equal(server.total(), plain(vectors(6), left))


def test_who_complains_of_a_good_box_is_the_liar() -> None:
    here, server = started(6)
    shared(advertised(here, server), server)
    liar, honest = here[LIAR], here[VICTIM]
    inbox = m.decode(server.inbox(LIAR), m.Inbox, 1 << 20)
    hashes = inbox.commitments[m.COMMITTED : 2 * m.COMMITTED]
    about = m.Complaint(1, box_digest(inbox.boxes[1], hashes))
    complaint = liar._signed(m.COMPLAINT, liar._views[1], m.encode(about))
    assert server.add_complaint(complaint) == VICTIM
    server.add_opening(honest.open_box(complaint))
    assert server.liars == {LIAR: f"complained of the good box of '{VICTIM}'"}


@pytest.mark.parametrize("changed", ["box", "hashes"])
def test_a_box_that_the_server_changed_is_not_opened_and_blames_nobody(changed: str) -> None:
    """Else a server could have all boxes opened, and read everybody's vector: with other hashes an
    honest node complains of a box that is as it was sent."""
    here, server = started(6)
    shared(advertised(here, server), server)
    inbox = m.decode(server.inbox(VICTIM), m.Inbox, 1 << 20)
    boxes, hashes = [bytes(m.BOX), *inbox.boxes[1:]], inbox.commitments
    if changed == "hashes":
        boxes, hashes = inbox.boxes, bytes(m.COMMITTED) + inbox.commitments[m.COMMITTED :]
    with pytest.raises(SumRefused) as refused:
        altered = m.encode(m.Inbox(inbox.sharers, boxes, hashes))
        here[VICTIM].mask(altered, vectors(6)[VICTIM], ALL)
    assert refused.value.evidence
    with pytest.raises(SumRefused, match="are not those that were sent"):
        here[name(0)].open_box(refused.value.evidence)
    assert here[VICTIM].mask(server.inbox(VICTIM), vectors(6)[VICTIM], ALL)  # it goes on


def test_a_complaint_that_nobody_made_opens_nothing() -> None:
    """A server alone, or one party in the name of another, has no box opened."""
    (here, _), complaint = with_a_bad_box()
    signed = m.decode(complaint, m.Signed, 4096)
    forged = [
        replace(signed, sender=name(4)),
        replace(signed, attempt=1),
        replace(signed, stage=m.SHARES),
        replace(signed, sender="zoe"),
        replace(signed, body=signed.body + b"\0"),
    ]
    for each in forged:
        with pytest.raises(SumRefused):
            here[LIAR].open_box(m.encode(each))
    for other in (name(0), VICTIM):
        with pytest.raises(SumRefused):
            here[other].open_box(complaint)  # it is about the box of another


def test_a_liar_that_opens_with_another_key_is_named() -> None:
    (here, server), complaint = with_a_bad_box()
    server.add_complaint(complaint)
    liar = here[LIAR]
    opening = m.Opening(1, bytes(32))
    server.add_opening(liar._signed(m.OPENING, liar._views[1], m.encode(opening)))
    assert list(server.liars) == [LIAR]


@pytest.mark.parametrize("stands_for", ["its receiver", "nobody"])
def test_a_box_under_another_key_than_its_receivers_frames_nobody(stands_for: str) -> None:
    """The liar makes a box that opens by a key of its choice, with the shares that it committed to,
    and gives that key when the victim complains."""
    here, server = started(6)
    advertised(here, server)
    roster = server.roster()
    other = X25519PrivateKey.generate()
    for each, client in here.items():
        answer = client.share(roster)
        if each == LIAR:
            met = client._others()
            said = m.decode(m.decode(answer, m.Signed, 1 << 20).body, m.Shares, 1 << 20)
            receiver = here[VICTIM]._secrets.boxes
            own = client._box_keys[1]
            share = unsealed(met.view, met.me, 1, receiver, said.boxes[1][: m.KEY], said.boxes[1])
            assert share is not None
            public = other.public_key().public_bytes_raw()
            if stands_for == "nobody":
                own, public = other, met.adverts[1].boxes
            box = sealed(met.view, met.me, 1, own, public, b"".join(share))
            if stands_for == "nobody":
                box = said.boxes[1][: m.KEY] + box[m.KEY :]
            boxes = [said.boxes[0], box, *said.boxes[2:]]
            body = m.encode(m.Shares(boxes, said.commitments))
            answer = client._signed(m.SHARES, client._views[1], body)
            hashes = said.commitments[m.COMMITTED : 2 * m.COMMITTED]
            client._sent[1], client._box_keys[1] = box_digest(box, hashes), own
        server.add(m.SHARES, answer)
    with pytest.raises(SumRefused) as refused:
        here[VICTIM].mask(server.inbox(VICTIM), vectors(6)[VICTIM], ALL)
    server.add_complaint(refused.value.evidence)
    server.add_opening(here[LIAR].open_box(refused.value.evidence))
    assert list(server.liars) == [LIAR]


def test_openings_that_nobody_asked_for_are_refused() -> None:
    (here, server), complaint = with_a_bad_box()
    liar = here[LIAR]
    unasked = liar.open_box(complaint)
    with pytest.raises(SumRefused, match="nobody complained"):
        server.add_opening(unasked)
    for receiver in (0, 6, 1 << 40):
        opening = m.Opening(receiver, bytes(32))
        with pytest.raises(SumRefused):
            server.add_opening(liar._signed(m.OPENING, liar._views[1], m.encode(opening)))
    assert server.liars == {}


def test_a_complaint_of_a_box_that_was_not_sent_names_who_complains() -> None:
    here, server = started(6)
    shared(advertised(here, server), server)
    liar = here[LIAR]
    for dealer in (1, 2, 6, 1 << 40):
        about = m.Complaint(dealer, bytes(32))
        complaint = liar._signed(m.COMPLAINT, liar._views[1], m.encode(about))
        with pytest.raises(SumRefused, match="a box that nobody sent"):
            server.add_complaint(complaint)
        assert list(server.liars) == [LIAR]
        server.liars.clear()
