"""`Wanted`: the metrics of an evaluation, as a caller asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..core.contract.declared import predicts_ratings
from ..core.errors import InputError, did_you_mean
from ..core.types import Array
from ..evaluation.metric_kinds import (
    ListMetric,
    Metric,
    QueryMetric,
    Ranking,
    RatingMetric,
    metrics,
    title,
)
from ..evaluation.protocol import LENGTHS, NO_METRICS, RANKING, Goal, Metrics, goal_of

MetricAsked: TypeAlias = str | Metric | Callable[[Ranking, int], Array]
MetricsAsked: TypeAlias = Mapping[str, MetricAsked] | Sequence[MetricAsked]
METRIC_KINDS = (QueryMetric, ListMetric, RatingMetric)
Value = TypeVar("Value")


class Wanted(NamedTuple):
    """The metrics that a caller wants of an evaluation.

    >>> wanted = Wanted(names=("ndcg@100", "hr"))
    >>> wanted.shown({"hr@5": 0.1, "hr@10": 0.2, "ndcg@10": 0.4, "ndcg@100": 0.3})
    {'hr@5': 0.1, 'hr@10': 0.2, 'ndcg@100': 0.3}
    """

    further: Metrics = NO_METRICS
    """The caller's own metrics by name, in addition to those of evaluation/metrics."""
    lengths: Sequence[int] = LENGTHS
    """The list lengths n of all metrics."""
    names: Sequence[str] = ()
    """The metrics that tables show, each with its length, or without one for all; () = all."""

    def shown(self, metrics: Mapping[str, Value]) -> dict[str, Value]:
        """Returns those of some metrics by name that tables show."""
        if not self.names:
            return dict(metrics)
        return {name: metrics[name] for name in metrics if _spelt(name) & {*self.names}}

    def missing(self, metrics: Iterable[str]) -> list[str]:
        """Returns the names that none of some metrics has."""
        there = {spelt for name in metrics for spelt in _spelt(name)}
        return [name for name in self.names if name not in there]


def _spelt(name: str) -> set[str]:
    """The ways to ask for a metric: with its list length, and without it."""
    return {name, name.partition("@")[0]}


AS_USUAL = Wanted()


def metrics_asked(asked: MetricsAsked) -> Wanted:
    """The metrics of an evaluation, from {name: metric} or a list of functions, whose names are
    theirs, and of names such as ndcg@100, in either case.

    A plain function (ranking, n) -> one value a query is a QueryMetric. Where metrics are asked for
    by name, tables have these and the caller's own alone. Raises InputError for anything else.
    """
    if isinstance(asked, str):
        asked = [asked]
    if not isinstance(asked, Mapping):
        asked = {_name_of_metric(metric): metric for metric in asked}
    own: dict[str, Metric] = {}
    names = []
    lengths = {*LENGTHS}
    for name, metric in asked.items():
        if isinstance(metric, str):
            names.append(metric.lower())
            lengths |= _length_of(names[-1])
        elif isinstance(metric, METRIC_KINDS):
            own[name] = metric
        elif callable(metric):
            own[name] = QueryMetric(metric)
        else:
            raise InputError(
                f"metrics {name}",
                f"got {type(metric).__name__}",
                expected="a function (ranking, n), or a QueryMetric",
            )
    return Wanted(own, sorted(lengths), [*names, *own] if names else ())


def goal_asked(metric: str, algorithm: Any) -> Goal:
    """The goal by which settings of an algorithm are chosen: its usual one, or that of a metric by
    name; 10 is the list length of a name without one. Raises InputError for a name that no metric
    has, and for a metric that cannot choose.

    >>> goal_asked("Recall@50", None).metric
    'recall@50'
    """
    if not metric:
        return goal_of(algorithm)
    [name] = metrics_asked(metric).names
    of_metric, _, n = name.partition("@")
    kind = metrics()[of_metric]
    if isinstance(kind, ListMetric):
        problem = f"{name} says nothing of accuracy"
        raise InputError("metric", problem, fix="choose by ndcg@10, hr@10 or another of accuracy")
    of_ratings = isinstance(kind, RatingMetric)
    if of_ratings and not predicts_ratings(algorithm):
        problem = f"{name} is of predicted ratings, and this algorithm ranks"
        raise InputError("metric", problem, fix="choose by a metric of rankings, such as ndcg@10")
    length = int(n or RANKING.length)
    return Goal(title(of_metric, kind, length), of_ratings, length, of_ratings)


def _length_of(name: str) -> set[int]:
    """The list length in the name of a metric, if it has one. Raises InputError for the name of a
    metric that no run has.
    """
    of_metric, at, n = name.partition("@")
    known = metrics()
    if of_metric not in known:
        raise InputError("metrics", f"unknown metric '{name}'", fix=did_you_mean(of_metric, known))
    if not at:
        return set()
    # A length is one that an array could have; `auc` has none, and ndcg@010 would find no column.
    is_length = n.isdecimal() and 0 < int(n) < 1 << 31
    if not is_length or title(of_metric, known[of_metric], int(n)) != name:
        expected = "a name with a length from 1, such as ndcg@100; or a name alone, such as auc"
        raise InputError("metrics", f"no metric '{name}'", expected=expected)
    return {int(n)}


def _name_of_metric(metric: Any) -> str:
    function = metric.value if isinstance(metric, METRIC_KINDS) else metric
    # A partial has no name; the function in it has one.
    if isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", metric))
