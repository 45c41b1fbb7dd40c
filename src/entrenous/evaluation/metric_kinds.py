"""The arguments of metrics (`Ranking`, `Lists`) and the kinds of metrics (`QueryMetric`,
`ListMetric`, `RatingMetric`).

Each file in `metrics/` lists its metrics as METRICS = {name: metric}. Adding a file there adds its
metrics; an installed package adds its own by the entry point `entrenous.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ..core.lanes.memory import owners_of, starts_of
from ..core.registry.discover import with_plugins
from ..core.types import Array, BoolArray, Float64Array, Int32Array, Int64Array

ARROWS = {"higher": "↑", "lower": "↓"}


class Ranking(NamedTuple):
    """Queries and the ranks of their relevant items.

    Full ranking: one query per user with held-out rows; all items but the user's training items
    compete. Sampled: one query per held-out row, against its own candidates.
    """

    ptr: Int64Array
    """int64 [q + 1]: query k has the relevant items ptr[k] to ptr[k + 1], at least one."""
    rank: Int64Array
    """int64 [ptr[q]], from 1, ascending within a query. An item that never competes, such as one
    without a training row, has rank candidates + 1: it is missed.
    """
    candidates: Int64Array
    """int64 [q]: the number of items that competed."""
    user: Int64Array
    """int64 [q], ascending: the user of each query."""

    @property
    def relevant(self) -> Int64Array:
        """The number of relevant items of each query, int64 [q]."""
        return np.diff(self.ptr)

    @property
    def position(self) -> Int64Array:
        """The place of each relevant item among those of its query: 1, 2, ..., int64 [ptr[q]]."""
        number = np.arange(1, len(self.rank) + 1)
        # Ranks ascend within a query, so that a place is a number less those of other queries.
        items_before_query = np.repeat(self.ptr[:-1], self.relevant)
        return number - items_before_query

    def missed(self) -> BoolArray:
        """True for each relevant item that can be in no list, bool [ptr[q]]."""
        last = np.repeat(self.candidates, self.relevant)
        # An item that never competes has rank candidates + 1.
        return self.rank > last

    def within(self, n: int) -> BoolArray:
        """True for each relevant item in the first n places, bool [ptr[q]]."""
        # In a list longer than what competed, an item that never competes is no hit either.
        return (self.rank <= n) & ~self.missed()

    def total(self, values: Array) -> Float64Array:
        """The sum of `values` [ptr[q]] over each query, float64 [q]."""
        queries = len(self.candidates)
        query = owners_of(self.ptr)
        sums = np.bincount(query, weights=values.astype(np.float64), minlength=queries)
        return sums.astype(np.float64)


def with_absent(ranking: Ranking, absent: Int64Array) -> Ranking:
    """Adds relevant items that are in no list, since the catalogue lacks them.

    absent: int64 [q], their number for each query.

    >>> with_absent(ranking_of([[2], [1]], candidates=5), np.array([1, 0])).rank
    array([2, 6, 1])
    """
    relevant = ranking.relevant + absent
    ptr = starts_of(relevant)
    # All are missed at first; then the known ranks move to the start of their query.
    rank = np.repeat(ranking.candidates + 1, relevant)
    moved_by = ptr[:-1] - ranking.ptr[:-1]
    old_place = np.arange(len(ranking.rank))
    new_place = old_place + np.repeat(moved_by, ranking.relevant)
    rank[new_place] = ranking.rank
    return ranking._replace(ptr=ptr, rank=rank)


class Lists(NamedTuple):
    """The top-n lists of all evaluated users from the full ranking, with the data that metrics
    beyond accuracy compare them with.
    """

    item: Int32Array
    """int32 [m, n], -1 where a list is shorter."""
    user: Int64Array
    """int64 [m]: the user of each list."""
    known: BoolArray
    """bool [all items]: the catalogue, all items that can be recommended."""
    popularity: Int64Array
    """int64 [all items]: training rows per item."""
    category: BoolArray | None
    """bool [all items, c]: the categories of each item; None if unknown."""
    names: tuple[str, ...]
    """The names of the c categories."""

    @property
    def items(self) -> int:
        """The number of items that could be recommended."""
        return int(self.known.sum())

    def counts(self, n: int) -> Int64Array:
        """The number of lists with each item among their first n, int64 [all items]."""
        top = self.item[:, :n]
        # A list that is shorter than n ends in -1.
        listed = top[top >= 0]
        return np.bincount(listed, minlength=len(self.popularity))


def ranking_of(ranks: list[list[int]], candidates: int) -> Ranking:
    """A ranking written by hand: the ranks of each query's relevant items among `candidates` items.

    >>> ranking_of([[2, 5], [1]], candidates=5).position
    array([1, 2, 1])
    """
    ptr = np.cumsum([0, *map(len, ranks)])
    # Ranks ascend within a query; who writes one by hand need not mind.
    rank = np.concatenate([np.sort(np.array(query, np.int64)) for query in ranks])
    competed = np.full(len(ranks), candidates)
    user = np.arange(len(ranks))
    return Ranking(ptr, rank, competed, user)


def lists_of(
    lists: list[list[int]], popularity: list[int], category: dict[str, list[int]] | None = None
) -> Lists:
    """Lists written by hand: the items of each list, the training rows of each item, and the items
    of each category.

    >>> lists_of([[0, 2], [2, 1]], popularity=[3, 1, 0]).counts(1)
    array([1, 0, 1])
    """
    longest = max(map(len, lists))
    # Shorter lists are filled up with -1.
    item = np.full((len(lists), longest), -1, np.int32)
    for row, items in enumerate(lists):
        item[row, : len(items)] = items
    rows = np.array(popularity, np.int64)
    names = tuple(category or ())
    member = None
    if category is not None:
        member = np.zeros((len(rows), len(category)), np.bool_)
        for column, items in enumerate(category.values()):
            member[items, column] = True
    user = np.arange(len(lists))
    return Lists(item, user, rows > 0, rows, member, names)


def one(relevant: int, n: int) -> float:
    """Returns 1, the value of a perfect ranking by most metrics."""
    return 1.0


class QueryMetric(NamedTuple):
    """An accuracy metric: higher is better."""

    value: Callable[[Ranking, int], Float64Array]
    """(ranking, n) -> one value per query, float64 [q], in 0..1."""
    cutoff: bool = True
    """True for a metric of the first n places; otherwise n is ignored, and the metric appears once,
    without `@n`.
    """
    best: Callable[[int, int], float] = one
    """(relevant items, n) -> the value of a ranking with all relevant items first."""


class ListMetric(NamedTuple):
    """A metric of all lists together."""

    value: Callable[[Lists, int], float | dict[str, float] | None]
    """(lists, n) -> one number, or one per category; None if the data lack a column for it."""
    better: str = ""
    """"higher", "lower", or "" where neither is better."""


class RatingMetric(NamedTuple):
    """A metric of predicted ratings: lower is better."""

    value: Callable[[Float64Array, Int64Array], Float64Array]
    """(errors, predicted - true [n]; group [n]) -> one value per group, float64 [groups]."""


Metric: TypeAlias = QueryMetric | ListMetric | RatingMetric


def metrics() -> dict[str, Metric]:
    """Every metric by name, from the files of evaluation/metrics and from installed packages (entry
    points of `entrenous.metrics`).
    """
    return with_plugins("metrics", "METRICS", "entrenous.evaluation.metrics")


def title(name: str, metric: Metric, n: int) -> str:
    """`ndcg@10`, or `auc` for a metric without a cutoff."""
    # A metric of lists always looks at the first n places.
    has_cutoff = isinstance(metric, ListMetric)
    if isinstance(metric, QueryMetric):
        has_cutoff = metric.cutoff
    if has_cutoff:
        return f"{name}@{n}"
    return name


def better_of(metric: Metric) -> str:
    """The better end of a metric: "higher", "lower", or "" where neither is better."""
    if isinstance(metric, ListMetric):
        return metric.better
    return "higher" if isinstance(metric, QueryMetric) else "lower"


def arrowed(name: str) -> str:
    """Adds an arrow to the title of a metric: up if higher is better, down if lower is. Other
    titles stay as they are.

    >>> arrowed("ndcg@10"), arrowed("rmse"), arrowed("gini@10"), arrowed("rounds")
    ('ndcg@10 ↑', 'rmse ↓', 'gini@10 ↑', 'rounds')
    """
    # `worst_decile_hr@10` points where `hr` does.
    of_metric, _, _ = name.removeprefix("worst_decile_").partition("@")
    metric = metrics().get(of_metric)
    better = "" if metric is None else better_of(metric)
    if better:
        return f"{name} {ARROWS[better]}"
    return name
