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

from ..core.compiling import njit
from ..core.contract.protocols import TopN
from ..core.errors import InputError
from ..core.lanes.memory import starts_of
from ..core.types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from ..data.interactions import Interactions, pairs_of
from ..data.split.types import Held, refuse_other_ids
from ..kernels.arrays import insert_ascending, ranks, ranks_among, top_n
from ..kernels.sampling import others
from .metric_kinds import Ranking
from .metrics.defined import f1
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
    """int32 [rows]: the consumed items, ascending within a user."""
    place: Int32Array
    """int32 [items]: the place of an item among those of equal score."""


class Full(NamedTuple):
    """The full ranking of some users."""

    ranking: Ranking
    best: TopN
    """The users' lists."""


def check(train: Interactions, also_mask: Interactions | None, held: Held) -> None:
    """Checks that the held-out rows can be evaluated.

    Raises InputError if there are none, if one is also a training row although the items that a
    user has do not compete (it would count as missed), and for rows of other users or items.
    """
    rows = held.rows
    refuse_other_ids(train, rows, "the held-out rows")
    if not len(rows):
        raise InputError(
            rows.name, "there are no held-out rows to evaluate", fix="choose another protocol"
        )
    if held.repeats:
        return
    _check_disjoint(rows, train, "training")
    if also_mask is not None:
        _check_disjoint(rows, also_mask, "masked")


def _check_disjoint(rows: Interactions, masked: Interactions, what: str) -> None:
    if not len(masked):
        return
    # Pairs of user and item are ascending numbers, so each is sought by halving.
    pairs = pairs_of(masked)
    sought = pairs_of(rows)
    nearest = np.searchsorted(pairs, sought)
    at = np.minimum(nearest, len(pairs) - 1)
    both = np.flatnonzero(pairs[at] == sought)
    if len(both):
        first = both[0]
        user = rows.users[int(rows.user[first])]
        item = rows.items[int(rows.item[first])]
        raise InputError(
            rows.name,
            f"held-out rows that are also {what} rows: {len(both)}; the first is user '{user}',"
            f" item '{item}'",
            expected="disjoint parts",
        )


def competing_items(
    train: Interactions, also_mask: Interactions | None, seed: int, held: Held
) -> CompetingItems:
    """The items that compete with held-out ones after training on `train`.

    also_mask: rows whose items do not compete for their users either. held: tells whether items
    without a training row compete too (`cold`), and those that a user has (`repeats`). seed: of the
    order of equal scores.
    """
    # Nothing was learnt about an item without a training row, unless the algorithm knows its
    # features.
    known = (train.popularity > 0) | held.cold
    place = tie_places(len(train.items), seed)
    if held.repeats:
        nobody = np.zeros(len(train.users) + 1, np.int64)
        return CompetingItems(known, nobody, np.empty(0, np.int32), place)
    if also_mask is None:
        # The arrays of the training rows serve as they are: nothing is copied.
        return CompetingItems(known, train.ptr, train.item, place)
    refuse_other_ids(train, also_mask, "also_mask")
    pairs = np.union1d(pairs_of(train), pairs_of(also_mask))
    user, item = np.divmod(pairs, len(train.items))
    # The rows are sorted by user, so those of user u begin at the first that is not below u.
    every_user = np.arange(len(train.users) + 1)
    ptr = np.searchsorted(user, every_user)
    return CompetingItems(known, ptr.astype(np.int64), item.astype(np.int32), place)


def empty_full(users: Int64Array, rows: Interactions, n: int) -> Full:
    """A full ranking of the held-out rows of `users` with lists of length n, not yet filled in."""
    return Full(_one_query_per_user(users, rows), empty_lists(len(users), n))


def _one_query_per_user(users: Int64Array, rows: Interactions) -> Ranking:
    ptr = starts_of(rows.counts[users])
    rank = np.empty(len(rows), np.int64)
    candidates = np.empty(len(users), np.int64)
    return Ranking(ptr, rank, candidates, users)


def rank_full(
    full: Full, part: slice, scores: Float32Array, field: CompetingItems, rows: Interactions
) -> None:
    """Fills in the ranks and the lists of some users.

    part: the positions of these users in full.ranking.user. scores: float32 [users of the part,
    items].
    """
    ranking = full.ranking
    best = full.best
    users = ranking.user[part]
    competing = (field.known, field.ptr, field.item, field.place)
    # Both write into views of the whole ranking: the rows of these users.
    top_n(scores, users, *competing, best.item[part], best.score[part])
    ranks(scores, users, *competing, rows.ptr, rows.item, ranking.rank, ranking.candidates[part])


def empty_sampled(held: Held) -> Ranking:
    """A ranking with one query per held-out row, not yet filled in."""
    queries = len(held.rows)
    rank = np.empty(queries, np.int64)
    candidates = np.empty(queries, np.int64)
    user = held.rows.user.astype(np.int64)
    return Ranking(np.arange(queries + 1), rank, candidates, user)


def rank_sampled(
    ranking: Ranking, users: Int64Array, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fills in the queries of some users.

    users: ascending, with every user in between who has held-out rows. scores: float32 [users,
    items]. A candidate without a training row stands behind all others; a held-out item without one
    is missed.
    """
    assert held.candidates is not None
    # Held-out rows are sorted by user, so these users' rows are one slice.
    part = slice(int(held.rows.ptr[users[0]]), int(held.rows.ptr[users[-1] + 1]))
    row = np.repeat(np.arange(len(users)), held.rows.counts[users])
    # Each row is ranked with its user's scores.
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
    # With one held-out row per user it would be the sampled ranking again.
    if held.candidates is None or counts.max(initial=0) < 2:
        return None
    return _one_query_per_user(np.flatnonzero(counts), held.rows)


def rank_together(
    ranking: Ranking, part: slice, scores: Float32Array, field: CompetingItems, held: Held
) -> None:
    """Fills in the ranks of some users.

    part: the positions of these users in ranking.user. scores: float32 [users of the part, items].
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
    candidates[ptr[r]], and the number of these items that compete.

    scores: float32 [m, items], row r of the user whose held-out rows begin at ptr[r]. Equal scores
    are ordered as in `kernels.arrays`.
    """
    for r in range(len(scores)):
        score = scores[r]
        held = item[ptr[r] : ptr[r + 1]]
        # The candidates of the first held-out item, without those that are held out themselves.
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
        first_of_equals = score[j] == score[i] and place[j] < place[i]
        ahead += known[j] and (score[j] > score[i] or first_of_equals)
    return ahead
