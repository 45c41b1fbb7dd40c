"""What validation compares: the order of a ranking, or the error of predicted ratings."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.contract.declared import predicts_ratings
from ..core.contract.protocols import Recommender
from ..data.interactions import Interactions
from ..data.split.types import Held
from .protocol import evaluate
from .ratings import rate


class Goal(NamedTuple):
    """The validation metric by which settings and numbers of rounds are chosen. lower: whether
    smaller is better.
    """

    metric: str
    lower: bool

    def key(self, metrics: dict[str, float]) -> float:
        """A sort key that puts the best first: smaller is better, whatever the metric."""
        return metrics[self.metric] if self.lower else -metrics[self.metric]


RANKING = Goal("ndcg@10", lower=False)
RATING = Goal("rmse", lower=True)
GOALS = (RANKING, RATING)


def goal_of(algorithm: Any) -> Goal:
    """The metric to choose an algorithm's settings by: RMSE if it predicts ratings, else
    NDCG@10.
    """
    return RATING if predicts_ratings(algorithm) else RANKING


def look(
    goal: Goal, recommender: Recommender, train: Interactions, held: Held, *, label: str, seed: int
) -> dict[str, float]:
    """Evaluate a recommender on validation rows: metrics by name, the goal's metric among them."""
    if goal is RATING:
        return rate(recommender, held.rows, label=label).metrics
    return evaluate(recommender, train, held, label=label, n=(10,), seed=seed).metrics
