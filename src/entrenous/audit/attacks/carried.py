"""The header of a push: how many rows its sender trains on, how many updates its model has had, and
whom it knows.

Gossip carries these beside the model (PEPPER, 2022, algorithm 1: peers; average and age-based
gossip weigh by rows and by age). The number of rows is the size of a history; the age says how long
a node has taken part; the peers say between whom messages have gone, among them nodes that the
receiver never met. None of it names an item: this attack claims none, its note says what it read.
Source: ours.
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import gossiped
from ._rows_seen import claims_of, empty_tally


def run(transcript: Transcript) -> Claims:
    """Claims no items; the note says what headers tell."""
    tally = empty_tally(transcript)
    return claims_of(transcript, tally, _told(transcript))._replace(claimed=None, first=None)


def _told(transcript: Transcript) -> str:
    """What the headers of all messages say, in a sentence."""
    senders = np.unique([int(seen.users[0]) for seen in transcript.rounds])
    met = {
        int(peer)
        for seen in transcript.rounds
        for peer in seen.sent.get("peers", np.empty(0, np.int32)).ravel()
        if peer >= 0
    }
    ages = [int(seen.sent["age"][0]) for seen in transcript.rounds if "age" in seen.sent]
    sizes = {
        int(seen.users[0]): int(seen.sent["samples"][0])
        for seen in transcript.rounds
        if "samples" in seen.sent
    }
    parts = [
        f"{len(senders)} senders",
        f"{len(met - set(senders.tolist()))} more nodes named by them",
    ]
    if ages:
        parts.append(f"models of {min(ages)} to {max(ages)} updates")
    if sizes:
        parts.append(
            f"numbers of training rows of {len(sizes)} users, {min(sizes.values())} to"
            f" {max(sizes.values())}"
        )
    return "; ".join(parts)


ATTACK = Attack("carried", ("neighbour",), "ours", gossiped, run)
