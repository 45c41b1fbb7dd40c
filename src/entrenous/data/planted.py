"""Synthetic interactions and ratings with a planted structure: users have a taste, items belong to
one, and who likes what follows.

Unlike `synthetic`, which is for speed, accuracy on these data means something: a model that finds
the tastes ranks and rates better than popularity does. They stand for a federation of a size that
no public data set has, not for how real tastes look.
"""

from __future__ import annotations

import numpy as np

from ..core.keys import folds, key, normals
from ..core.types import Float32Array, Int64Array
from ..core.vocabulary import Vocabulary
from .interactions import Interactions, rows_in
from .synthetic import activity, drawn, shuffled

FLAT, SKEW = (
    10,
    0.8,
)  # an item of popularity rank r is drawn with weight (r + 10)^-.8, which is less steep than Zipf's
MEAN, OWN, OTHER, QUALITY, MOOD = (
    3.0,
    0.8,
    -0.6,
    0.4,
    0.6,
)  # of ratings: own and other tastes, and two standard deviations


def planted(
    *,
    users: int,
    items: int = 2000,
    each: int = 20,
    tastes: int = 8,
    lean: float = 12.0,
    seed: int = 0,
) -> Interactions:
    """`users` times `each` distinct (user, item) pairs with ratings from 1 to 5, without time.

    User u has the taste u mod `tastes`; items belong to a taste at random, and one of the user's
    own is drawn `lean` times as often as an equally popular other. A rating is the sum of 3, .8 for
    an item of the user's taste and -.6 for another, the item's quality N(0, .4^2) and a mood N(0,
    .6^2), rounded and cut to the scale. The same arguments give the same bytes.

    >>> data = planted(users=40, items=30, each=5, tastes=2)
    >>> len(data), data.scale
    (200, (1.0, 5.0))
    """
    counts = activity(users, items, users * each, seed)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    of_rank, popular = (
        shuffled(items, key(seed, "planted", "rank")),
        (np.arange(items) + FLAT) ** -SKEW,
    )
    taste = shuffled(items, key(seed, "planted", "taste")) % tastes  # of each popularity rank
    item = np.empty(len(counts) and int(ptr[-1]), np.int32)
    for one in range(tastes):
        own = np.arange(one, users, tastes)
        some = np.concatenate([[0], np.cumsum(counts[own])]).astype(np.int64)
        item[rows_in(ptr, own)] = drawn(
            some,
            np.where(taste == one, lean, 1.0) * popular,
            of_rank,
            key(seed, "planted", "user", one),
        )
    matching = taste[np.argsort(of_rank)][item] == np.repeat(np.arange(users) % tastes, counts)
    return Interactions(
        ptr=ptr,
        item=item,
        value=_ratings(matching, item, ptr, items, seed),
        time=None,
        row=None,
        scale=(1.0, 5.0),
        users=Vocabulary(size=users, kind="user"),
        items=Vocabulary(size=items, kind="item"),
        name=f"planted-{users}",
        notes=(
            (
                f"synthetic, not real data: {tastes} planted tastes, each drawn {lean:g} times as"
                f" often by its users; seed {seed}"
            ),
        ),
    )


def _ratings(
    matching: np.ndarray, item: np.ndarray, ptr: Int64Array, items: int, seed: int
) -> Float32Array:
    """The rating of each row, float32 [n]. matching: whether the item is of the user's taste."""
    quality = normals(folds(key(seed, "planted", "quality"), np.arange(items)), 1, QUALITY)[:, 0]
    mood = normals(folds(key(seed, "planted", "mood"), np.arange(len(item))), 1, MOOD)[:, 0]
    found = (
        np.where(matching, np.float32(MEAN + OWN), np.float32(MEAN + OTHER)) + quality[item] + mood
    )
    return np.clip(np.rint(found), 1, 5).astype(np.float32)
