"""The lines of a comparison: means and spreads over seeds, and the values that tests take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias

import numpy as np
from typing_extensions import TypedDict

from ..core.types import Float64Array
from ..core.values import SettingValue
from ..runs.manifest import described
from .run import Run

Runs: TypeAlias = Mapping[str, Sequence[Run[Any]]]


class ComparedRow(TypedDict):
    """One line of a comparison. Metrics are means over seeds."""

    algorithm: str
    """The label."""
    settings: dict[str, SettingValue]
    metrics: dict[str, float]
    std: dict[str, float]
    """The sample standard deviation of each metric over seeds."""
    full_ranking: NotRequired[dict[str, float]]
    """Metrics of the full ranking, where the protocol samples candidates."""
    fairness: dict[str, float]
    fairness_std: dict[str, float]
    per_seed: dict[str, list[float]]
    train_seconds: list[float]
    model_sha256: list[str]


def row(label: str, runs: Sequence[Run[Any]], settings: Mapping[str, SettingValue]) -> ComparedRow:
    """One line of the table: means and standard deviations over seeds (n - 1 in the denominator; 0
    of a single seed).
    """
    manifests = [run.manifest for run in runs]
    by_seed = _by_name([run.metrics for run in runs])
    fair = _by_name([manifest["fairness"] for manifest in manifests])
    line: ComparedRow = {
        "algorithm": label,
        "settings": described(settings),
        "metrics": _means(by_seed),
        "std": _stds(by_seed),
        "fairness": _means(fair),
        "fairness_std": _stds(fair),
        "per_seed": by_seed,
        "train_seconds": [manifest["seconds"]["train"] for manifest in manifests],
        "model_sha256": [manifest["model_sha256"] for manifest in manifests],
    }
    # Only a sampled protocol has the full ranking apart.
    full = [manifest["full_ranking"] for manifest in manifests if manifest.get("full_ranking")]
    if full:
        line["full_ranking"] = _means(_by_name(full))
    return line


def _by_name(metrics: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """{metric: its values, one a seed}."""
    return {name: [of_seed[name] for of_seed in metrics] for name in metrics[0]}


def _means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: float(np.mean(of_name)) for name, of_name in values.items()}


def _stds(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The sample standard deviation of each metric over seeds; 0 of a single seed."""
    return {
        name: float(np.std(of_name, ddof=1)) if len(of_name) > 1 else 0.0
        for name, of_name in values.items()
    }


def drawn_of(runs: Sequence[Run[Any]]) -> str:
    """The lines of `by_seed`: "folds" where one seed has several, else "seeds"."""
    return "folds" if len(runs) == 1 and len(runs[0].folds) > 1 else "seeds"


def by_seed(metric: str, runs: Sequence[Run[Any]]) -> Float64Array:
    """Each user's value under each seed, the mean over its folds; of a single seed in each of its
    folds. float64 [seeds or folds, users], in the order of users, NaN where nobody evaluated them.
    """
    lines: list[Any] = [run.folds for run in runs]
    if len(lines) == 1:
        lines = [(fold,) for fold in lines[0]]
    users = np.unique(np.concatenate([fold.user for folds in lines for fold in folds]))
    total = np.zeros((len(lines), len(users)))
    count = np.zeros_like(total)
    for line, folds in enumerate(lines):
        for fold in folds:
            # A fold evaluates each of its users once, so no place is added to twice.
            place = np.searchsorted(users, fold.user)
            total[line, place] += fold.per_user[metric]
            count[line, place] += 1
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
