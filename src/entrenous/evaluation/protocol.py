"""`evaluate`: every metric of one trained recommender on one held-out part, in one pass over its
scores. `look`: the metrics that validation compares.

The protocol is part of the result: which items competed, how ties were broken, who was not
evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from ..core.contract.declared import predicts_ratings
from ..core.contract.protocols import Progress, Scorer, silent
from ..core.types import BoolArray, Float32Array, Float64Array, Int64Array
from ..data.interactions import Interactions
from ..data.likes import said
from ..data.split.types import Held
from . import rankings
from . import ratings as of_ratings
from .metric_kinds import (
    ListMetric,
    Lists,
    Metric,
    QueryMetric,
    Ranking,
    metrics,
    title,
    with_absent,
)
from .recommend import score_blocks

PerUser = dict[str, Float64Array]
Metrics: TypeAlias = Mapping[str, Metric]
NO_METRICS: Metrics = MappingProxyType({})
# The list lengths n that every evaluation has.
LENGTHS = (5, 10, 20)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """The metrics of one recommender on one held-out part."""

    metrics: dict[str, float]
    """The mean over users by name (`hr@10`, `auc`, `gini@10`): of the sampled ranking if the
    held-out rows have candidates, otherwise of the full ranking. Metrics of lists (coverage, Gini)
    are always of the full ranking. `mae` and `rmse` of predicted ratings come first; they are means
    over held-out rows, not over users. `f1_user@n` (see `rankings`) comes with the sampled ranking
    alone, and only if a user has several held-out rows.
    """
    full_ranking: dict[str, float] | None
    """The same names for the full ranking if `metrics` are sampled; otherwise None."""
    per_user: PerUser
    """Accuracy metrics by name, float64 [m], in the order of `user`."""
    per_user_full: PerUser | None
    """The same for the full ranking if `metrics` are sampled; otherwise None."""
    by_category: dict[str, dict[str, float]]
    """{"bias_disparity@10": {category: value}}."""
    user: Int64Array
    """int64 [m]: the evaluated users, ascending."""
    protocol: tuple[str, ...]
    """Sentences about the items that were ranked, and how."""
    ranking: Ranking
    """The full ranking."""
    candidates_ranking: Ranking | None
    """The sampled ranking, or None."""
    lists: Lists
    """The top lists of the full ranking."""


def evaluate(
    recommender: Scorer,
    train: Interactions,
    held: Held,
    *,
    label: str,
    n: int | Sequence[int] = LENGTHS,
    seed: int = 0,
    also_mask: Interactions | None = None,
    ratings: bool = False,
    further: Mapping[str, Metric] = NO_METRICS,
    progress: Progress = silent,
) -> Evaluation:
    """Ranks the held-out rows of every user who has some, block by block.

    train: the rows the recommender was trained on. They do not compete for their users, unless
        `held.repeats`; items without any such row are never recommended and rank last.
    held: the held-out rows.
    label: the algorithm's name, for errors. n: list lengths, or a single one. seed: of the shuffle
    that orders equal scores.
    also_mask: further rows that do not compete, such as validation rows when a model is tested that
        was not trained on them.
    ratings: the scores are predicted ratings; compares them with the true ones too.
    further: the user's own metrics by name, in addition to those of evaluation/metrics.
    progress: is called with the number of users done.

    Raises NonFiniteError for a score that is NaN or infinite; InputError if there is nothing to
    evaluate, or parts overlap.
    """
    rows = held.rows
    # Lists are made once, for the longest length; shorter ones are their beginnings.
    lengths = sorted(set(np.atleast_1d(n).tolist()))
    rankings.check(train, also_mask, held)
    absent = held.absent
    if absent is None:
        absent = np.zeros(len(rows.users), np.int64)
    # A user all of whose held-out items are absent from the catalogue has missed them all.
    users = np.flatnonzero(rows.counts + absent)
    field = rankings.competing_items(train, also_mask, seed, held)
    full = rankings.empty_full(users, rows, min(lengths[-1], len(train.items)))
    sampled = None
    if held.candidates is not None:
        sampled = rankings.empty_sampled(held)
    together = rankings.empty_together(held)
    predicted = np.empty(len(rows), np.float32)
    # The scores of a block are used for everything at once, since they may be costly to compute.
    for part, scores in score_blocks(recommender, rows.users, len(train.items), users, label=label):
        rankings.rank_full(full, part, scores, field, rows)
        if sampled is not None:
            rankings.rank_sampled(sampled, users[part], scores, field, held)
        if together is not None:
            rankings.rank_together(together, part, scores, field, held)
        if ratings:
            of_ratings.predict_block(predicted, users[part], scores, rows)
        progress(part.stop, len(users), "evaluated user")
    lists = Lists(full.best.item, users, field.known, train.popularity, *categories(train))
    ranking = with_absent(full.ranking, absent[users])
    evaluation = _summed_up(
        Rankings(ranking, sampled, together),
        lists,
        lengths,
        {**metrics(), **further},
        sentences(train, held, field.known, also_mask, seed),
    )
    if ratings:
        # Errors come first: they are what such a system is judged by.
        return _with_ratings(evaluation, rows, predicted, label)
    return evaluation


def _with_ratings(
    evaluation: Evaluation, rows: Interactions, scores: Float32Array, label: str
) -> Evaluation:
    """Adds the errors of the same scores as predicted ratings."""
    errors = of_ratings.rated(rows, scores)
    return replace(
        evaluation,
        metrics=errors.metrics | evaluation.metrics,
        per_user=errors.per_user | evaluation.per_user,
        protocol=(of_ratings.sentence(rows, label), *evaluation.protocol),
    )


class Rankings(NamedTuple):
    """The rankings of an evaluation; the last two are None without candidates."""

    full: Ranking
    """One query per user, among all items."""
    sampled: Ranking | None
    """One query per held-out row, among its candidates."""
    together: Ranking | None
    """One query per user, among the candidates of one row."""


def _summed_up(
    ranked: Rankings, lists: Lists, lengths: Sequence[int], of: Metrics, protocol: tuple[str, ...]
) -> Evaluation:
    of_lists = list_values(lists, lengths, of)
    full = user_values(ranked.full, lengths, of)
    # The sampled ranking, where there is one, is the protocol's; the full one then stands apart.
    per_user = full
    apart = None
    if ranked.sampled is not None:
        per_user = user_values(ranked.sampled, lengths, of)
        apart = full
    if ranked.together is not None:
        per_user = per_user | rankings.user_f1(ranked.together, lengths)
        protocol = (*protocol, rankings.TOGETHER)
    return Evaluation(
        metrics=_means(per_user) | of_lists.numbers,
        full_ranking=None if apart is None else _means(apart) | of_lists.numbers,
        per_user=per_user,
        per_user_full=apart,
        by_category=of_lists.by_category,
        user=ranked.full.user,
        protocol=protocol,
        ranking=ranked.full,
        candidates_ranking=ranked.sampled,
        lists=lists,
    )


def _means(per_user: PerUser) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in per_user.items()}


def user_values(ranking: Ranking, lengths: Sequence[int], of: Metrics | None = None) -> PerUser:
    """Every accuracy metric at every length, float64 [m]: the mean over the queries of each user,
    users ascending. of: the metrics, by default all installed ones.
    """
    if of is None:
        of = metrics()
    _, query_user = np.unique(ranking.user, return_inverse=True)
    queries = np.bincount(query_user)
    per_user: PerUser = {}
    for name, metric in of.items():
        if not isinstance(metric, QueryMetric):
            continue
        # Without a cutoff the value is the same at every length.
        at_lengths = lengths if metric.cutoff else lengths[:1]
        for n in at_lengths:
            values = metric.value(ranking, n).astype(np.float64)
            per_user[title(name, metric, n)] = np.bincount(query_user, values) / queries
    return per_user


class ListValues(NamedTuple):
    """Metrics of lists: one number each, or one number per category."""

    numbers: dict[str, float]
    by_category: dict[str, dict[str, float]]


def list_values(lists: Lists, lengths: Sequence[int], of: Metrics | None = None) -> ListValues:
    """Every metric of lists at every length, without those that the data lack columns for.

    of: the metrics, by default all installed ones.
    """
    if of is None:
        of = metrics()
    values = ListValues({}, {})
    for name, metric in of.items():
        if not isinstance(metric, ListMetric):
            continue
        for n in lengths:
            value = metric.value(lists, n)
            at_length = title(name, metric, n)
            if isinstance(value, dict):
                values.by_category[at_length] = value
            elif value is not None:
                values.numbers[at_length] = float(value)
    return values


def categories(data: Interactions) -> tuple[BoolArray | None, tuple[str, ...]]:
    """The categories of each item, bool [items, c], and the c names, from the item column
    `category`, where `|` separates several; (None, ()) without that column.
    """
    # Only bias disparity needs categories, and few data sets have them.
    if "category" not in data.features:
        return None, ()
    of_item = [set(str(text).split("|")) - {""} for text in data.features["category"]]
    names = sorted(set().union(*of_item))
    column = {name: number for number, name in enumerate(names)}
    member = np.zeros((len(of_item), len(names)), np.bool_)
    for item, its_names in enumerate(of_item):
        for name in its_names:
            member[item, column[name]] = True
    return member, tuple(names)


def sentences(
    train: Interactions, held: Held, known: BoolArray, also_mask: Interactions | None, seed: int
) -> tuple[str, ...]:
    """The protocol in words, with the counts of the rows and users that were left out."""
    rows = held.rows
    competing = "" if held.cold else " with a training row"
    masked = "rows" if also_mask is None else "and validation rows"
    without = f"without the user's own training {masked}"
    if held.repeats:
        without = "with those that the user has already (repeats=keep)"
    lines = [f"full ranking: the {int(known.sum())} items{competing}, {without}"]
    if held.candidates is not None:
        # A row with fewer candidates than others is filled up with -1.
        fewest = (held.candidates >= 0).sum(axis=1).min()
        most = held.candidates.shape[1]
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        lines.append(
            f"sampled ranking: each held-out item against its own {count} frozen candidates"
        )
    if train.reading.likes:
        lines.append(said(train.reading.likes))
    lines.append(f"equal scores are ordered by a shuffle of the items keyed by seed {seed}")
    counts = rows.counts
    if held.absent is not None:
        counts = rows.counts + held.absent
    total = counts.sum()
    evaluated = int((counts > 0).sum())
    left_out = (counts == 0) & (train.counts > 0)
    others = f"users in training without any, left out: {int(left_out.sum())}"
    lines.append(f"users evaluated: {evaluated}, with {total} held-out rows; {others}")
    absent = total - len(rows)
    if absent > 0:
        lines.append(
            f"held-out rows of items that are not in the catalogue, which count as missed: {absent}"
        )
    # An item of the test rows alone can be in no list.
    cold = int((~known[rows.item]).sum())
    if cold:
        lines.append(
            "held-out rows of items without a training row, which are never recommended and rank"
            f" last: {cold}"
        )
    return tuple(lines)


class Goal(NamedTuple):
    """The validation metric by which settings and numbers of rounds are chosen."""

    metric: str
    lower: bool
    """True if smaller is better."""
    length: int = 10
    """The list length n of the metric."""
    ratings: bool = False
    """True for a metric of predicted ratings, which needs no ranking."""

    def key(self, metrics: dict[str, float]) -> float:
        """A sort key that puts the best first, whatever the metric."""
        if self.lower:
            return metrics[self.metric]
        return -metrics[self.metric]


RANKING = Goal("ndcg@10", lower=False)
RATING = Goal("rmse", lower=True, ratings=True)
GOALS = (RANKING, RATING)


def goal_of(algorithm: Any) -> Goal:
    """The goal of an algorithm: RMSE if it predicts ratings, otherwise NDCG@10."""
    return RATING if predicts_ratings(algorithm) else RANKING


def look(
    goal: Goal, recommender: Scorer, train: Interactions, held: Held, *, label: str, seed: int
) -> dict[str, float]:
    """The metrics of a recommender on validation rows by name, the goal's metric among them."""
    # A system that predicts ratings has no need of a ranking to be compared.
    if goal.ratings:
        return of_ratings.rate(recommender, held.rows, label=label).metrics
    lengths = (RANKING.length, goal.length)
    return evaluate(recommender, train, held, label=label, n=lengths, seed=seed).metrics
