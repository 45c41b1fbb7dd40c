"""Was this interaction in training? An onlooker that has the final model and knows some of a user's
items asks it for the others.

A vector for each user is fitted to the known items against the item vectors of the model, which
stay as they are (ridge regression in which all other items count a tenth, as in implicit matrix
factorisation: Y. Hu, Y. Koren, C. Volinsky, ICDM 2008); items are ranked by it and by popularity.
Known: the model, and half of the user's items (`side_knowledge`), which do not count. The
formulation is ours; membership of interactions in recommenders was first attacked by M. Zhang et
al., "Membership inference attacks against recommender systems", CCS 2021. A part of this is taste
and not memory: an item that was held out of training ranks high, too, though less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from entrenous.core.types import Array, BoolArray, Float64Array

from ..claims import Attack, Claims
from ..side_knowledge import known_items
from ..transcript import Transcript
from ._rows_seen import prior

OTHERS = 0.1  # the weight of items that are not known
RIDGE = 1.0  # of the penalty, for vectors of mean length 1
TRUST = 1.5  # of the fit, compared with the popularity


def run(transcript: Transcript) -> Claims:
    """Ranks the items of every user; claims none."""
    users = np.arange(transcript.users)
    popular = prior(transcript)
    known = known_items(transcript)
    vectors = item_table(transcript.model, transcript.items)
    if known is None or vectors is None:
        score = np.tile(popular, (len(users), 1))
        return Claims(users, score, note="no items of users are known", tried=False)
    fits = fitted(vectors, known)
    by_popularity = popular.astype(np.float64)
    score = np.stack([by_popularity + TRUST * standard(row) for row in fits])
    usual = known.sum() / max(1, len(users))
    note = f"with {usual:.0f} known items of each user"
    return Claims(users, score.astype(np.float32), note=note)


def item_table(
    model: Mapping[str, Array], items: int, *, biases: bool = False
) -> Float64Array | None:
    """The item vectors of a final model, all of its arrays with a row for each item next to each
    other, of mean square length 1.

    model: its arrays by name; a name with a path is of something else. biases: those of items too,
    of deviation 1.
    """
    tables = []
    more = []
    for name, array in model.items():
        if "/" in name or array.dtype.kind != "f":
            continue
        numbers = array.astype(np.float64)
        if numbers.ndim == 2 and len(numbers) == items:
            tables.append(numbers)
        elif biases and numbers.shape == (items,):
            more.append(numbers / max(float(numbers.std()), 1e-30))
    if not tables:
        return None
    whole = np.concatenate(tables, axis=1)
    squares = (whole**2).sum(axis=1)
    length = max(float(np.sqrt(squares.mean())), 1e-30)
    return np.column_stack([whole / length, *more])


def fitted(vectors: Float64Array, known: BoolArray) -> Float64Array:
    """Scores of all items by vectors fitted to the known items, float64 [users, items]."""
    factors = vectors.shape[1]
    # The part of the normal equations that all users share: every item at weight OTHERS.
    others = OTHERS * vectors.T @ vectors
    whole = others + RIDGE * np.eye(factors)
    tastes = np.empty((len(known), factors))
    for user, row in enumerate(known):
        # Known items have weight 1 and the target 1, the others the target 0.
        own = vectors[row]
        square = whole + (1 - OTHERS) * own.T @ own
        tastes[user] = np.linalg.solve(square, own.sum(axis=0))
    return tastes @ vectors.T  # type: ignore[no-any-return]


def standard(row: Float64Array) -> Float64Array:
    """Returns numbers around their mean, in standard deviations."""
    deviation = max(float(row.std()), 1e-30)
    return (row - row.mean()) / deviation


def applies(transcript: Transcript) -> bool:
    """Checks whether the onlooker knows items of users besides the model."""
    return "known/ptr" in transcript.model


ATTACK = Attack("membership", ("model",), "ours, after M. Zhang et al., CCS 2021", applies, run)
