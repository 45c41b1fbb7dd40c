"""The manifest of a run: what it was asked for, what it found, what must be known beside the
figures.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.declared import declared, is_central, is_federated, is_gossip
from ..core.registry.own import short
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..evaluate.fairness import fairness
from ..evaluate.protocol import Evaluation
from ..federation.ledger import Ledger
from ..privacy import evidence
from ..privacy.protection import PAPER
from . import store
from .options import RunPlan
from .recommenders import Algorithm, Fitted, federated


class Fold(NamedTuple):
    """The training and evaluation of one split: the fitted algorithm, its evaluation, its training
    rows, and seconds of both.
    """

    fitted: Fitted
    evaluation: Evaluation
    train: Interactions
    train_seconds: float
    evaluate_seconds: float


def opening(plan: RunPlan, rows: Interactions, by_name: bool) -> dict[str, Any]:
    """The manifest of a run before it is trained. Settings that are neither numbers nor text (a
    Choice, say) are described.
    """
    asked = asdict(plan)
    rounds = asked.pop("rounds")
    in_memory = [
        name
        for name, value in {**plan.settings, **plan.network}.items()
        if not isinstance(value, str | int | float)
    ]
    return {
        "run": None,
        "algorithm": asked.pop("algorithm"),
        "data": asked.pop("data"),
        **asked,
        "settings": _described(plan.settings),
        "network": _described(plan.network),
        "protect": _described(plan.protect),
        "data_by_name": by_name,
        "settings_in_memory": in_memory,
        "rounds_asked": rounds,
        "status": "running",
        "catalogue": rows.catalogue._asdict(),
        "data_sha256": rows.sha256(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that JSON can hold."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in settings.items()
    }


def ignored(plan: RunPlan, algorithm: Algorithm) -> list[str]:
    """Notes on options that were given and mean nothing to a centralised algorithm."""
    asked = [
        name
        for name, value in (
            ("rounds", plan.rounds),
            ("every", plan.every),
            ("patience", plan.patience),
        )
        if value
    ]
    if federated(algorithm) or not asked:
        return []
    return [
        f"{short(plan.algorithm)} is trained in one place, without rounds; ignored:"
        f" {', '.join(f'--{name}' for name in asked)}"
    ]


def between(network: Mapping[str, Any], algorithm: Algorithm, split: Split) -> list[str]:
    """Notes on the network between peers and on what they judge models by; none for an algorithm
    with a server, or a centralised one.
    """
    if not is_gossip(algorithm):
        return []
    given = ", ".join(f"{name}={value}" for name, value in network.items())
    said = [
        f"between the nodes: {given or 'all nodes push at once, and every message arrives at once'}"
    ]
    if declared(algorithm).traits.holds_out_own:
        sets = (
            "the validation rows"
            if split.weighting
            else "rows of their own that they do not train on"
        )
        said.append(f"nodes weigh the models they receive by {sets}")
    return said


def spent(privacy: Mapping[str, Any]) -> list[str]:
    """Notes on what was spent of differential privacy: by whom it holds, for what, and what it does
    not cover.
    """
    if not privacy:
        return []
    of = (
        f"epsilon {privacy['epsilon']:.3f} (PLD; {privacy['epsilon_rdp']:.3f} by RDP) at delta"
        f" {privacy['delta']:g}"
    )
    what = (
        f"{privacy['releases']} noisy sums, noise {privacy['noise_multiplier']:.3f} x clip, each"
        f" user sampled at {privacy['rate']:.3f}"
    )
    return [
        f"differential privacy of each user, for the model and all sums: {of}; {what}; figures on"
        " held-out rows are not covered"
    ]


def closing(
    parts: list[Split], folds: list[Fold], leak: list[str], said: list[str]
) -> dict[str, Any]:
    """Entries that a finished run adds to its manifest: means over folds, sums of bytes and
    seconds. leak: the first notes; said: the last ones."""
    first, ledger = folds[0], Ledger()
    for fold in folds:
        ledger = ledger.plus(fold.fitted.ledger)
    sampled = [
        fold.evaluation.full_ranking for fold in folds if fold.evaluation.full_ranking is not None
    ]
    seconds = {
        "train": sum(fold.train_seconds for fold in folds),
        "evaluate": sum(fold.evaluate_seconds for fold in folds),
    }
    return {
        "status": "finished",
        "rounds": first.fitted.rounds,
        "metrics": _mean([fold.evaluation.metrics for fold in folds]),
        **({"full_ranking": _mean(sampled)} if sampled else {}),
        **_fairness([fold.evaluation for fold in folds]),
        **({"folds": [fold.evaluation.metrics for fold in folds]} if len(folds) > 1 else {}),
        **({"privacy": dict(first.fitted.privacy)} if first.fitted.privacy else {}),
        "by_category": first.evaluation.by_category,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "bytes": {"up": ledger.bytes_up, "down": ledger.bytes_down},
        "ledger": ledger._asdict(),
        "model_sha256": store.model_sha256(first.fitted.arrays),
        "users_evaluated": len(first.evaluation.user),
        "protocol_text": [*leak, *first.evaluation.protocol],
        "notes": [
            *leak,
            *parts[0].train.notes,
            *parts[0].notes,
            *said,
            *spent(first.fitted.privacy),
        ],
    }


def _fairness(found: list[Evaluation]) -> dict[str, dict[str, float]]:
    """The spread of NDCG over users, of the ranking behind `metrics` and, where that is sampled, of
    the full ranking; means over folds.
    """
    full = [
        fairness(one.per_user_full, one.ranking).named()
        for one in found
        if one.per_user_full is not None
    ]
    own = [
        fairness(
            one.per_user, one.ranking if one.candidates_ranking is None else one.candidates_ranking
        ).named()
        for one in found
    ]
    return {"fairness": _mean(own), **({"fairness_full_ranking": _mean(full)} if full else {})}


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}


def gives_away(plan: RunPlan, algorithm: Algorithm) -> str:
    """The line for a plan, "" where something limits what leaves devices, or nothing does."""
    if plan.profile != PAPER or plan.protect or is_central(algorithm):
        return ""
    name = short(plan.algorithm)
    said = evidence.gives_away(name) or f"`entrenous audit {name}` measures what that gives away"
    limited = "; --profile private limits it" if is_federated(algorithm) else ""
    return (
        f"profile paper: each message of a device can be read by who receives it; {said}{limited}"
    )
