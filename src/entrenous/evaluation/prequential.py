"""Prequential evaluation: each row of a stream is ranked before it is learnt, by the scores of the
model at hand and by popularity so far, among the same items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.types import Array, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from ..data.events import Standing, Windows
from ..data.interactions import Interactions
from .metric_kinds import Lists, Ranking
from .protocol import LENGTHS, Evaluation, user_values

BASELINE = "popular"
# The metrics of a window.
OF_WINDOW = ("hr@10", "ndcg@10")
# A row that is missed ranks behind so many items, although fewer compete when a stream begins.
LEAST = max(LENGTHS)


class RankedRows(NamedTuple):
    """Rows in the order in which they came, ranked before they were learnt."""

    user: Int64Array
    """int64 [n]."""
    rank: Int64Array
    """int64 [n, 2]: the rank by the model, and by popularity so far."""
    candidates: Int64Array
    """int64 [n]: the number of items that competed."""

    def values(self, which: int = 0) -> dict[str, Float64Array]:
        """Returns each accuracy metric of each row by name, float64 [n]. which: 0 for the model, 1
        for popularity.
        """
        rows = np.arange(len(self.user))
        one_each = Ranking(
            np.arange(len(rows) + 1),
            np.ascontiguousarray(self.rank[:, which]),
            self.candidates,
            rows,
        )
        return user_values(one_each, LENGTHS)

    def figures(self) -> dict[str, float]:
        """Returns the means over the rows, of the model and of popularity: {} without rows."""
        if not len(self.user):
            return {}
        model = self.values()
        popular = self.values(1)
        means = {name: float(model[name].mean()) for name in OF_WINDOW}
        return means | {f"{BASELINE} {name}": float(popular[name].mean()) for name in OF_WINDOW}


def rank_window(
    windows: Windows,
    window: int,
    standing: Standing,
    before: Interactions,
    scores: Float32Array,
    place: Int32Array,
) -> RankedRows:
    """Ranks each row of a window as it comes, and takes the events of the window.

    before: the rows that were learnt. scores: of all items, float32 [users, items]; a row is read
    for users who have a row in the window alone. place: the order of items of equal score.

    The items with a learnt row compete that are not retired and that the user does not have. A row
    that the user has already is not ranked.
    """
    popularity = before.popularity
    # Retired items have no rows.
    competing = popularity > 0
    found: list[tuple[int, int, int, int]] = []
    start, stop = windows.ptr[window : window + 2].tolist()
    for kind, user, item in windows.events.numbers(start, stop):
        if kind == "row" and item not in standing.rows.get(user, {}):
            left = competing.copy()
            left[list(standing.rows[user])] = False
            count = int(left.sum())
            if not left[item]:
                count = max(count, LEAST)
            by_model = _rank(scores[user], left, place, item, count)
            by_popularity = _rank(popularity, left, place, item, count)
            found.append((user, by_model, by_popularity, count))
        elif kind == "retire":
            competing[item] = False
        standing.take(kind, user, item)
    table = np.array(found, np.int64).reshape(len(found), 4)
    return RankedRows(table[:, 0], table[:, 1:3], table[:, 3])


def _rank(scores: Array, competing: BoolArray, place: Int32Array, item: int, count: int) -> int:
    """Returns the rank of an item among the competing ones, from 1; count + 1 if it is none of
    them.
    """
    if not competing[item]:
        return count + 1
    score = scores[item]
    ahead = (scores > score) | ((scores == score) & (place[: len(scores)] < place[item]))
    return 1 + int(np.count_nonzero(ahead & competing))


def prequential(
    parts: Sequence[RankedRows], half: int, train: Interactions, seed: int
) -> Evaluation:
    """Sums up the windows of a stream. `metrics` are means over rows, `per_user` over the rows of
    each user. half: the windows of the first half of the rows (`Windows.half`). train: the rows
    that are there at the end. seed: orders equal scores.
    """
    ranked = _joined(parts)
    order = np.argsort(ranked.user, kind="stable")
    by_user = RankedRows(*(column[order] for column in ranked))
    queries = np.arange(len(order) + 1)
    ranking = Ranking(
        queries, np.ascontiguousarray(by_user.rank[:, 0]), by_user.candidates, by_user.user
    )
    users = np.unique(ranking.user)
    none = np.empty((0, LEAST), np.int32)
    nobody = np.empty(0, np.int64)
    popularity = train.popularity
    return Evaluation(
        metrics=_means(ranked, 0),
        full_ranking=None,
        per_user=user_values(ranking, LENGTHS),
        per_user_full=None,
        by_category={},
        user=users,
        protocol=(*_sentences(ranked, users, seed), *_of_second_half(parts[half:])),
        ranking=ranking,
        candidates_ranking=None,
        lists=Lists(none, nobody, popularity > 0, popularity, None, ()),
    )


def _joined(parts: Sequence[RankedRows]) -> RankedRows:
    return RankedRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_second_half(parts: Sequence[RankedRows]) -> tuple[str, ...]:
    """Returns a sentence on the windows on which no settings are chosen; none where there are no
    rows.
    """
    if not any(len(part.user) for part in parts):
        return ()
    figures = _joined(parts).figures()
    told = ", ".join(f"{name} {value:.4f}" for name, value in figures.items())
    return (f"over the second half of the rows, on which `entrenous tune` chooses nothing: {told}",)


def _means(ranked: RankedRows, which: int) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in ranked.values(which).items()}


def _sentences(ranked: RankedRows, users: Int64Array, seed: int) -> tuple[str, ...]:
    """Returns the protocol in words, with the figures of popularity on the same rows."""
    popular = _means(ranked, 1)
    figures = ", ".join(f"{name} {popular[name]:.4f}" for name in OF_WINDOW)
    missed = int((ranked.rank[:, 0] > ranked.candidates).sum())
    return (
        "prequential: each row is ranked by the model of the windows before it, among the items"
        " with a row in them that are not retired and that the user does not have",
        f"popularity so far, on the same rows among the same items: {figures}",
        f"rows ranked: {len(ranked.user):,} of {len(users):,} users, each counting alike; rows of"
        f" items without a row before, which count as missed: {missed:,}",
        f"equal scores are ordered by a shuffle of the items keyed by seed {seed}",
    )
