"""What a pushed model has more than the models of others at that time is what its sender trained on
last.

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

from ...core.types import Array, Float64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import base_vectors, gossiped, item_vectors, sent_vectors
from ._rows_seen import claims_of, empty_tally

NEAR = 10  # units of time between a message and those that it is compared with
MOST = 20.0  # standard deviations


def run(transcript: Transcript) -> Claims:
    """Ranks items by the popularity and how far they have moved; claims none."""
    tally = empty_tally(transcript)
    counts = np.zeros(len(tally.users))
    for place, others in enumerate(_others(transcript)):
        seen, who = (
            transcript.rounds[place],
            np.searchsorted(tally.users, transcript.rounds[place].users),
        )
        vectors = sent_vectors(transcript, seen)
        tally.evidence[who] += _standard(
            (vectors - others) @ _consumed(vectors, transcript.popularity)
        ).astype(np.float32)
        counts[who] += 1
    tally.evidence[:] /= np.maximum(counts, 1)[:, None]
    said = f"{len(transcript.rounds)} messages of {len(tally.users)} senders"
    return claims_of(transcript, tally, said)._replace(claimed=None, first=None)


def _others(transcript: Transcript) -> Iterator[Float64Array]:
    """For each message the mean item vectors of messages of other senders at about that time, and
    of the base model in their absence.
    """
    times = np.array([seen.round for seen in transcript.rounds])
    senders = np.array([int(seen.users[0]) for seen in transcript.rounds])
    model = lambda place: np.asarray(transcript.rounds[place].sent["model"][0], np.float64)  # noqa: E731
    low = high = 0
    total = np.zeros_like(model(0)) if len(times) else np.empty(0)
    for place in range(len(times)):
        while high < len(times) and times[high] <= times[place] + NEAR:
            total += model(high)
            high += 1
        while times[low] < times[place] - NEAR:
            total -= model(low)
            low += 1
        own = low + np.flatnonzero(senders[low:high] == senders[place])
        rest = total - sum(model(one) for one in own)
        many = high - low - len(own)
        yield item_vectors(transcript, rest / many) if many else base_vectors(transcript)


def _consumed(vectors: Float64Array, popularity: Array) -> Float64Array:
    """The direction along which items that many have consumed differ from others, float64
    [numbers].
    """
    known = np.sqrt(popularity.astype(np.float64))
    return (vectors - vectors.mean(axis=0)).T @ (known - known.mean())  # type: ignore[no-any-return]


def _standard(moves: Float64Array) -> Float64Array:
    """Numbers less their median, in robust standard deviations."""
    away = moves - np.median(moves)
    return (away / max(1.4826 * float(np.median(np.abs(away))), 1e-30)).clip(-MOST, MOST)


ATTACK = Attack("drift", ("neighbour",), "ours", gossiped, run)
