"""The leak check: a model that learns from nobody else must score like chance.

Trained on one device alone, with nothing aggregated, an item the device never saw is worth as much
as any other. If the held-out items still stand out, the experiment tells the model which they are:
held-out rows in training, or negatives drawn from "not in train, validation or test", which pushes
down everything but the held-out items. Published accuracies of this field rest on that leak
(PFedRec issue 3). Each user is a federation of one, under any algorithm with a server; by default
FPL.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from typing_extensions import TypedDict

from ..core.contract.declared import declared
from ..core.contract.protocols import FederatedAlgorithm, Progress, silent, some_visits
from ..core.errors import InputError
from ..core.keys import fold_name, key
from ..core.keywords import called_with, values
from ..core.registry.discover import short
from ..core.types import Float32Array, Float64Array, Int64Array
from ..data.interactions import Interactions, Vocabulary
from ..data.split.types import Held
from ..evaluation.metric_kinds import Ranking
from ..evaluation.protocol import evaluate
from ..federation.rounds import Rounds
from ..systems.named import maker_of
from .options import LeakcheckTraining, RunPlan
from .pipeline import material
from .plan import check, leaky, make
from .recommenders import check_trainable, fitted

# Standard errors from chance at which the check fails, which happens to one honest run in 16,000.
SIGNIFICANT = 4.0


@final
@dataclass(frozen=True, eq=False)
class Alone:
    """Every user as a federation of one, with nobody to learn from."""

    algorithm: FederatedAlgorithm
    train: Interactions
    avoid: Interactions
    """Rows whose items are never drawn as negatives; in an honest check the training rows."""
    rounds: int
    seed: int
    progress: Progress = silent

    def scores(self, users: Int64Array) -> Float32Array:
        """Scores of every item by each user's private model, which is trained here: float32
        [len(users), items].
        """
        return np.concatenate([self._scores_of(int(user)) for user in users])

    def _scores_of(self, user: int) -> Float32Array:
        # Each user starts from another model: with a shared one, chance differences between items
        # would repeat over users.
        own_key = fold_name(key(self.seed, "alone"), user)
        # A seed has 63 bits.
        seed = int(own_key >> np.uint64(1))
        own = _rows_of(self.train, user)
        avoid = _rows_of(self.avoid, user)
        rounds = Rounds(self.algorithm, own, seed=seed, avoid=avoid)
        trained = rounds.advance(rounds.start(), self.rounds)
        self.progress(user + 1, len(self.train.users), "private model")
        return fitted(rounds, trained).recommender.scores(np.array([0]))


def _rows_of(data: Interactions, user: int) -> Interactions:
    """The rows of one user, who is then the only one; the items stay as they are."""
    low = data.ptr[user]
    high = data.ptr[user + 1]
    own = slice(low, high)
    return replace(
        data,
        ptr=np.array([0, high - low]),
        item=data.item[own],
        value=data.value[own],
        time=None if data.time is None else data.time[own],
        row=None if data.row is None else data.row[own],
        visits=some_visits(data.visits, own),
        users=Vocabulary(size=1),
        scale=data.rating_scale,
    )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class LeakcheckRequest(LeakcheckTraining):
    """Everything that a leak check takes. `data` may be rows in memory."""

    data: str | Interactions = field(default="ml-100k", kw_only=False)
    algorithm: str = "fpl"
    """The algorithm that each user trains alone, one with a server."""
    progress: Progress = silent


class ChanceCheck(TypedDict):
    """One metric of purely local models, compared with chance."""

    metric: str
    obtained: float
    chance: float
    standard_errors: float
    """The distance of both."""
    passed: bool


class LeakcheckFound(TypedDict):
    """The report of a leak check."""

    data: str
    protocol: str
    algorithm: str
    negatives: str
    seed: int
    rounds: int | None
    users: int
    checks: list[ChanceCheck]
    passed: bool
    protocol_text: list[str]


@called_with(LeakcheckRequest)
def leakcheck(asked: LeakcheckRequest) -> LeakcheckFound:
    """AUC and, with candidates, HR@10 of purely local models, compared with chance.

    `passed`: both are within SIGNIFICANT standard errors.
    """
    # Rows in memory have a name for the report alone.
    rows_given = None if isinstance(asked.data, str) else asked.data
    options = values(asked, LeakcheckTraining)
    options["data"] = asked.data if isinstance(asked.data, str) else asked.data.name
    plan = RunPlan(algorithm=asked.algorithm, **options)
    check(plan)
    _check_trains_alone(plan)
    given = material(plan, rows_given)
    split = given.parts[0]
    train = split.final_train
    check_trainable(train)
    made = _check_one_user(make(plan, given.rows), train)
    avoid = split.all_rows if leaky(plan) else train
    model = Alone(made, train, avoid, asked.rounds, plan.seed, asked.progress)
    evaluation = evaluate(
        model,
        train,
        _competing(split.test, train),
        label=f"local {short(plan.algorithm)}",
        n=(10,),
        seed=plan.seed,
    )
    ranking = evaluation.candidates_ranking or evaluation.ranking
    per_user = evaluation.per_user
    checks = [_check("auc", per_user["auc"], ranking, *_auc_by_chance(ranking))]
    # The hits of chance are those of one held-out item among its candidates.
    if evaluation.candidates_ranking is not None:
        checks.append(_check("hr@10", per_user["hr@10"], ranking, *_hit_by_chance(ranking)))
    return {
        "data": given.rows.name,
        "protocol": asked.protocol,
        "algorithm": short(plan.algorithm),
        "negatives": "not in train, validation or test (leaky)" if leaky(plan) else "not in train",
        "seed": plan.seed,
        "rounds": plan.rounds,
        "users": len(evaluation.user),
        "checks": checks,
        "passed": all(check["passed"] for check in checks),
        "protocol_text": list(evaluation.protocol),
    }


def _check_trains_alone(plan: RunPlan) -> None:
    """Refuses an algorithm without devices that could train alone."""
    kind = declared(maker_of(plan.algorithm)()).kind
    if kind != "federated":
        why = "is trained in one place" if kind == "central" else "gossips"
        fix = (
            "an algorithm with a server, whose devices can each be left alone, such as fpl or"
            " fedavg-gmf"
        )
        raise InputError("leakcheck", f"{plan.algorithm} {why}", expected=fix)


def _check_one_user(algorithm: Any, train: Interactions) -> FederatedAlgorithm:
    """The algorithm, if it can train with one user. Raises InputError with the reason if not."""
    try:
        # More clusters than users, say, cannot be formed.
        algorithm.configured(_rows_of(train, 0).catalogue)
    except InputError as bad:
        problem = f"{bad.problem}, and in this check each user trains alone"
        raise InputError(bad.where, problem, expected=bad.expected, fix=bad.fix) from None
    made: FederatedAlgorithm = algorithm
    return made


def _competing(held: Held, train: Interactions) -> Held:
    """The held-out rows and candidates whose items training knows: other items rank last by
    protocol, not by chance.
    """
    known = train.popularity > 0
    keep = known[held.rows.item]
    candidates = held.candidates
    if candidates is not None:
        # Candidates that are left out become -1, so that all rows stay equally long.
        candidates = np.where(known[candidates], candidates, -1)[keep]
    return held._replace(rows=held.rows.select(keep), candidates=candidates)


def _auc_by_chance(ranking: Ranking) -> tuple[Float64Array, Float64Array]:
    """Mean and variance of each query's AUC if all orders are equally likely: those of the
    Mann-Whitney statistic, 1/2 and (r + c + 1) / (12 r c), of r relevant and c other items.
    """
    r = ranking.relevant
    c = ranking.candidates - r
    mean = np.full(len(r), 0.5)
    variance = (r + c + 1) / (12.0 * r * np.maximum(c, 1))
    # Without another item AUC is always 1/2.
    return mean, np.where(c > 0, variance, 0.0)


def _hit_by_chance(ranking: Ranking) -> tuple[Float64Array, Float64Array]:
    """Mean and variance of each query's HR@10 if one item is anywhere among its candidates."""
    p = np.minimum(1.0, 10 / ranking.candidates)
    return p, p * (1 - p)


def _check(
    metric: str,
    values: Float64Array,
    ranking: Ranking,
    chance: Float64Array,
    variance: Float64Array,
) -> ChanceCheck:
    """The mean over users, that of chance, and their distance in standard errors of chance. A
    user's value is the mean of their queries.
    """
    _, user = np.unique(ranking.user, return_inverse=True)
    queries = np.bincount(user)
    expected_of_user = np.bincount(user, chance) / queries
    expected = expected_of_user.mean()
    # Queries are independent, so the variance of a user's mean is that of their sum / queries^2.
    variance_of_user = np.bincount(user, variance) / queries**2
    error = np.sqrt(variance_of_user.sum()) / len(values)
    obtained = values.mean()
    z = 0.0
    if error:
        z = float((obtained - expected) / error)
    return {
        "metric": metric,
        "obtained": float(obtained),
        "chance": float(expected),
        "standard_errors": z,
        "passed": bool(abs(z) < SIGNIFICANT),
    }
