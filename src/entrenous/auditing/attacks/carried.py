"""The header of a push: how many rows its sender trains on, how many updates its model has had, and
whom it knows.

Gossip carries these next to the model (PEPPER, 2022, algorithm 1: peers; average and age-based
gossip weigh by rows and by age). The number of rows is the size of a history; the age says how long
a node has taken part; the peers say between whom messages have gone, among them nodes that the
receiver never met. None of it names an item: this attack claims none, its note says what it read.
Source: ours.
"""

from __future__ import annotations

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import gossiped
from ._rows_seen import empty_tally, ranks_alone


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says what headers tell."""
    return ranks_alone(transcript, empty_tally(transcript), _headers(transcript))


def _headers(transcript: Transcript) -> str:
    """The headers of all messages, summed up in a sentence."""
    senders = set()
    named = set()
    ages = []
    sizes = {}
    for seen in transcript.rounds:
        sender = int(seen.users[0])
        senders.add(sender)
        if "peers" in seen.sent:
            peers = seen.sent["peers"].ravel()
            named.update(peers[peers >= 0].tolist())
        if "age" in seen.sent:
            ages.append(int(seen.sent["age"][0]))
        if "samples" in seen.sent:
            sizes[sender] = int(seen.sent["samples"][0])
    more = len(named - senders)
    parts = [f"{len(senders)} senders", f"{more} more nodes named by them"]
    if ages:
        parts.append(f"models of {min(ages)} to {max(ages)} updates")
    if sizes:
        least = min(sizes.values())
        most = max(sizes.values())
        parts.append(f"numbers of training rows of {len(sizes)} users, {least} to {most}")
    return "; ".join(parts)


ATTACK = Attack("carried", ("neighbour",), "ours", gossiped, run)
