"""PEPPER as run: tables 2 to 5 by the authors' program (`pepper_program.py`) on their own split.

Each system has two rows: "best round by test rows", which is what the program reports and what the
paper prints, and "last round", which opens the test rows once. Foursquare-NYC has its figures
twice: with and without the test rows that are also training rows, which the program tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.data.dataset import divided

from .findings import tested_columns, verdict
from .opened import pepper
from .pepper_accuracy import FOURSQUARE, MOVIELENS
from .pepper_program import (
    AGE,
    HALF,
    HIT_RATIO,
    HIT_RATIO_NDCG,
    LENGTHS,
    ROWS,
    ProgramCurve,
    program_rows,
    run_program,
)
from .remember import cores
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import printed, worded

# Of the state of the program that made the paper's tables.
ROUNDS = 250
QUICK_ROUNDS = 20
METRICS = tuple(f"{metric}@{n}" for metric in ("hr", "ndcg") for n in LENGTHS)
BEST = "best round by test rows"
LAST = "last round"
WITH_REPEATS = "with the test rows that are training rows"
PRINTED = printed("pepper", "table2", "table3", "table4", "table5")


class ProgramSystem(NamedTuple):
    """A system as the program has it."""

    algorithm: str
    """Its name in the paper's tables."""
    called: str
    """Its name in this table."""
    weighing: int
    """How a received model is weighed; see `pepper_program`."""
    reptile: bool = False
    """True if Reptile's meta epochs follow the gossip."""


PEPPER = ProgramSystem("pepper-gmf", "PEPPER, HR x NDCG", HIT_RATIO_NDCG)
COMPETITORS = (
    ProgramSystem("gossip-average-gmf", "decentralised FedAvg", ROWS),
    ProgramSystem("gossip-age-gmf", "model age", AGE),
    ProgramSystem("gossip-reptile-gmf", "decentralised Reptile", ROWS, reptile=True),
)
SYSTEMS = (
    *COMPETITORS,
    ProgramSystem("pepper-gmf", "PEPPER, HR", HIT_RATIO),
    PEPPER,
    ProgramSystem("", "PEPPER's peers, half of each model", HALF),
)
Curves = dict[ProgramSystem, list[ProgramCurve]]


def run_by_program(study: Study, _: Sequence[System]) -> Trained:
    """Runs the program once for each system and seed; `Trained.more` has the curves."""
    trained = Trained(study=study, systems=[], more={})
    # A count of missing trainings trains nothing.
    if study.cells.stand_in is not None:
        return trained
    data = study.source.data
    rows = program_rows(study.part("test"), divided("pepper", data))
    asked = list(product(SYSTEMS, study.seeds))
    with ThreadPoolExecutor(cores(), thread_name_prefix="program") as pool:
        curves = pool.map(
            lambda pair: run_program(
                rows, pair[0].weighing, _rounds(study), pair[1], reptile=pair[0].reptile
            ),
            asked,
        )
        for (system, _seed), curve in zip(asked, curves, strict=True):
            trained.more.setdefault(system, []).append(curve)
    return trained


def _rounds(study: Study) -> int:
    return QUICK_ROUNDS if study.quick else ROUNDS


def rows_of(trained: Trained) -> list[Row]:
    """Returns the rows of each system: the best round by test rows beside the paper, then the last
    round; on Foursquare-NYC both once more with the test rows that are training rows.
    """
    curves: Curves = trained.more
    study = trained.study
    lines = []
    for system, runs in curves.items():
        for when, kept in ((BEST, "best"), (LAST, "last")):
            evaluations = np.stack([getattr(run, kept) for run in runs])
            without, with_repeats = np.split(evaluations.mean(axis=1), 2, axis=1)
            name = f"{system.called}, {when}"
            beside = system.algorithm if when == BEST else ""
            lines += _lines(study, name, without, beside, with_repeats=False)
            if study.source == FOURSQUARE:
                called = f"{name}, {WITH_REPEATS}"
                lines += _lines(study, called, with_repeats, beside, with_repeats=True)
    return lines


def _lines(
    study: Study, name: str, means: Float64Array, beside: str, *, with_repeats: bool
) -> list[Row]:
    """Returns a row for each metric. means: float64 [seeds, 6]. beside: the paper's system. The
    paper's figures stand where the test rows are the program's.
    """
    protocol = f"{study.name}; the authors' program, written anew; {_rounds(study)} rounds"
    programs = with_repeats or study.source != FOURSQUARE
    return [
        seed_row(
            study.name,
            name,
            metric,
            means[:, place].tolist(),
            PRINTED.get((study.name, beside, metric)) if programs else None,
            protocol,
            seeds=list(study.seeds),
        )
        for place, metric in enumerate(METRICS)
    ]


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns PEPPER against each other system, over users' means of seeds, in the round that the
    program reports and in the last one; Holm over the pairs of a metric.
    """
    curves: Curves = trained.more
    if PEPPER not in curves:
        return []
    tests = []
    for when, kept in ((BEST, "best"), (LAST, "last")):
        for place, metric in enumerate(METRICS):
            users = {
                system: np.mean([getattr(run, kept)[:, place] for run in runs], axis=0)
                for system, runs in curves.items()
            }
            pairs = [
                (f"{PEPPER.called}, {when}", f"{other.called}, {when}", users[PEPPER], users[other])
                for other in curves
                if other != PEPPER
            ]
            tests += tested_columns(trained.name, metric, pairs)
    return tests


def spread_note(trained: Trained) -> list[str]:
    """Compares PEPPER's lead in the paper and here with the spread of seeds, in HR@20."""
    curves: Curves = trained.more
    if PEPPER not in curves:
        return []
    place = METRICS.index("hr@20")
    means = {
        system: np.array([run.best[:, place].mean() for run in runs])
        for system, runs in curves.items()
    }
    best_other = max(COMPETITORS, key=lambda system: float(means[system].mean()))
    paper = [PRINTED[trained.name, system.algorithm, "hr@20"] for system in COMPETITORS]
    lead = PRINTED[trained.name, PEPPER.algorithm, "hr@20"] - max(paper)
    ours = means[PEPPER] - means[best_other]
    ranges = [float(np.ptp(values)) for values in means.values()]
    tests = [
        verdict(test)
        for test in trained.tests
        if test["metric"] == "hr@20" and test["a"].endswith(BEST)
    ]
    return [
        worded(
            "pepper",
            "as-run",
            name=trained.name,
            lead=lead,
            best=best_other.called,
            ours=float(ours.mean()),
            low=float(ours.min()),
            high=float(ours.max()),
            widest=max(ranges),
            seeds=len(ours),
            tests="; ".join(tests),
        )
    ]


EXPERIMENTS = {
    "pepper-as-run": PaperTable(
        title="PEPPER as the authors' program runs it (PEPPER, tables 2 to 5)",
        data=pepper(MOVIELENS, FOURSQUARE),
        train=run_by_program,
        metrics=METRICS,
        printed=PRINTED,
        rows=rows_of,
        tests=tests_of,
        findings=(spread_note,),
    )
}
