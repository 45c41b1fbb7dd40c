"""The sender of a model trained on its own rows last, so that its model differs from those of
others at that time by its own history.

Merging makes the models of peers alike; each trains what it merges on its own rows before it
pushes. So the item vectors of a message, less the mean over messages of other senders at about the
same time (the base model, while there are none), are projected on the direction along which popular
items differ from others in this model, which is that of being consumed. Moves are taken in robust
standard deviations, and averaged over the messages of a sender; popularity is the prior. Source:
ours; models of a community by momentum are in Y. Belal et al., "Inferring communities of interest
in collaborative learning-based recommender systems", arXiv:2306.08929.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from entrenous.core.types import Float64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import base_vectors, centred_popularity, gossiped, item_vectors, sent_vectors
from ._rows_seen import empty_tally, ranks_alone

NEAR = 10  # units of time between a message and those that it is compared with
MOST = 20.0  # standard deviations


def run(transcript: Transcript) -> Claims:
    """Ranks items by the popularity and how far they have moved; claims none."""
    tally = empty_tally(transcript)
    known = centred_popularity(transcript.popularity)
    counts = np.zeros(len(tally.users))
    for seen, others in zip(transcript.rounds, _others(transcript), strict=True):
        who = np.searchsorted(tally.users, seen.users)
        vectors = sent_vectors(transcript, seen)
        # The direction along which items that many have consumed differ from others.
        consumed = (vectors - vectors.mean(axis=0)).T @ known
        # Merging has made models alike: the rest is of the sender's own rows.
        moves = (vectors - others) @ consumed
        tally.evidence[who] += _standard(moves).astype(np.float32)
        counts[who] += 1
    tally.evidence[:] /= np.maximum(counts, 1)[:, None]
    said = f"{len(transcript.rounds)} messages of {len(tally.users)} senders"
    return ranks_alone(transcript, tally, said)


def _others(transcript: Transcript) -> Iterator[Float64Array]:
    """For each message the mean item vectors of messages of other senders at about that time, and
    of the base model in their absence.
    """
    times = [seen.round for seen in transcript.rounds]
    names = [int(seen.users[0]) for seen in transcript.rounds]
    senders = np.array(names)

    def model(place: int) -> Float64Array:
        sent = transcript.rounds[place].sent
        return np.asarray(sent["model"][0], np.float64)

    # The sum of the models of a window of time, from low to high, as it moves on.
    low = high = 0
    total = np.zeros_like(model(0)) if times else np.empty(0)
    for place, time in enumerate(times):
        while high < len(times) and times[high] <= time + NEAR:
            total += model(high)
            high += 1
        while times[low] < time - NEAR:
            total -= model(low)
            low += 1
        # Less the sender's own messages in the window.
        alike = np.flatnonzero(senders[low:high] == senders[place])
        own = (low + alike).tolist()
        mine = sum((model(message) for message in own), start=np.zeros(()))
        rest = total - mine
        many = high - low - len(own)
        yield item_vectors(transcript, rest / many) if many else base_vectors(transcript)


def _standard(moves: Float64Array) -> Float64Array:
    """Numbers less their median, in robust standard deviations."""
    away = moves - np.median(moves)
    deviation = 1.4826 * float(np.median(np.abs(away)))
    return (away / max(deviation, 1e-30)).clip(-MOST, MOST)


ATTACK = Attack("drift", ("neighbour",), "ours", gossiped, run)
