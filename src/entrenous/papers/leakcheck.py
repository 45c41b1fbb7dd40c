"""The leak check: a model that learns from nobody else must score like chance.

Trained on one device alone, with nothing aggregated, an item the device never saw is worth as much as any other. If the held-out
items still stand out, the experiment tells the model which they are: held-out rows in training, or negatives drawn from "not in
train, validation or test", which pushes down everything but the held-out items. Published accuracies of this field rest on that leak
(PFedRec issue 3). The model is FPL in a federation of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..algorithms.fpl import FPL
from ..core.keys import fold_name, key
from ..core.protocols import Catalogue, Progress, silent
from ..core.types import Float32Array, Float64Array, Int64Array
from ..data.interactions import Interactions
from ..evaluate.protocol import evaluate
from ..evaluate.ranking import Ranking
from ..runs.pipeline import material
from ..runs.plan import RunPlan, check
from ..runs.recommenders import check_trainable
from ..split.types import Held

SIGNIFICANT = 4.0  # standard errors from chance at which the check fails: one honest run in 16,000


@final
@dataclass(frozen=True, eq=False)
class LocalFPL:
    """FPL with nothing aggregated: each user is a federation of one. avoid: rows never drawn as negatives (honest: the training rows)."""

    fpl: FPL
    train: Interactions
    avoid: Interactions
    rounds: int
    seed: int
    progress: Progress = silent

    def scores(self, users: Int64Array) -> Float32Array:
        """float32 [len(users), items]: each user's private model, trained on the spot."""
        self.progress(int(users[-1]) + 1, len(self.train.users), "private model")
        return np.concatenate([self._one(int(user)) for user in users])

    def _one(self, user: int) -> Float32Array:
        alone = np.array([user])
        history = self.train.histories(alone, self.avoid)
        # every device starts from its own table: with a shared one, chance differences between items would repeat over users
        server = self.fpl.init_server(Catalogue(1, len(self.train.items), len(history.item)), key(self.seed, "local table", user))
        devices = self.fpl.init_devices(alone, key(self.seed, "local user"))
        rounds_key = fold_name(key(self.seed, "local rounds"), user)
        server, devices, _, _ = self.fpl.solo_rounds(server, devices, history, range(self.rounds), rounds_key)
        return self.fpl.score(server, devices, history)


def leakcheck(
    data: str | Interactions,
    protocol: str = "loo-99",
    *,
    seed: int = 0,
    rounds: int = 30,
    given: str | None = None,
    load: Mapping[str, Any] | None = None,
    leaky_negatives: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """AUC and, with candidates, HR@10 of purely local models beside chance.

    `passed`: both are within SIGNIFICANT standard errors.

    leaky_negatives: draw negatives from "not in train, validation or test", as the field's leaky samplers do, to see the check fail.
    """
    name = data if isinstance(data, str) else data.name
    plan = RunPlan(algorithm="fpl", data=name, protocol=protocol, seed=seed, rounds=rounds, given=given, load=load or {})
    check(plan)
    rows, parts = material(plan, None if isinstance(data, str) else data)
    split = parts[0]
    train = split.final_train
    check_trainable(train)
    fpl = FPL(cohort=1, triples=0, factors=20).configured(train.catalogue)
    model = LocalFPL(fpl, train, split.all_rows if leaky_negatives else train, rounds, seed, progress)
    found = evaluate(model, train, _competing(split.test, train), label="local fpl", n=(10,), seed=seed)
    ranking = found.candidates_ranking or found.ranking
    checks = [_check("auc", found.per_user["auc"], ranking, *_auc_by_chance(ranking))]
    if found.candidates_ranking is not None:
        checks.append(_check("hr@10", found.per_user["hr@10"], ranking, *_hit_by_chance(ranking)))
    return {
        "data": rows.name,
        "protocol": protocol,
        "negatives": "not in train, validation or test (leaky)" if leaky_negatives else "not in train",
        "seed": seed,
        "rounds": rounds,
        "users": len(found.user),
        "checks": checks,
        "passed": all(check["passed"] for check in checks),
        "protocol_text": list(found.protocol),
    }


def _competing(held: Held, train: Interactions) -> Held:
    """The held-out rows and candidates that training knows: the others rank last by protocol, not by chance."""
    known = train.popularity > 0
    keep = known[held.rows.item]
    if held.candidates is None:
        return held._replace(rows=held.rows.select(keep))
    return held._replace(rows=held.rows.select(keep), candidates=np.where(known[held.candidates], held.candidates, -1)[keep])


def _auc_by_chance(ranking: Ranking) -> tuple[Float64Array, Float64Array]:
    """Mean and variance of each query's AUC if all orders are alike: those of the Mann-Whitney statistic, 1/2 and (r + c + 1) / 12 r c."""
    r, c = ranking.relevant, ranking.candidates - ranking.relevant
    return np.full(len(r), 0.5), np.where(c > 0, (r + c + 1) / (12.0 * r * np.maximum(c, 1)), 0.0)


def _hit_by_chance(ranking: Ranking) -> tuple[Float64Array, Float64Array]:
    """Mean and variance of each query's HR@10 if one item is anywhere among its candidates."""
    p = np.minimum(1.0, 10 / ranking.candidates)
    return p, p * (1 - p)


def _check(metric: str, values: Float64Array, ranking: Ranking, chance: Float64Array, variance: Float64Array) -> dict[str, Any]:
    """The mean over users, that of chance, and their distance in standard errors of chance. A user's value is the mean of their queries."""
    _, user = np.unique(ranking.user, return_inverse=True)
    queries = np.bincount(user)
    expected, error = (
        (np.bincount(user, chance) / queries).mean(),
        np.sqrt((np.bincount(user, variance) / queries**2).sum()) / len(values),
    )
    z = float((values.mean() - expected) / error) if error else 0.0
    passed = bool(abs(z) < SIGNIFICANT)
    return {"metric": metric, "obtained": float(values.mean()), "chance": float(expected), "standard_errors": z, "passed": passed}
