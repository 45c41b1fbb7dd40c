"""The statistics of a comparison: means and spreads over seeds, and tests that are paired over
users and seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypeVar

import numpy as np
from typing_extensions import TypedDict

from ..core.types import Float64Array
from ..core.values import SettingValue
from ..evaluation.chance import difference
from ..evaluation.significance import holm, paired_spread
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
    holds: str
    """The sources of chance that p and the interval hold: users and seeds, or users alone."""
    p: float
    holm_p: float
    """p after Holm's correction."""


class PairedDifference(ComparedPair):
    """A test that is paired over users and seeds."""

    low: float
    """Of the 95 % interval of the difference."""
    high: float


class SpreadTest(ComparedPair):
    """A test of the standard deviations over users."""

    std_a: float
    """The mean over seeds."""
    std_b: float


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
    metric: str,
    values: Mapping[str, Float64Array],
    pairs: Iterable[tuple[str, str]],
    drawn: str = "seeds",
) -> list[PairedDifference]:
    """Tests of pairs of contestants on the values of the same users; Holm's correction over these
    tests.

    values: as `by_seed` has them, or of users under one seed. drawn: what their lines are of.
    """
    tests = []
    for a, b in pairs:
        found = difference(values[a], values[b])
        low, high = found.ends
        test: PairedDifference = {
            "metric": metric,
            "a": a,
            "b": b,
            "difference": found.mean,
            "low": low,
            "high": high,
            "users": found.users,
            "holds": found.holds.replace("seeds", drawn),
            "p": found.p(),
            "holm_p": 1.0,
        }
        tests.append(test)
    return _corrected(tests)


def spread_tests(runs: Runs, first: str) -> list[SpreadTest]:
    """Tests that the standard deviation over users is the same for the reference `first` and for
    each other contestant. No tests of fewer than three users.
    """
    tests: list[SpreadTest] = []
    a = by_seed(SPREAD, runs[first])
    # The test needs three users.
    if a.shape[1] < 3:
        return tests
    for other in runs:
        if other == first:
            continue
        b = by_seed(SPREAD, runs[other])
        spread = paired_spread(a, b)
        test: SpreadTest = {
            "metric": f"std_{SPREAD}",
            "a": first,
            "b": other,
            "std_a": _std(a),
            "std_b": _std(b),
            "difference": spread.difference,
            "users": spread.users,
            "holds": spread.holds.replace("seeds", drawn_of(runs[first])),
            "p": spread.p,
            "holm_p": 1.0,
        }
        tests.append(test)
    return _corrected(tests)


def _std(values: Float64Array) -> float:
    """The standard deviation over users, the mean over seeds."""
    return float(np.nanstd(values, axis=1).mean())


def _corrected(tests: list[Pair]) -> list[Pair]:
    """The tests with Holm's correction of their p-values."""
    corrected = holm([test["p"] for test in tests]).tolist()
    for test, holm_p in zip(tests, corrected, strict=True):
        test["holm_p"] = holm_p
    return tests


def drawn_of(runs: Sequence[OneRun]) -> str:
    """The lines of `by_seed`: "folds" where one seed has several, else "seeds"."""
    return "folds" if len(runs) == 1 and len(runs[0].evaluations) > 1 else "seeds"


def by_seed(metric: str, runs: Sequence[OneRun]) -> Float64Array:
    """Each user's value under each seed, the mean over its folds; of a single seed in each of its
    folds. float64 [seeds or folds, users], in the order of users, NaN where nobody evaluated them.
    """
    lines: list[Any] = [run.evaluations for run in runs]
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
