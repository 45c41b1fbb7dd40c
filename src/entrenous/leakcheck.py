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

from .algorithms.fpl import FPL
from .core.keys import fold_name, key
from .core.protocols import Catalogue, Histories, Progress, silent
from .core.types import Float32Array, Int64Array
from .data.interactions import Interactions
from .evaluate.protocol import evaluate
from .plan import Plan, material

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
        mine, avoid = self.train.histories(alone), self.avoid.histories(alone)
        history = Histories(mine.ptr, mine.item, mine.value, avoid.ptr, avoid.item)
        # every device starts from its own table: with a shared one, chance differences between items would repeat over users
        server = self.fpl.init_server(Catalogue(1, len(self.train.items), len(mine.item)), key(self.seed, "local table", user))
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
    plan = Plan(algorithm="fpl", data=name, protocol=protocol, seed=seed, given=given, load=load or {})
    rows, parts = material(plan, None if isinstance(data, str) else data)
    split = parts[0]
    train = split.final_train
    avoid = split.all_rows if leaky_negatives else train
    fpl = FPL(cohort=1, triples=0, factors=20).configured(train.catalogue)
    model = LocalFPL(fpl, train, avoid, rounds, seed, progress)
    found = evaluate(model, train, split.test, label="local fpl", n=(10,), seed=seed)
    checks = [_against_chance("auc", found.per_user["auc"], 0.5)]
    if split.test.candidates is not None:
        among = 1 + split.test.candidates.shape[1]
        checks.append(_against_chance("hr@10", found.per_user["hr@10"], min(1.0, 10 / among)))
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


def _against_chance(metric: str, values: np.ndarray, chance: float) -> dict[str, Any]:
    """The mean over users, chance, and their distance in standard errors of the mean."""
    mean = float(values.mean())
    error = max(float(values.std(ddof=1)) / np.sqrt(len(values)), 1e-12) if len(values) > 1 else 1.0
    z = float((mean - chance) / error)
    return {"metric": metric, "obtained": mean, "chance": chance, "standard_errors": z, "passed": bool(abs(z) < SIGNIFICANT)}
