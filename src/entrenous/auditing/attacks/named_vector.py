"""A user embedding that a device shows ranks all items for anybody who has the item embeddings.

Devices of Cali3F and FedFast show their user's embedding by name, so that the server can cluster
users, and no sum hides it: with its own item embeddings and network the server scores all items as
the device would (Z. Zhu et al., "Cali3F", IJCNN 2022; K. Muhammad et al., "FedFast", KDD 2020).
Consumed items were trained to score high. It claims nothing: it ranks. Source: ours.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float32Array, Int64Array
from ...federation.recorder import Seen
from ...kernels import ncf
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, prior, sends
from .named_moves import layers, networks


def applies(transcript: Transcript) -> bool:
    """Checks whether devices show a user embedding of a neural collaborative filter."""
    return sends(transcript, "user", "item", "network")


def run(transcript: Transcript) -> Claims:
    """Ranks items by popularity, and by how far the latest shown embedding of a user scores them
    above the mean of the others'.

    The scores weigh as much as the model has learnt: twice their correlation with the popularity.
    """
    tally = empty_tally(transcript)
    known = prior(transcript)
    known_sd = known.std()
    known = known - known.mean()
    for seen in transcript.rounds:
        senders = seen.sent.get("sender", seen.users)
        if len(senders) < 2:
            continue
        scores = scores_of(transcript, seen, senders)
        # Scores follow the popularity as far as the model has learnt anything.
        mean = scores.mean(axis=0)
        shared = ((mean - mean.mean()) * known).mean()
        deviations = max(float(mean.std() * known_sd), 1e-9)
        learnt = max(float(shared / deviations), 0.0)
        who = np.searchsorted(tally.users, senders)
        tally.evidence[who] = 2 * learnt * (scores - mean)
    return claims_of(transcript, tally)


def scores_of(transcript: Transcript, seen: Seen, users: Int64Array) -> Float32Array:
    """The scores of all items by the embeddings that users show, each user's of mean 0 and
    deviation 1, float32 [m, items].
    """
    shape = ncf.shape_of(int(transcript.setting("factors")), layers(transcript))
    network, own = networks(seen, users)
    embeddings = np.ascontiguousarray(seen.sent["user"])
    scores = ncf.scores(shape, embeddings, seen.received["item"], network, own)
    scores -= scores.mean(axis=1, keepdims=True)
    deviation = scores.std(axis=1, keepdims=True)
    return scores / np.maximum(deviation, np.float32(1e-9))  # type: ignore[no-any-return]


ATTACK = Attack("named-vector", ("individual", "sum"), "ours", applies, run)
