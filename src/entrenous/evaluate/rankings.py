"""The rankings of one evaluation, filled block by block while the scores pass.

Full: every item that could have been recommended competes; its n best items are the user's list.

Sampled: each held-out item competes with its own frozen candidates, as in NCF (He et al. 2017) and
its successors. Sampled values are higher than those of the full ranking and need not order systems
alike (Krichene & Rendle 2020), so both are reported.

Together: all held-out items of a user stand in one list (PEPPER, equations 6 to 8). The sampled
ranking has one query per held-out row, so a list holds one relevant item and F1@n cannot exceed
2 / (n + 1); PEPPER's tables 6 and 7 (F1@20 of 0.34, above F1@5) are of "all relevant items for user
u" at once. The list therefore holds the user's held-out items and the candidates of the first of
them (by item number) that are not held out themselves. With 100 candidates and 16 held-out items
116 items compete, and chance is at F1@20 = 2 * (20 * 16/116) / (20 + 16) = 0.15. The value is
called `f1_user@n` to tell it from `f1@n`; for a user with one held-out row both are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from ..core.contract.protocols import TopN
from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from ..data.interactions import Interactions, pairs_of
from ..data.split.types import Held
from ..kernels.arrays import insert_ascending, others, ranks, ranks_among, top_n
from .metric_kinds import Ranking
from .metrics.accuracy import f1
from .recommend import empty_lists, tie_places

USER_F1 = "f1_user"
TOGETHER = (
    f"{USER_F1}: all held-out items of a user in one list, with the candidates of the first of them"
)


class CompetingItems(NamedTuple):
    """The items that compete in a ranking, and the order of equal scores."""

    known: BoolArray
    """bool [items]: the items with a training row, or all items."""
    ptr: Int64Array
    """int64 [users + 1]: user u consumed item[ptr[u]:ptr[u + 1]] already."""
    item: Int32Array
    place: Int32Array
    """int32 [items]: the place of an item among those of equal score."""


class Full(NamedTuple):
    """The full ranking of some users."""

    ranking: Ranking
    best: TopN
    """The users' lists."""


def check(train: Interactions, also_mask: Interactions | None, rows: Interactions) -> None:
    """Checks that the held-out rows can be evaluated.

    Raises InputError if there are none, or if one is also a training row: it would count as missed.
    """
    _check_shape(train, rows, "the held-out rows")
    if not len(rows):
        raise InputError(
            rows.name, "there are no held-out rows to evaluate", fix="choose another protocol"
        )
    _check_disjoint(rows, train, "training")
    if also_mask is not None:
        _check_disjoint(rows, also_mask, "masked")


def _check_disjoint(rows: Interactions, masked: Interactions, what: str) -> None:
    if not len(masked):
        return
    pairs = pairs_of(masked)
    sought = pairs_of(rows)
    at = np.minimum(np.searchsorted(pairs, sought), len(pairs) - 1)
    both = np.flatnonzero(pairs[at] == sought)
    if len(both):
        user = rows.users[int(rows.user[both[0]])]
        item = rows.items[int(rows.item[both[0]])]
        raise InputError(
            rows.name,
            f"held-out rows that are also {what} rows: {len(both)}; the first is user '{user}',"
            f" item '{item}'",
            expected="disjoint parts",
        )


def _check_shape(train: Interactions, other: Interactions, what: str) -> None:
    if (len(train.users), len(train.items)) != (len(other.users), len(other.items)):
        raise InputError(
            train.name,
            f"{what} have {len(other.users)} users x {len(other.items)} items, training"
            f" {len(train.users)} x {len(train.items)}",
            expected="the same users and items",
            fix="unite them with split.given",
        )


def competing_items(
    train: Interactions, also_mask: Interactions | None, seed: int, cold: bool = False
) -> CompetingItems:
    """The items that compete after training on `train`.

    also_mask: rows whose items do not compete for their users either. cold: items without a
    training row compete too. seed: of the order of equal scores.
    """
    known = (train.popularity > 0) | cold
    place = tie_places(len(train.items), seed)
    if also_mask is None:
        return CompetingItems(known, train.ptr, train.item, place)
    _check_shape(train, also_mask, "also_mask")
    pairs = np.union1d(pairs_of(train), pairs_of(also_mask))
    user, item = np.divmod(pairs, len(train.items))
    ptr = np.searchsorted(user, np.arange(len(train.users) + 1))
    return CompetingItems(known, ptr.astype(np.int64), item.astype(np.int32), place)


