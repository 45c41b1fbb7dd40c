"""Recommend: the n best items that a user has not consumed, computed block by block, so that the
block bounds memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.protocols import Recommender, TopN
from ..core.errors import NonFiniteError
from ..core.keys import key
from ..core.keywords import at_least
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import Interactions
from ..kernels.arrays import nonfinite_row, shuffle_places, top_n

# Scores in a block if no size is given: 16 MB.
BLOCK_SCORES = 1 << 22


class Allowed(NamedTuple):
    """The items that lists may have."""

    items: BoolArray
    """bool [items]: the items that may be recommended."""
    seen: bool = False
    """True if a list may have items that its user has already."""


def recommend(
    recommender: Recommender,
    data: Interactions,
    users: Array,
    n: int,
    *,
    allowed: Allowed | None = None,
    label: str = "recommender",
    seed: int = 0,
    block: int | None = None,
) -> TopN:
    """The n best items of each user: item int32 [len(users), n] (-1 where fewer are left) and score
    float32 (-inf there).

    data: the rows the recommender was trained on. allowed: the items that lists may have; None =
    those with a row in `data` (nothing was learnt about others) that the user does not have. Equal
    scores are ordered by a shuffle keyed by `seed`. label: the algorithm's name, for errors. block:
    users scored at a time.

    Raises NonFiniteError that names the user and the algorithm if a score is NaN or infinite.
    """
    users = np.asarray(users, np.int64)
    best = empty_lists(len(users), n)
    place = tie_places(len(data.items), seed)
    if allowed is None:
        allowed = Allowed(data.popularity > 0)
    ptr, item = data.ptr, data.item
    if allowed.seen:
        ptr, item = np.zeros_like(ptr), item[:0]
    for part, scores in score_blocks(
        recommender, data.users, len(data.items), users, label=label, block=block
    ):
        # The rows of `best` are views: they are written to here.
        top_n(
            scores,
            users[part],
            allowed.items,
            ptr,
            item,
            place,
            best.item[part],
            best.score[part],
        )
    return best


def recommendations(
    recommender: Recommender, train: Interactions, user: str, n: int, *, label: str, seed: int
) -> list[dict[str, Any]]:
    """The n best items for one user by external ids, best first: [{"item", "title", "score"}];
    fewer where fewer are left.

    Raises InputError for an unknown user, with the nearest known one.
    """
    at_least("--n", n, 1)
    u = train.users.index(user)
    row = scores_of_one(recommender, train, u, label)
    consumed = train.item[train.ptr[u] : train.ptr[u + 1]]
    competing = np.setdiff1d(np.flatnonzero(train.popularity), consumed)
    best = []
    for item in _best_of_one(row, competing, n, seed).tolist():
        score = float(row[item])
        best.append({"item": train.items[item], "title": title_of(train, item), "score": score})
    return best


def scores_of_one(
    recommender: Recommender, train: Interactions, user: int, label: str
) -> Float32Array:
    """The scores of all items for one user, float32 [items]."""
    users = np.array([user], np.int64)
    ((_, scores),) = score_blocks(recommender, train.users, len(train.items), users, label=label)
    return scores[0]


def _best_of_one(score: Float32Array, competing: Array, n: int, seed: int) -> Array:
    """The n best of the competing items, in the order of `kernels.arrays`; in NumPy, since loading
    compiled code would take longer than the rest.
    """
    place = tie_places(len(score), seed)
    # By score, the highest first, and equal scores by their place in the shuffle.
    order = np.lexsort((place[competing], -score[competing]))
    return competing[order[:n]]


def title_of(train: Interactions, item: int) -> str:
    """The title of an item in the data; "" if there is none."""
    titles = train.features.get("title")
    if titles is None:
        return ""
    return str(titles[item])


def empty_lists(m: int, n: int) -> TopN:
    """Uninitialised lists for m users, of length n >= 1. Raises ValueError for a smaller n."""
    if n < 1:
        raise ValueError(f"the list length n must be at least 1, not {n}")
    return TopN(np.empty((m, n), np.int32), np.empty((m, n), np.float32))


def tie_places(items: int, seed: int) -> Int32Array:
    """The order of items with equal scores, int32 [items]: the same for every user and every
    algorithm under one seed.
    """
    return shuffle_places(items, key(seed, "ties"))


def score_blocks(
    recommender: Recommender,
    names: Vocabulary,
    items: int,
    users: Int64Array,
    *,
    label: str,
    block: int | None = None,
) -> Iterator[tuple[slice, Float32Array]]:
    """Yields the positions of some users in `users` and their scores, float32 [block, items], block
    after block; every score is finite.

    Raises NonFiniteError as `recommend` does, and ValueError if the recommender returns another
    shape.
    """
    size = block
    if size is None:
        size = max(1, BLOCK_SCORES // max(items, 1))
    for start in range(0, len(users), size):
        part = slice(start, min(start + size, len(users)))
        # Kernels are compiled for contiguous arrays.
        scores = np.ascontiguousarray(recommender.scores(users[part]))
        count = part.stop - part.start
        if scores.shape != (count, items):
            raise ValueError(
                f"{label} returned scores {scores.shape} for {count} users and {items} items"
            )
        bad = -1
        # One row is checked in NumPy, since loading compiled code would take longer.
        if len(scores) > 1 or not np.isfinite(scores).all():
            bad = nonfinite_row(scores)
        if bad >= 0:
            raise NonFiniteError(
                f"{label}: a score of user '{names[int(users[start + bad])]}' is NaN or infinite;"
                " nothing was ranked (training diverged? try a smaller learning rate)"
            )
        yield part, scores
