"""Several algorithms over several seeds on one protocol, compared user by user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError, at_least
from ..core.protocols import Progress, silent
from ..core.types import Float64Array
from ..data.interactions import Interactions
from ..data.load import load as read
from ..data.options import load_arguments
from ..evaluate.loss_win import against
from ..evaluate.ratings import ERRORS
from ..evaluate.significance import holm, paired_spread, paired_t, wilcoxon
from ..federation.executors import Threads
from ..runs.pipeline import Run, run
from ..runs.plan import RunPlan, check, make, usual_protocol
from ..split.protocol import GIVEN

TESTED = ("hr@10", "ndcg@10")
SPREAD = "ndcg@10"  # the metric whose standard deviation over users is fairness


def compare(
    algorithms: Sequence[str],
    data: str | Interactions = "ml-100k",
    *,
    protocol: str | None = None,
    seeds: int = 5,
    rounds: int | None = None,
    given: str | None = None,
    load: Mapping[str, Any] | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Runs every algorithm with seeds 0 .. seeds - 1 and its default settings.

    rows: mean and sample standard deviation over seeds, and each seed's metrics. tests: the first algorithm against each other one, paired
    over users, each user's value being their mean over seeds; Holm's correction over all tests of one metric.
    loss_win: where all predict ratings, the first against each other one over all cells of seed, fold and ERRORS, as in FBALF's table 3;
    ranks: the mean rank of each algorithm over the cells. protocol: None = the usual one.
    fairness_tests: the same pairs, on the standard deviation of NDCG@10 over users; none of fewer than three users.
    rounds: of those that train in rounds. given: the folder of a given split, for the protocol `given` (default: `data`).
    """
    if len(set(algorithms)) < 2 or len(set(algorithms)) != len(algorithms):
        raise InputError("entrenous compare", f"got {list(algorithms)}", expected="two or more different algorithms")
    at_least("--seeds", seeds, 1)
    Threads(threads)
    protocol = protocol or usual_protocol(data, *algorithms)
    for name in algorithms:  # all of them before any is trained
        check(RunPlan(algorithm=name, protocol=protocol, rounds=rounds, given=given, load=load or {}))
    if isinstance(data, str) and protocol == GIVEN:
        data, given = given or data, None
    by_folder = isinstance(data, str) and protocol == GIVEN  # each run reads a split in files
    rows = data if by_folder or not isinstance(data, str) else read(data, **load_arguments(load or {}))
    if isinstance(rows, Interactions):
        for name in algorithms:
            make(RunPlan(algorithm=name), rows)
    runs: dict[str, list[Run]] = {}
    for number, name in enumerate(algorithms):
        runs[name] = []
        for seed in range(seeds):
            progress(number * seeds + seed, len(algorithms) * seeds, name)
            runs[name].append(run(name, rows, protocol=protocol, seed=seed, rounds=rounds, given=given, threads=threads))
    progress(len(algorithms) * seeds, len(algorithms) * seeds, "done")
    rated = all(set(ERRORS) <= of[0].metrics.keys() for of in runs.values())
    return {
        "data": data if isinstance(data, str) else data.name,
        "protocol": protocol,
        "seeds": seeds,
        "rows": [_row(name, runs[name]) for name in algorithms],
        "tests": [test for metric in (ERRORS if rated else TESTED) for test in _tests(metric, runs)],
        **(_loss_win(runs) if rated else {}),
        "fairness_tests": _spread_tests(runs),
        "protocol_text": runs[algorithms[0]][0].manifest["protocol_text"],
        "notes": list(dict.fromkeys(note for name in algorithms for note in runs[name][0].manifest["notes"])),
    }


def _row(name: str, runs: list[Run]) -> dict[str, Any]:
    keys = list(runs[0].metrics)
    values = {key: [run.metrics[key] for run in runs] for key in keys}
    full, fair = [run.manifest.get("full_ranking") for run in runs], [run.manifest["fairness"] for run in runs]
    return {
        "algorithm": name,
        "metrics": {key: float(np.mean(values[key])) for key in keys},
        "std": {key: _spread(values[key]) for key in keys},
        **({"full_ranking": {key: float(np.mean([one[key] for one in full if one])) for key in full[0]}} if full[0] else {}),
        "fairness": {key: float(np.mean([one[key] for one in fair])) for key in fair[0]},
        "fairness_std": {key: _spread([one[key] for one in fair]) for key in fair[0]},
        "per_seed": values,
        "train_seconds": [run.manifest["seconds"]["train"] for run in runs],
        "model_sha256": [run.manifest["model_sha256"] for run in runs],
    }


def _spread(values: Sequence[float]) -> float:
    """The sample standard deviation over seeds (ddof 1); 0 for one seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _tests(metric: str, runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """The first algorithm against each other one, on `metric`."""
    first, *others = runs
    found: list[dict[str, Any]] = []
    for other in others:
        a, b = _per_user(metric, runs[first]), _per_user(metric, runs[other])
        t, w = paired_t(a, b), wilcoxon(a, b)
        found.append(
            {
                "metric": metric,
                "a": first,
                "b": other,
                "difference": t.difference,
                "users": t.pairs,
                "t_p": t.p,
                "wilcoxon_p": w.p,
            }
        )
    _correct(found, "t_p")
    return found


def _loss_win(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """The first algorithm against each other one over every seed, fold and error."""
    errors = {
        name: [evaluation.metrics[metric] for one in of for evaluation in one.evaluations for metric in ERRORS]
        for name, of in runs.items()
    }
    found = against(next(iter(runs)), errors)
    return {"loss_win": [row._asdict() for row in found.rows], "ranks": found.ranks, "friedman_p": found.p}


def _spread_tests(runs: dict[str, list[Run]]) -> list[dict[str, Any]]:
    """The first algorithm against each other one: is the standard deviation over users, of their means over seeds, the same?"""
    first, *others = runs
    found: list[dict[str, Any]] = []
    a = _per_user(SPREAD, runs[first])
    for other in others if len(a) > 2 else ():
        b = _per_user(SPREAD, runs[other])
        test = paired_spread(a, b)
        of = {"std_a": float(a.std()), "std_b": float(b.std()), "difference": test.difference, "users": test.pairs, "p": test.p}
        found.append({"metric": f"std_{SPREAD}", "a": first, "b": other, **of})
    _correct(found, "p")
    return found


def _correct(tests: list[dict[str, Any]], p: str) -> None:
    for test, corrected in zip(tests, holm([test[p] for test in tests]), strict=True):
        test["holm_p"] = float(corrected)


def _per_user(metric: str, runs: list[Run]) -> Float64Array:
    """Each user's mean over seeds and folds, in the order of users; every run must have evaluated the same users."""
    users = np.unique(np.concatenate([evaluation.user for one in runs for evaluation in one.evaluations]))
    total, count = np.zeros(len(users)), np.zeros(len(users))
    for evaluation in (evaluation for one in runs for evaluation in one.evaluations):
        where = np.searchsorted(users, evaluation.user)
        total[where] += evaluation.per_user[metric]
        count[where] += 1
    return total / count
