"""Synthetic interactions and ratings with a planted structure: every user has a taste, every item
belongs to a taste, and users prefer the items of their taste.

Unlike accuracy on the data of `synthetic`, accuracy on this data means something: a model that
finds the tastes ranks and rates better than popularity does. The data stands for a federation
larger than any public data set; it does not look like real tastes.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.keys import folds, key, normals
from entrenous.core.lanes.memory import rows_of, starts_of
from entrenous.core.types import BoolArray, Float32Array, Int32Array
from entrenous.data.interactions import Interactions, Vocabulary
from entrenous.data.synthetic import activity, drawn, shuffled

# An item of popularity rank r is drawn with weight (r + 10)^-0.8, which is less steep than Zipf's.
FLAT = 10
SKEW = 0.8
# A rating is MEAN, plus OWN or OTHER for an item of the user's taste or of another one, ...
MEAN = 3.0
OWN = 0.8
OTHER = -0.6
# ... plus the quality of the item and the mood of the user, normal with these deviations.
QUALITY = 0.4
MOOD = 0.6


def planted(
    *,
    users: int,
    items: int = 2000,
    each: int = 20,
    tastes: int = 8,
    lean: float = 12.0,
    seed: int = 0,
) -> Interactions:
    """Returns `users` times `each` distinct (user, item) pairs with ratings from 1 to 5, without
    time.

    User u has the taste u mod `tastes`; items belong to a taste at random, and an item of the
    user's taste is drawn `lean` times as often as an equally popular other item. A rating is the
    sum of 3, 0.8 for an item of the user's taste or -0.6 for another, the item's quality N(0,
    0.4^2) and a mood N(0, 0.6^2), rounded and cut to the scale. The same arguments give the same
    bytes.

    >>> data = planted(users=40, items=30, each=5, tastes=2)
    >>> len(data), data.scale
    (200, (1.0, 5.0))
    """
    counts = activity(users, items, users * each, seed)
    ptr = starts_of(counts)
    of_rank = shuffled(items, key(seed, "planted", "rank"))
    popularity = (np.arange(items) + FLAT) ** -SKEW
    taste_of_rank = shuffled(items, key(seed, "planted", "taste")) % tastes
    item = np.empty(int(ptr[-1]), np.int32)
    # Users of one taste draw by the same weights, so that one table of them serves all.
    for taste in range(tastes):
        members = np.arange(taste, users, tastes)
        members_ptr, members_rows = rows_of(ptr, members)
        weight = np.where(taste_of_rank == taste, lean, 1.0) * popularity
        name = key(seed, "planted", "user", taste)
        item[members_rows] = drawn(members_ptr, weight, of_rank, name)
    rank_of_item = np.argsort(of_rank)
    taste_of_item = taste_of_rank[rank_of_item]
    taste_of_user = np.arange(users) % tastes
    matching = taste_of_item[item] == np.repeat(taste_of_user, counts)
    return Interactions(
        ptr=ptr,
        item=item,
        value=_ratings(matching, item, items, seed),
        time=None,
        row=None,
        scale=(1.0, 5.0),
        users=Vocabulary(size=users, kind="user"),
        items=Vocabulary(size=items, kind="item"),
        name=f"planted-{users}",
    ).noted(
        f"synthetic, not real data: {tastes} planted tastes, each drawn {lean:g} times as often by"
        f" its users; seed {seed}"
    )


def _ratings(matching: BoolArray, item: Int32Array, items: int, seed: int) -> Float32Array:
    """Returns the rating of each row, float32 [n]. matching: bool [n], true where the item is of
    the user's taste.
    """
    quality_keys = folds(key(seed, "planted", "quality"), np.arange(items))
    quality = normals(quality_keys, 1, QUALITY)[:, 0]
    mood_keys = folds(key(seed, "planted", "mood"), np.arange(len(item)))
    mood = normals(mood_keys, 1, MOOD)[:, 0]
    base = np.where(matching, np.float32(MEAN + OWN), np.float32(MEAN + OTHER))
    return np.clip(np.rint(base + quality[item] + mood), 1, 5).astype(np.float32)
