"""PEPPER as run: figure 8 and table 8 by the authors' program (`pepper_program.py`): what alpha and
the number of peers do, and after how many rounds the nodes have converged.

The paper does not say when a node has converged. Here: in the first round in which HR@20 on its
test rows is within 5 % of its best of all rounds, of which the program's last one is that of
restored models. The mean that the paper prints, 283 rounds, is more than the 250 that the program
is set to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entrenous.core.types import Float64Array

from .findings import tested_columns
from .measures import WITHIN
from .opened import pepper
from .pepper_accuracy import MOVIELENS
from .pepper_program import AGE, ProgramCurve
from .pepper_run import (
    BEST,
    LAST,
    METRICS,
    PEPPER,
    ProgramSystem,
    protocol_of,
    runs_of,
)
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import printed

BASE = PEPPER.gossip
USUAL = ProgramSystem("pepper-gmf, alpha 0.4", "PEPPER, alpha 0.4, three peers", BASE)
EXPLOITING = ProgramSystem("pepper-gmf, alpha 0", "PEPPER, alpha 0", BASE._replace(alpha=0.0))
EXPLORING = ProgramSystem("pepper-gmf, alpha 1", "PEPPER, alpha 1", BASE._replace(alpha=1.0))
WIDE = ProgramSystem("pepper-gmf, view 6", "PEPPER, six peers", BASE._replace(view_size=6))
BY_AGE = ProgramSystem("gossip-age-gmf", "model age", BASE._replace(weighing=AGE))
SYSTEMS = (USUAL, EXPLOITING, EXPLORING, WIDE, BY_AGE)
HIT_RATIO = "hr@20"
ROUNDS_TO_CONVERGE = "rounds"
PRINTED = printed("pepper", "table8", "fig8", "fig9")
# Table 8 prints the figures of the usual view.
PRINTED_AS = {"pepper-gmf, alpha 0.4": "pepper-gmf, view 3"}


def run_views(study: Study, _: Sequence[System]) -> Trained:
    """Runs the program once for each choice and seed; `Trained.more` has the curves."""
    return runs_of(study, SYSTEMS)


def rounds_to_converge(curve: ProgramCurve) -> Float64Array:
    """Returns the number of rounds after which each node has converged, float64 [nodes]."""
    near = curve.node_hits >= (1 - WITHIN) * curve.node_hits.max(axis=0)
    return np.argmax(near, axis=0) + 1.0


def rows_of(trained: Trained) -> list[Row]:
    """Returns HR@20 of each choice, in the best round by test rows and in the last one, and its
    rounds until convergence.
    """
    lines = []
    for system, runs in trained.more.items():
        for when in (BEST, LAST):
            hits = [_hits(system, run, when).mean() for run in runs]
            beside = system.algorithm if when == BEST else ""
            lines.append(_row(trained, system, f"{HIT_RATIO}, {when}", HIT_RATIO, hits, beside))
        rounds = [rounds_to_converge(run).mean() for run in runs]
        metric = ROUNDS_TO_CONVERGE
        lines.append(_row(trained, system, metric, metric, rounds, system.algorithm))
    return lines


def _hits(system: ProgramSystem, curve: ProgramCurve, when: str) -> Float64Array:
    """Returns HR@20 of every node."""
    return system.evaluation(curve, when)[:, METRICS.index(HIT_RATIO)]


def _row(
    trained: Trained,
    system: ProgramSystem,
    metric: str,
    printed_metric: str,
    values: Sequence[float],
    beside: str,
) -> Row:
    study = trained.study
    row_printed = PRINTED.get((study.name, PRINTED_AS.get(beside, beside), printed_metric))
    return seed_row(
        study.name,
        system.called,
        metric,
        values,
        row_printed,
        protocol_of(study),
        seeds=list(study.seeds),
    )


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns alpha 0.4 and three peers against each other choice, over users and seeds."""
    curves: dict[ProgramSystem, list[ProgramCurve]] = trained.more
    if USUAL not in curves:
        return []
    tests = []
    for when in (BEST, LAST):
        users = {
            system: np.array([_hits(system, run, when) for run in runs])
            for system, runs in curves.items()
        }
        tests += tested_columns(trained.name, f"{HIT_RATIO}, {when}", _pairs(users))
    rounds = {
        system: np.array([rounds_to_converge(run) for run in runs])
        for system, runs in curves.items()
    }
    return tests + tested_columns(trained.name, ROUNDS_TO_CONVERGE, _pairs(rounds))


def _pairs(
    users: dict[ProgramSystem, Float64Array],
) -> list[tuple[str, str, Float64Array, Float64Array]]:
    return [
        (USUAL.called, other.called, users[USUAL], users[other])
        for other in users
        if other != USUAL
    ]


def notes_of(trained: Trained) -> list[str]:
    """Returns a sentence on the rounds that the rows are of."""
    return [
        "The best round is chosen by test rows, as the authors' program reports it; the last round"
        " is chosen by nothing."
    ]


EXPERIMENTS = {
    "pepper-as-run-views": PaperTable(
        title="Alpha and the number of peers as the authors' program runs them (PEPPER, figure 8"
        " and table 8)",
        data=pepper(MOVIELENS),
        train=run_views,
        printed=PRINTED,
        rows=rows_of,
        tests=tests_of,
        findings=(notes_of,),
    )
}
