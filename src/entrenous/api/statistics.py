"""The statistics of a comparison: means and spreads over seeds, and tests that are paired over
users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypeAlias, TypeVar

import numpy as np
from typing_extensions import TypedDict

from ..core.types import Float64Array
from ..core.values import SettingValue
from ..evaluation.significance import holm, interval, paired_spread, paired_t, wilcoxon
from ..runs.manifest import described
from ..runs.pipeline import RunResult
from .contestants import Judged

# The standard deviation of this metric over users is fairness.
SPREAD = "ndcg@10"
OneRun: TypeAlias = RunResult | Judged
Runs: TypeAlias = Mapping[str, Sequence[OneRun]]
Pair = TypeVar("Pair", bound="ComparedPair")


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


class ComparedPair(TypedDict):
    """The reference `a` against `b` on a metric."""

    metric: str
    a: str
    b: str
    difference: float
    users: int
    holm_p: float
    """p after Holm's correction."""


class PairedDifference(ComparedPair):
    """A test that is paired over users."""

    low: float
    """Of the 95 % interval of the difference."""
    high: float
    t_p: float
    wilcoxon_p: float


class SpreadTest(ComparedPair):
    """A test of the standard deviations over users."""

    std_a: float
    std_b: float
    p: float


def row(label: str, runs: Sequence[OneRun], settings: Mapping[str, SettingValue]) -> ComparedRow:
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


def paired_tests(
    metric: str, values: Mapping[str, Float64Array], pairs: Iterable[tuple[str, str]]
) -> list[PairedDifference]:
    """Tests of pairs of contestants on the values of the same users; Holm's correction over these
    tests.
    """
    # Users are paired, not seeds: there are far more users.
    tests = [_pair(metric, (a, b), values[a], values[b]) for a, b in pairs]
    return _corrected(tests, [test["t_p"] for test in tests])


def _pair(
    metric: str, labels: tuple[str, str], a: Float64Array, b: Float64Array
) -> PairedDifference:
    """The tests of two contestants on one metric, paired over users; p not corrected yet."""
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
        "holm_p": t.p,
    }


def spread_tests(runs: Runs, first: str) -> list[SpreadTest]:
    """Tests that the standard deviation over users is the same for the reference `first` and for
    each other contestant. A user's value is their mean over seeds. No tests of fewer than three
    users.
    """
    tests: list[SpreadTest] = []
    a = per_user(SPREAD, runs[first])
    # The test needs three users.
    if len(a) < 3:
        return tests
    for other in runs:
        if other == first:
            continue
        b = per_user(SPREAD, runs[other])
        spread = paired_spread(a, b)
        test: SpreadTest = {
            "metric": f"std_{SPREAD}",
            "a": first,
            "b": other,
            "std_a": float(a.std()),
            "std_b": float(b.std()),
            "difference": spread.difference,
            "users": spread.pairs,
            "p": spread.p,
            "holm_p": spread.p,
        }
        tests.append(test)
    return _corrected(tests, [test["p"] for test in tests])


def _corrected(tests: list[Pair], p: Sequence[float]) -> list[Pair]:
    """The tests with Holm's correction of their p-values."""
    for test, holm_p in zip(tests, holm(p).tolist(), strict=True):
        test["holm_p"] = holm_p
    return tests


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
