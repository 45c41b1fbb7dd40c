"""Choosing settings on validation rows. The test rows are never opened here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from .core.errors import InputError, at_least
from .core.protocols import FederatedAlgorithm, Progress, silent
from .data.interactions import Interactions
from .evaluate.protocol import evaluate
from .federation.executors import Threads
from .fit import check_trainable, fit_central
from .plan import Plan, check, make, material
from .split.types import Split
from .training import SELECT_BY, Watch, train

SHOWN = ("hr@10", "ndcg@10")


def tune(
    algorithm: str,
    data: str | Interactions = "ml-100k",
    *,
    protocol: str = "loo-99",
    grid: Mapping[str, Sequence[str]],
    seeds: int = 1,
    rounds: int | None = None,
    every: int = 0,
    load: Mapping[str, Any] | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Every combination of `grid` over seeds 0 .. seeds - 1, best SELECT_BY on validation first.

    every: rounds between looks at validation, so that the number of rounds is chosen too (0 = at the end of training alone).
    Returns {"rows": [{"settings", "rounds", "validation": {metric: mean over seeds}}], "selected_by", ...}.
    """
    name = data if isinstance(data, str) else data.name
    if not grid or not all(grid.values()):
        raise InputError(
            "--grid", "there is nothing to choose from", expected="name=value,value,...", fix="for example --grid factors=20,50"
        )
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    for option, value, least in (("--seeds", seeds, 1), ("--every", every, 0), ("--threads", threads, 0)):
        at_least(option, value, least)
    for settings in combinations:  # all of them before any is trained
        check(Plan(algorithm=algorithm, protocol=protocol, rounds=rounds, settings=settings, load=load or {}))
    looks: list[list[dict[int, dict[str, float]]]] = []
    for seed in range(seeds):
        base = Plan(algorithm=algorithm, data=name, protocol=protocol, seed=seed, rounds=rounds, load=load or {})
        what = material(base, None if isinstance(data, str) else data)
        split = what.parts[0]
        looks.append([])
        for number, settings in enumerate(combinations):
            progress(seed * len(combinations) + number, seeds * len(combinations), algorithm)
            plan = Plan(algorithm=algorithm, data=name, protocol=protocol, seed=seed, rounds=rounds, settings=settings)
            looks[-1].append(_looks(plan, make(plan, what.rows), split, every, threads))
    progress(seeds * len(combinations), seeds * len(combinations), "done")
    rows: list[dict[str, Any]] = [
        {"settings": settings, "rounds": at, "validation": _mean([of_seed[number][at] for of_seed in looks])}
        for number, settings in enumerate(combinations)
        for at in looks[0][number]
    ]
    rows.sort(key=lambda row: -row["validation"][SELECT_BY])
    return {
        "algorithm": algorithm,
        "data": name,
        "protocol": protocol,
        "seeds": seeds,
        "selected_by": f"validation {SELECT_BY}",
        "rows": rows,
    }


def _looks(plan: Plan, algorithm: Any, split: Split, every: int, threads: int) -> dict[int, dict[str, float]]:
    """Validation metrics by round of one training on the training rows alone."""
    if split.validation is None:
        raise InputError(
            f"protocol {split.name}", "there are no validation rows to choose on", fix="use a protocol that holds some out"
        )
    check_trainable(split.train)
    if not isinstance(algorithm, FederatedAlgorithm):
        model = fit_central(algorithm, split.train, plan.seed)
        found = evaluate(model.recommender, split.train, split.validation, label=plan.algorithm, n=(10,), seed=plan.seed)
        return {0: found.metrics}
    until = plan.rounds or algorithm.default_rounds(split.train.catalogue)
    trace: list[dict[str, Any]] = []
    watch = Watch(every=every or until, executor=Threads(threads))
    train(
        algorithm, split.train, until, label=plan.algorithm, seed=plan.seed, validation=split.validation, watch=watch, trace=trace
    )
    return {line["round"]: line["validation"] for line in trace}


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}
