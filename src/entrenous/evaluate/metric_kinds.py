"""What a metric is. A file in `metrics/` offers METRICS = {name: QueryMetric | ListMetric |
RatingMetric}; adding it is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..core.registry.discover import offers, with_plugins
from ..core.types import Float64Array, Int64Array
from .ranking import Lists, Ranking


class QueryMetric(NamedTuple):
    """An accuracy metric: (ranking, n) -> one value per query, float64 [q], in 0..1, higher is
    better.

    cutoff: whether it looks at the first n places only; else n is ignored and the metric appears
    once, without `@n`.
    """

    value: Callable[[Ranking, int], Float64Array]
    cutoff: bool = True


class ListMetric(NamedTuple):
    """A metric of all lists together: (lists, n) -> one number, or one per category; None if the
    data cannot tell.

    better: "higher" or "lower", or "" where neither is.
    """

    value: Callable[[Lists, int], float | dict[str, float] | None]
    better: str = ""


class RatingMetric(NamedTuple):
    """A metric of predicted ratings, lower is better: (errors predicted - true [n], group [n]) ->
    one value per group, float64 [groups].
    """

    value: Callable[[Float64Array, Int64Array], Float64Array]


ARROWS = {"higher": "↑", "lower": "↓"}
Metric: TypeAlias = QueryMetric | ListMetric | RatingMetric


def metrics() -> dict[str, Metric]:
    """Every metric by name, discovered in evaluate/metrics and in installed packages
    (`entrenous.metrics`).
    """
    return with_plugins("metrics", offers("entrenous.evaluate.metrics", "METRICS"))


def title(name: str, metric: Metric, n: int) -> str:
    """`ndcg@10`, or `auc` for a metric without a cutoff."""
    return (
        f"{name}@{n}"
        if isinstance(metric, ListMetric) or (isinstance(metric, QueryMetric) and metric.cutoff)
        else name
    )


def arrowed(name: str) -> str:
    """The title of a metric as a table shows it, with an arrow that says whether high or low is
    better. Other titles stay as they are.

    >>> arrowed("ndcg@10"), arrowed("rmse"), arrowed("gini@10"), arrowed("rounds")
    ('ndcg@10 ↑', 'rmse ↓', 'gini@10 ↑', 'rounds')
    """
    metric = metrics().get(name.removeprefix("worst_decile_").partition("@")[0])
    better = {QueryMetric: "higher", RatingMetric: "lower"}.get(
        type(metric), getattr(metric, "better", "")
    )
    return f"{name} {ARROWS[better]}" if better else name
