"""F1 of a user (PEPPER, equations 6 to 8): all her held-out items in one list, together with the
candidates of one of them.

The sampled ranking has one query per held-out row, so a list holds one relevant item and F1@n
cannot exceed 2 / (n + 1). PEPPER's tables 6 and 7 (F1@20 of .34, above F1@5) are of "all relevant
items for user u" at once. So the list of a user is made of her held-out items and of the candidates
of the first of them (by item number), without those that are held-out items themselves. With 100
candidates and 16 held-out items 116 items compete, and chance is at F1@20 = 2 * (20 * 16/116) / (20
+ 16) = .15.

The value is called `f1_user@n`, so that nobody takes it for `f1@n`; of a user with one held-out row
both are the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from ..data.split.types import Held
from ..kernels.arrays import insert_ascending, others
from .full import CompetingItems
from .metrics.f1 import f1
from .ranking import Ranking

NAME = "f1_user"
SENTENCE = (
    f"{NAME}: all held-out items of a user in one list, with the candidates of the first of them"
)


def empty_together(held: Held) -> Ranking | None:
    """A Ranking with one query per user, all held-out rows at once, to be filled in; None without
    candidates, or if no user has two held-out rows."""
    counts = held.rows.counts
    if held.candidates is None or counts.max(initial=0) < 2:
        return None
    users = np.flatnonzero(counts)
    ptr = np.concatenate([[0], np.cumsum(counts[users])]).astype(np.int64)
    return Ranking(ptr, np.empty(len(held.rows), np.int64), np.empty(len(users), np.int64), users)


def rank_block(
    ranking: Ranking, part: slice, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fill in the ranks of the users `part` (positions in ranking.user), whose scores are given.

    As in the sampled ranking a candidate without a training row stands behind all others, and a
    held-out item without one is missed.
    """
    assert held.candidates is not None
    ptr = ranking.ptr[part.start : part.stop + 1]
    _rank(
        scores,
        ptr,
        held.rows.item,
        held.candidates,
        field.known,
        field.place,
        ranking.rank,
        ranking.candidates[part],
    )


def user_f1(ranking: Ranking, lengths: Sequence[int]) -> dict[str, Float64Array]:
    """{"f1_user@20": 2 P R / (P + R) of each user, float64 [m]}, at every length."""
    return {f"{NAME}@{n}": f1(ranking, n) for n in lengths}


@njit(cache=True, nogil=True)
def _rank(
    scores: Float32Array,
    ptr: Int64Array,
    item: Int32Array,
    candidates: Int32Array,
    known: BoolArray,
    place: Int32Array,
    rank: Int64Array,
    competing: Int64Array,
) -> None:
    """Writes the ranks, ascending, of item[ptr[r]:ptr[r + 1]] among themselves and
    candidates[ptr[r]], and how many items that is.

    scores: [m, items], row r of the user whose held-out rows begin at ptr[r]. Order as in
    `core.arrays`.
    """
    for r in range(len(scores)):
        score, own = scores[r], item[ptr[r] : ptr[r + 1]]
        rest = others(candidates[ptr[r]], own)
        competing[r] = len(rest)
        for i in own:
            competing[r] += known[i]
        for h in range(len(own)):
            ahead = _ahead(score, own, own[h], known, place) + _ahead(
                score, rest, own[h], known, place
            )
            insert_ascending(
                rank, ptr[r], ptr[r] + h, ahead + 1 if known[own[h]] else competing[r] + 1
            )


@njit(cache=True, nogil=True)
def _ahead(
    score: Float32Array, items: Int32Array, i: int, known: BoolArray, place: Int32Array
) -> int:
    """How many of `items` are known and precede item i."""
    ahead = 0
    for j in items:
        ahead += known[j] and (
            score[j] > score[i] or (score[j] == score[i] and place[j] < place[i])
        )
    return ahead
