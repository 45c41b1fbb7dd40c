"""Was this interaction in training? Who has the final model and knows some of a user's items asks
it for the others.

A vector for each user is fitted to the known items against the item vectors of the model, which
stay as they are (ridge regression in which all other items count a tenth, as in implicit matrix
factorisation: Y. Hu, Y. Koren, C. Volinsky, ICDM 2008); items are ranked by it and by popularity.
Known: the model, and half of the user's items (`audit.side_knowledge`), which do not count. The
formulation is ours; membership of interactions in recommenders was first attacked by M. Zhang et
al., "Membership inference attacks against recommender systems", CCS 2021. A part of this is taste
and not memory: an item that was held out of training ranks high, too, though less.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, BoolArray, Float64Array
from ..claims import Attack, Claims
from ..side_knowledge import known_items
from ..transcript import Transcript
from ._rows_seen import prior

OTHERS, RIDGE, TRUST = (
    0.1,
    1.0,
    1.5,
    # the weight of other items; of the penalty, for vectors of mean length 1; of the fit beside
    # popularity
)


def run(transcript: Transcript) -> Claims:
    """Ranks the items of every user; claims none."""
    users, popular = np.arange(transcript.users), prior(transcript).astype(np.float64)
    known, vectors = known_items(transcript), item_table(transcript)
    if known is None or vectors is None:
        return Claims(
            users,
            np.tile(prior(transcript), (len(users), 1)),
            note="no items of users are known",
            tried=False,
        )
    score = np.stack([popular + TRUST * _standard(row) for row in fitted(vectors, known)]).astype(
        np.float32
    )
    return Claims(
        users, score, note=f"with {known.sum() / max(1, len(users)):.0f} known items of each user"
    )


def item_table(transcript: Transcript, *, biases: bool = False) -> Float64Array | None:
    """The item vectors of a final model, all of its arrays with a row for each item side by side,
    of mean square length 1.

    biases: those of items too, of deviation 1.
    """
    mine = [
        array.astype(np.float64) for array in transcript.model.values() if array.dtype.kind == "f"
    ]
    tables = [array for array in mine if array.ndim == 2 and len(array) == transcript.items]
    if not tables:
        return None
    whole = np.concatenate(tables, axis=1)
    more = [
        array / max(float(array.std()), 1e-30)
        for array in mine
        if biases and array.shape == (transcript.items,)
    ]
    return np.column_stack(
        [whole / max(float(np.sqrt((whole**2).sum(axis=1).mean())), 1e-30), *more]
    )


def fitted(vectors: Float64Array, known: BoolArray) -> Float64Array:
    """Scores of all items by vectors fitted to what is known, float64 [users, items]."""
    factors = vectors.shape[1]
    whole = OTHERS * vectors.T @ vectors + RIDGE * np.eye(factors)
    tastes = np.empty((len(known), factors))
    for user, row in enumerate(known):
        own = vectors[row]
        tastes[user] = np.linalg.solve(whole + (1 - OTHERS) * own.T @ own, own.sum(axis=0))
    return tastes @ vectors.T  # type: ignore[no-any-return]


def _standard(row: Array) -> Array:
    return (row - row.mean()) / max(float(row.std()), 1e-30)


def applies(transcript: Transcript) -> bool:
    """Whether the onlooker knows items of users beside the model."""
    return "known/ptr" in transcript.model


ATTACK = Attack("membership", ("model",), "ours, after M. Zhang et al., CCS 2021", applies, run)
