"""A user embedding that a device shows ranks all items for whoever has the item embeddings.

Devices of Cali3F and FedFast show their user's embedding by name, so that the server can cluster
users, and no sum hides it: with its own item embeddings and network the server scores all items as
the device would (Z. Zhu et al., "Cali3F", IJCNN 2022; K. Muhammad et al., "FedFast", KDD 2020).
What was consumed was trained to score high. It claims nothing: it ranks. Source: ours."""

from __future__ import annotations

import numpy as np

from ...core.types import Float32Array, Int32Array, Int64Array
from ...federation.recorder import Seen
from ...kernels import ncf
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, prior, sends
from .named_moves import layers


def applies(transcript: Transcript) -> bool:
    """Whether devices show a user embedding of a neural collaborative filter."""
    return sends(transcript, "user", "item", "network")


def run(transcript: Transcript) -> Claims:
    """Ranks items by popularity, and by how far the latest shown embedding of a user scores them
    above the mean of the others'.

    The scores weigh as much as the model has learnt: twice their correlation with the popularity.
    """
    tally, known = empty_tally(transcript), prior(transcript)
    for seen in transcript.rounds:
        senders = seen.sent.get("sender", seen.users)
        if len(senders) > 1:
            scores = scores_of(transcript, seen, senders)
            mean = scores.mean(axis=0)
            learnt = float(
                ((mean - mean.mean()) * (known - known.mean())).mean()
                / max(float(mean.std() * known.std()), 1e-9)
            )
            tally.evidence[np.searchsorted(tally.users, senders)] = (
                2 * max(learnt, 0.0) * (scores - mean)
            )
    return claims_of(transcript, tally)


def scores_of(transcript: Transcript, seen: Seen, users: Int64Array) -> Float32Array:
    """The scores of all items by the embeddings that users show, each user's of mean 0 and
    deviation 1, float32 [m, items].
    """
    received, shape = (
        seen.received,
        ncf.shape_of(int(transcript.setting("factors")), layers(transcript)),
    )
    own = "local" in received and len(received["local"]) > 0
    group: Int32Array = received["cluster"][users] if own else np.zeros(len(users), np.int32)
    network = received["local"] if own else received["network"]
    out = ncf.scores(
        shape,
        np.ascontiguousarray(seen.sent["user"]),
        received["item"],
        network,
        group.astype(np.int32),
    )
    out -= out.mean(axis=1, keepdims=True)
    return out / np.maximum(out.std(axis=1, keepdims=True), np.float32(1e-9))  # type: ignore[no-any-return]


ATTACK = Attack("named-vector", ("individual", "sum"), "ours", applies, run)
