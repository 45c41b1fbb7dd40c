"""`evaluate`: every metric of one trained recommender on one held-out part, in one pass over its
scores.

The protocol is part of the result: which items competed, how ties were broken, who was not
evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, final

import numpy as np

from ..core.contract.protocols import Progress, Recommender, silent
from ..core.types import BoolArray, Float32Array, Float64Array, Int64Array
from ..data.interactions import Interactions
from ..data.split.types import Held
from . import full, sampled, together
from . import ratings as of_ratings
from .metric_kinds import ListMetric, Metric, QueryMetric, metrics, title
from .ranking import Lists, Ranking, with_absent
from .recommend import score_blocks

PerUser = dict[str, Float64Array]
Metrics: TypeAlias = Mapping[str, Metric]
NO_METRICS: Metrics = MappingProxyType({})


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """What one evaluation found.

    metrics: the mean over users by name (`hr@10`, `auc`, `gini@10`): of the sampled ranking where
        the held-out rows have candidates, else of the full ranking. Metrics of lists (coverage,
        Gini) are always of the full ranking. Of predicted ratings `mae` and `rmse` come first; they
        are over held-out rows, not over users. `f1_user@n` (see `together`) comes with the sampled
        ranking alone, and where a user has several held-out rows.
    full_ranking: the same names of the full ranking, where `metrics` are sampled; else None.
    per_user, per_user_full: accuracy metrics by name, float64 [m], in the order of `user`; the
    latter None unless sampled. by_category: {"bias_disparity@10": {category: value}}. user: int64
    [m], the evaluated users, ascending. protocol: what was ranked and how, one sentence each.
    ranking: of the full ranking; candidates_ranking: of the sampled one, or None; lists: the top
    lists of the full ranking.
    """

    metrics: dict[str, float]
    full_ranking: dict[str, float] | None
    per_user: PerUser
    per_user_full: PerUser | None
    by_category: dict[str, dict[str, float]]
    user: Int64Array
    protocol: tuple[str, ...]
    ranking: Ranking
    candidates_ranking: Ranking | None
    lists: Lists


def evaluate(
    recommender: Recommender,
    train: Interactions,
    held: Held,
    *,
    label: str,
    n: Sequence[int] = (5, 10, 20),
    seed: int = 0,
    block: int | None = None,
    also_mask: Interactions | None = None,
    ratings: bool = False,
    further: Mapping[str, Metric] = NO_METRICS,
    progress: Progress = silent,
) -> Evaluation:
    """Ranks the held-out rows of every user who has some, block by block.

    train: the rows the recommender was trained on; they do not compete for their users, and items
        without any such row are never recommended and rank last.
    also_mask: further rows that do not compete (validation rows, when testing a model that was not
    trained on them). ratings: whether the scores are predicted ratings, to be held against the true
    ones too. further: metrics of one's own by name, beside those of evaluate/metrics. label: the
    algorithm, for errors. n: list lengths. seed: of the shuffle that orders equal scores. block:
    users scored at once. progress: is told of users done.

    Raises NonFiniteError for a score that is NaN or infinite; InputError if there is nothing to
    evaluate or parts overlap."""
    rows, lengths = held.rows, sorted(set(n))
    full.check(train, also_mask, rows)
    absent = np.zeros(len(rows.users), np.int64) if held.absent is None else held.absent
    field, users = (
        full.field_of(train, also_mask, seed, held.cold),
        np.flatnonzero(rows.counts + absent),
    )
    everything = full.empty_full(users, rows, lengths[-1])
    among = sampled.empty_sampled(held) if held.candidates is not None else None
    whole = together.empty_together(held)
    predicted = np.empty(len(rows), np.float32)
    for part, scores in score_blocks(
        recommender, train.users, len(train.items), users, label=label, block=block
    ):
        full.rank_block(everything, part, scores, field, rows)
        if among is not None:
            sampled.rank_block(among, users[part], scores, field, held)
        if whole is not None:
            together.rank_block(whole, part, scores, field, held)
        if ratings:
            of_ratings.predict_block(predicted, users[part], scores, rows)
        progress(part.stop, len(users), "evaluated user")
    lists = Lists(everything.best.item, users, field.known, train.popularity, *categories(train))
    said = sentences(train, held, field.known, also_mask, seed)
    ranking = with_absent(everything.ranking, absent[users])
    found = _summed_up(
        Rankings(ranking, among, whole), lists, lengths, said, {**metrics(), **further}
    )
    return _with_ratings(found, rows, predicted, label) if ratings else found


def _with_ratings(
    found: Evaluation, rows: Interactions, scores: Float32Array, label: str
) -> Evaluation:
    """The evaluation of a ranking, with the errors of the same scores as predicted ratings."""
    errors = of_ratings.rated(rows, scores)
    return replace(
        found,
        metrics=errors.metrics | found.metrics,
        per_user=errors.per_user | found.per_user,
        protocol=(of_ratings.sentence(rows, label), *found.protocol),
    )


class Rankings(NamedTuple):
    """The rankings of an evaluation. full: one query per user, among all items; among: one per
    held-out row, among its candidates; together: one per user, among the candidates of a row. The
    last two are None without candidates.
    """

    full: Ranking
    among: Ranking | None
    together: Ranking | None


def _summed_up(
    rankings: Rankings, lists: Lists, lengths: Sequence[int], protocol: tuple[str, ...], of: Metrics
) -> Evaluation:
    ranking, among, whole = rankings
    per_user, of_lists = user_values(ranking, lengths, of), list_values(lists, lengths, of)
    chosen = per_user if among is None else user_values(among, lengths, of)
    if whole is not None:
        chosen, protocol = chosen | together.user_f1(whole, lengths), (*protocol, together.SENTENCE)
    return Evaluation(
        metrics=_means(chosen) | of_lists.numbers,
        full_ranking=None if among is None else _means(per_user) | of_lists.numbers,
        per_user=chosen,
        per_user_full=None if among is None else per_user,
        by_category=of_lists.by_category,
        user=ranking.user,
        protocol=protocol,
        ranking=ranking,
        candidates_ranking=among,
        lists=lists,
    )


def _means(per_user: PerUser) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in per_user.items()}


def user_values(ranking: Ranking, lengths: Sequence[int], of: Metrics | None = None) -> PerUser:
    """Every accuracy metric at every length, float64 [m]: the mean over each user's queries, in the
    order of ascending users.
    """
    _, query_user = np.unique(ranking.user, return_inverse=True)
    queries = np.bincount(query_user)
    found: PerUser = {}
    for name, metric in (metrics() if of is None else of).items():
        if isinstance(metric, QueryMetric):
            for n in lengths if metric.cutoff else lengths[:1]:
                values = metric.value(ranking, n)
                found[title(name, metric, n)] = (
                    np.bincount(query_user, values.astype(np.float64)) / queries
                )
    return found


class ListValues(NamedTuple):
    """Metrics of lists: one number each, or one number per category."""

    numbers: dict[str, float]
    by_category: dict[str, dict[str, float]]


def list_values(lists: Lists, lengths: Sequence[int], of: Metrics | None = None) -> ListValues:
    """Every metric of lists at every length; those the data cannot tell are left out."""
    values = ListValues({}, {})
    of_lists = {
        name: metric
        for name, metric in (metrics() if of is None else of).items()
        if isinstance(metric, ListMetric)
    }
    for name, metric, n in [
        (name, metric, n) for name, metric in of_lists.items() for n in lengths
    ]:
        value = metric.value(lists, n)
        if isinstance(value, dict):
            values.by_category[title(name, metric, n)] = value
        elif value is not None:
            values.numbers[title(name, metric, n)] = float(value)
    return values


def categories(data: Interactions) -> tuple[BoolArray | None, tuple[str, ...]]:
    """bool [items, c] and the c names, from the item column `category`, where `|` separates
    several; (None, ()) without it.
    """
    if "category" not in data.features:
        return None, ()
    of_item = [
        [name for name in str(text).split("|") if name] for text in data.features["category"]
    ]
    names = tuple(sorted({name for some in of_item for name in some}))
    column = {name: c for c, name in enumerate(names)}
    member = np.zeros((len(of_item), len(names)), np.bool_)
    for item, some in enumerate(of_item):
        member[item, [column[name] for name in some]] = True
    return member, names


def sentences(
    train: Interactions, held: Held, known: BoolArray, also_mask: Interactions | None, seed: int
) -> tuple[str, ...]:
    """The protocol in words, with the counts of what was left out."""
    rows = held.rows
    competing = (
        f"the {int(known.sum())} items{'' if held.cold else ' with a training row'}, without the"
        " user's own training"
    )
    said = [f"full ranking: {competing} {'rows' if also_mask is None else 'and validation rows'}"]
    if held.candidates is not None:
        fewest, most = (held.candidates >= 0).sum(axis=1).min(), held.candidates.shape[1]
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        said.append(
            f"sampled ranking: each held-out item against its own {count} frozen candidates"
        )
    said.append(f"equal scores are ordered by a shuffle of the items keyed by seed {seed}")
    counts = rows.counts if held.absent is None else rows.counts + held.absent
    evaluated, idle = int((counts > 0).sum()), int(((counts == 0) & (train.counts > 0)).sum())
    said.append(
        f"users evaluated: {evaluated}, with {counts.sum()} held-out rows; users in training"
        f" without any, left out: {idle}"
    )
    if counts.sum() > len(rows):
        said.append(
            "held-out rows of items that are not in the catalogue, which count as missed:"
            f" {counts.sum() - len(rows)}"
        )
    cold = int((~known[rows.item]).sum())
    if cold:
        said.append(
            "held-out rows of items without a training row, which are never recommended and rank"
            f" last: {cold}"
        )
    return tuple(said)
