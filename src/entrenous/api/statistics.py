"""The statistics of a comparison: means and spreads over seeds, and tests that are paired over
users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..core.types import Float64Array
from ..evaluate.loss_win import against
from ..evaluate.ratings import ERRORS
from ..evaluate.significance import holm, interval, paired_spread, paired_t, wilcoxon
from ..runs.pipeline import RunResult
from .contestants import Judged

SPREAD = "ndcg@10"  # the metric whose standard deviation over users is fairness
OneRun: TypeAlias = RunResult | Judged
Runs: TypeAlias = Mapping[str, Sequence[OneRun]]


def row(label: str, runs: Sequence[OneRun], settings: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the table: means and standard deviations over seeds (n - 1 in the denominator; 0
    of a single seed).
    """
    by_seed = _by_name([run.metrics for run in runs])
    fair = _by_name([run.manifest["fairness"] for run in runs])
    full = [run.manifest["full_ranking"] for run in runs if run.manifest.get("full_ranking")]
    return {
        "algorithm": label,
        "settings": {
            name: value if isinstance(value, str | int | float) else str(value)
            for name, value in settings.items()
        },
        "metrics": _means(by_seed),
        "std": {name: _std(values) for name, values in by_seed.items()},
        **({"full_ranking": _means(_by_name(full))} if full else {}),
        "fairness": _means(fair),
        "fairness_std": {name: _std(values) for name, values in fair.items()},
        "per_seed": by_seed,
        "train_seconds": [run.manifest["seconds"]["train"] for run in runs],
        "model_sha256": [run.manifest["model_sha256"] for run in runs],
    }


def _by_name(metrics: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """{metric: its values, one a seed}."""
    return {name: [of_seed[name] for of_seed in metrics] for name in metrics[0]}


def _means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: float(np.mean(of_name)) for name, of_name in values.items()}


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def paired_tests(metric: str, runs: Runs, first: str) -> list[dict[str, Any]]:
    """The reference `first` against each other contestant, on `metric`, paired over users; Holm's
    correction over these tests.
    """
    tests: list[dict[str, Any]] = []
    a = per_user(metric, runs[first])
    for other in runs:
        if other == first:
            continue
        b = per_user(metric, runs[other])
        t = paired_t(a, b)
        low, high = interval(a, b)
        test = {
            "metric": metric,
            "a": first,
            "b": other,
            "difference": t.difference,
            "low": low,
            "high": high,
            "users": t.pairs,
            "t_p": t.p,
            "wilcoxon_p": wilcoxon(a, b).p,
        }
        tests.append(test)
    _correct(tests, "t_p")
    return tests


def loss_win(runs: Runs, first: str) -> dict[str, Any]:
    """The reference `first` against each other contestant over every seed, fold and error, as in
    FBALF's table 3.
    """
    errors: dict[str, list[float]] = {}
    for label, of_label in runs.items():
        folds = [fold for run in of_label for fold in run.evaluations]
        errors[label] = [fold.metrics[metric] for fold in folds for metric in ERRORS]
    compared = against(first, errors)
    return {
        "loss_win": [row._asdict() for row in compared.rows],
        "ranks": compared.ranks,
        "friedman_p": compared.p,
    }


def spread_tests(runs: Runs, first: str) -> list[dict[str, Any]]:
    """Tests of whether the standard deviation over users, of their means over seeds, is the same
    for the reference `first` and for each other contestant; none of fewer than three users.
    """
    tests: list[dict[str, Any]] = []
    a = per_user(SPREAD, runs[first])
    if len(a) < 3:
        return tests
    for other in runs:
        if other == first:
            continue
        b = per_user(SPREAD, runs[other])
        spread = paired_spread(a, b)
        test = {
            "metric": f"std_{SPREAD}",
            "a": first,
            "b": other,
            "std_a": float(a.std()),
            "std_b": float(b.std()),
            "difference": spread.difference,
            "users": spread.pairs,
            "p": spread.p,
        }
        tests.append(test)
    _correct(tests, "p")
    return tests


def _correct(tests: list[dict[str, Any]], p: str) -> None:
    for test, corrected in zip(tests, holm([test[p] for test in tests]), strict=True):
        test["holm_p"] = float(corrected)


def per_user(metric: str, runs: Sequence[OneRun]) -> Float64Array:
    """Each user's mean over seeds and folds, in the order of users; every run must have evaluated
    the same users.
    """
    folds = [fold for run in runs for fold in run.evaluations]
    users = np.unique(np.concatenate([fold.user for fold in folds]))
    total, count = np.zeros(len(users)), np.zeros(len(users))
    for fold in folds:
        # A fold evaluates each of its users once, so no place is added to twice.
        place = np.searchsorted(users, fold.user)
        total[place] += fold.per_user[metric]
        count[place] += 1
    return total / count
