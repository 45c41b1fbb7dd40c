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
    keys = list(runs[0].metrics)
    values = {key: [run.metrics[key] for run in runs] for key in keys}
    full, fair = (
        [run.manifest.get("full_ranking") for run in runs],
        [run.manifest["fairness"] for run in runs],
    )
    return {
        "algorithm": label,
        "settings": {
            name: value if isinstance(value, str | int | float) else str(value)
            for name, value in settings.items()
        },
        "metrics": {key: float(np.mean(values[key])) for key in keys},
        "std": {key: _std(values[key]) for key in keys},
        **(
            {
                "full_ranking": {
                    key: float(np.mean([one[key] for one in full if one])) for key in full[0]
                }
            }
            if full[0]
            else {}
        ),
        "fairness": {key: float(np.mean([one[key] for one in fair])) for key in fair[0]},
        "fairness_std": {key: _std([one[key] for one in fair]) for key in fair[0]},
        "per_seed": values,
        "train_seconds": [run.manifest["seconds"]["train"] for run in runs],
        "model_sha256": [run.manifest["model_sha256"] for run in runs],
    }


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def paired_tests(metric: str, runs: Runs, first: str) -> list[dict[str, Any]]:
    """The reference `first` against each other contestant, on `metric`, paired over users; Holm's
    correction over these tests.
    """
    others = [label for label in runs if label != first]
    found: list[dict[str, Any]] = []
    for other in others:
        a, b = per_user(metric, runs[first]), per_user(metric, runs[other])
        t, w, (low, high) = paired_t(a, b), wilcoxon(a, b), interval(a, b)
        found.append(
            {
                "metric": metric,
                "a": first,
                "b": other,
                "difference": t.difference,
                "low": low,
                "high": high,
                "users": t.pairs,
                "t_p": t.p,
                "wilcoxon_p": w.p,
            }
        )
    _correct(found, "t_p")
    return found


def loss_win(runs: Runs, first: str) -> dict[str, Any]:
    """The reference `first` against each other contestant over every seed, fold and error, as in
    FBALF's table 3.
    """
    errors = {
        name: [
            evaluation.metrics[metric]
            for one in of
            for evaluation in one.evaluations
            for metric in ERRORS
        ]
        for name, of in runs.items()
    }
    found = against(first, errors)
    return {
        "loss_win": [row._asdict() for row in found.rows],
        "ranks": found.ranks,
        "friedman_p": found.p,
    }


def spread_tests(runs: Runs, first: str) -> list[dict[str, Any]]:
    """The first algorithm against each other one: is the standard deviation over users, of their
    means over seeds, the same?
    """
    others = [label for label in runs if label != first]
    found: list[dict[str, Any]] = []
    a = per_user(SPREAD, runs[first])
    for other in others if len(a) > 2 else ():
        b = per_user(SPREAD, runs[other])
        test = paired_spread(a, b)
        of = {
            "std_a": float(a.std()),
            "std_b": float(b.std()),
            "difference": test.difference,
            "users": test.pairs,
            "p": test.p,
        }
        found.append({"metric": f"std_{SPREAD}", "a": first, "b": other, **of})
    _correct(found, "p")
    return found


def _correct(tests: list[dict[str, Any]], p: str) -> None:
    for test, corrected in zip(tests, holm([test[p] for test in tests]), strict=True):
        test["holm_p"] = float(corrected)


def per_user(metric: str, runs: Sequence[OneRun]) -> Float64Array:
    """Each user's mean over seeds and folds, in the order of users; every run must have evaluated
    the same users.
    """
    users = np.unique(
        np.concatenate([evaluation.user for one in runs for evaluation in one.evaluations])
    )
    total, count = np.zeros(len(users)), np.zeros(len(users))
    for evaluation in (evaluation for one in runs for evaluation in one.evaluations):
        where = np.searchsorted(users, evaluation.user)
        total[where] += evaluation.per_user[metric]
        count[where] += 1
    return total / count