def empty_full(users: Int64Array, rows: Interactions, n: int) -> Full:
    """A full ranking of the held-out rows of `users` with lists of length n, not yet filled in."""
    return Full(_one_query_per_user(users, rows), empty_lists(len(users), n))


def _one_query_per_user(users: Int64Array, rows: Interactions) -> Ranking:
    ptr = np.concatenate([[0], np.cumsum(rows.counts[users])]).astype(np.int64)
    return Ranking(ptr, np.empty(len(rows), np.int64), np.empty(len(users), np.int64), users)


def rank_full(
    full: Full, part: slice, scores: Float32Array, field: CompetingItems, rows: Interactions
) -> None:
    """Fills in the ranks and lists of some users. part: their positions in full.ranking.user;
    scores: float32 [users of the part, items].
    """
    ranking, best = full.ranking, full.best
    users = ranking.user[part]
    competing = (field.known, field.ptr, field.item, field.place)
    top_n(scores, users, *competing, best.item[part], best.score[part])
    ranks(scores, users, *competing, rows.ptr, rows.item, ranking.rank, ranking.candidates[part])


def empty_sampled(held: Held) -> Ranking:
    """A ranking with one query per held-out row, not yet filled in."""
    m = len(held.rows)
    user = held.rows.user.astype(np.int64)
    return Ranking(np.arange(m + 1), np.empty(m, np.int64), np.empty(m, np.int64), user)


def rank_sampled(
    ranking: Ranking, users: Int64Array, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fills in the queries of `users`: ascending, and no user with held-out rows between them is
    left out.

    A candidate without a training row stands behind all others; a held-out item without one is
    missed.
    """
    assert held.candidates is not None
    part = slice(int(held.rows.ptr[users[0]]), int(held.rows.ptr[users[-1] + 1]))
    row = np.repeat(np.arange(len(users)), held.rows.counts[users])
    ranks_among(
        scores,
        row,
        held.rows.item[part],
        held.candidates[part],
        field.known,
        field.place,
        ranking.rank[part],
        ranking.candidates[part],
    )


def empty_together(held: Held) -> Ranking | None:
    """A ranking with one query per user, all held-out rows at once, not yet filled in; None without
    candidates, or if no user has two held-out rows.
    """
    counts = held.rows.counts
    if held.candidates is None or counts.max(initial=0) < 2:
        return None
    return _one_query_per_user(np.flatnonzero(counts), held.rows)


def rank_together(
    ranking: Ranking, part: slice, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fills in the ranks of the users `part` (positions in ranking.user).

    As in the sampled ranking, a candidate without a training row stands behind all others, and a
    held-out item without one is missed.
    """
    assert held.candidates is not None
    _rank_together(
        scores,
        ranking.ptr[part.start : part.stop + 1],
        held.rows.item,
        held.candidates,
        field.known,
        field.place,
        ranking.rank,
        ranking.candidates[part],
    )


def user_f1(ranking: Ranking, lengths: Sequence[int]) -> dict[str, Float64Array]:
    """{"f1_user@20": 2 P R / (P + R) of each user, float64 [m]}, at every length."""
    return {f"{USER_F1}@{n}": f1(ranking, n) for n in lengths}


@njit(cache=True, nogil=True)
def _rank_together(
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

    scores: float32 [m, items], row r of the user whose held-out rows begin at ptr[r]. Equal scores
    are ordered as in `kernels.arrays`.
    """
    for r in range(len(scores)):
        score = scores[r]
        held = item[ptr[r] : ptr[r + 1]]
        rest = others(candidates[ptr[r]], held)
        competing[r] = len(rest)
        for i in held:
            competing[r] += known[i]
        for h in range(len(held)):
            i = held[h]
            ahead = _ahead(score, held, i, known, place) + _ahead(score, rest, i, known, place)
            # An unknown item stands behind all that compete.
            own_rank = ahead + 1 if known[i] else competing[r] + 1
            insert_ascending(rank, ptr[r], ptr[r] + h, own_rank)


@njit(cache=True, nogil=True)
def _ahead(
    score: Float32Array, items: Int32Array, i: int, known: BoolArray, place: Int32Array
) -> int:
    """The number of `items` that are known and precede item i."""
    ahead = 0
    for j in items:
        ahead += known[j] and (
            score[j] > score[i] or (score[j] == score[i] and place[j] < place[i])
        )
    return ahead
