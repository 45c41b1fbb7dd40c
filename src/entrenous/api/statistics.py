"""The statistics of a comparison: means and spreads over seeds, and tests that are paired over
users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from ..core.types import Float64Array
from ..evaluation.loss_win import against
from ..evaluation.ratings import ERRORS
from ..evaluation.significance import holm, interval, paired_spread, paired_t, wilcoxon
from ..runs.manifest import described
from ..runs.pipeline import RunResult
from .contestants import Judged

# The standard deviation of this metric over users is fairness.
SPREAD = "ndcg@10"
OneRun: TypeAlias = RunResult | Judged
Runs: TypeAlias = Mapping[str, Sequence[OneRun]]


def row(label: str, runs: Sequence[OneRun], settings: Mapping[str, Any]) -> dict[str, Any]:
    """One line of the table: means and standard deviations over seeds (n - 1 in the denominator; 0
    of a single seed).
    """
    manifests = [run.manifest for run in runs]
    by_seed = _by_name([run.metrics for run in runs])
    fair = _by_name([manifest["fairness"] for manifest in manifests])
    line: dict[str, Any] = {
        "algorithm": label,
        "settings": described(settings),
        "metrics": _means(by_seed),
        "std": _stds(by_seed),
    }
    # Only a sampled protocol has the full ranking apart.
    full = [manifest["full_ranking"] for manifest in manifests if manifest.get("full_ranking")]
    if full:
        line["full_ranking"] = _means(_by_name(full))
    line["fairness"] = _means(fair)
    line["fairness_std"] = _stds(fair)
    line["per_seed"] = by_seed
    line["train_seconds"] = [manifest["seconds"]["train"] for manifest in manifests]
    line["model_sha256"] = [manifest["model_sha256"] for manifest in manifests]
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


def paired_tests(metric: str, runs: Runs, first: str) -> list[dict[str, Any]]:
    """The reference `first` against each other contestant, on `metric`, paired over users; Holm's
    correction over these tests.
    """
    # Users are paired, not seeds: there are far more users.
    a = per_user(metric, runs[first])
    tests = [
        _pair(metric, (first, other), a, per_user(metric, runs[other]))
        for other in runs
        if other != first
    ]
    _correct(tests, "t_p")
    return tests


def tests_of_all_pairs(metric: str, values: Mapping[str, Float64Array]) -> list[dict[str, Any]]:
    """Each contestant against each later one, on the values of the same users; Holm's correction
    over these tests.
    """
    tests = [_pair(metric, (a, b), values[a], values[b]) for a, b in combinations(values, 2)]
    _correct(tests, "t_p")
    return tests


def _pair(metric: str, labels: tuple[str, str], a: Float64Array, b: Float64Array) -> dict[str, Any]:
    """The tests of two contestants on one metric, paired over users."""
    t = paired_t(a, b)
    low, high = interval(a, b)
    return {
        "metric": metric,
        "a": labels[0],
        "b": labels[1],
        "difference": t.difference,
        "low": low,
        "high": high,
        "users": t.pairs,
        "t_p": t.p,
        "wilcoxon_p": wilcoxon(a, b).p,
    }


def loss_win(runs: Runs, first: str) -> dict[str, Any]:
    """The reference `first` against each other contestant over every seed, fold and error, as in
    FBALF's table 3.
    """
    # A cell is one error of one fold of one seed.
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
    """Tests that the standard deviation over users is the same for the reference `first` and for
    each other contestant. A user's value is their mean over seeds. No tests of fewer than three
    users.
    """
    tests: list[dict[str, Any]] = []
    a = per_user(SPREAD, runs[first])
    # The test needs three users.
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
    """Adds Holm's correction of the p-values that the tests have by the name `p`."""
    corrected = holm([test[p] for test in tests]).tolist()
    for test, holm_p in zip(tests, corrected, strict=True):
        test["holm_p"] = holm_p


def per_user(metric: str, runs: Sequence[OneRun]) -> Float64Array:
    """Each user's mean over seeds and folds, in the order of users; every run must have evaluated
    the same users.
    """
    folds = [fold for run in runs for fold in run.evaluations]
    users = np.unique(np.concatenate([fold.user for fold in folds]))
    total = np.zeros(len(users))
    count = np.zeros(len(users))
    for fold in folds:
        # A fold evaluates each of its users once, so no place is added to twice.
        place = np.searchsorted(users, fold.user)
        total[place] += fold.per_user[metric]
        count[place] += 1
    return total / count
