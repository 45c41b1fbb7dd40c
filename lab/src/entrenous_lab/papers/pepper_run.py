"""PEPPER as run: tables 2 to 5, figure 8 and table 8 by the authors' program (`pepper_program.py`)
on their own split.

Each system has three rows: "best round by test rows", which is what the program reports and what
the paper prints; "last round", which opens the test rows once; and "last round, best models", in
which every node has taken up the best model that it had by its weighting set. Decentralised Reptile
is evaluated at the end of its meta epochs alone. Foursquare-NYC has its figures twice, of the same
trainings: with and without the test rows that are also training rows, which the program tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.types import Float64Array
from entrenous.data.dataset import published as published_by

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
    Gossip,
    ProgramCurve,
    ProgramRows,
    program_rows,
)
from .program_curves import curves_of
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
RESTORED = "last round, best models"
END = "after its meta epochs"
WITH_REPEATS = "with the test rows that are training rows"
PRINTED = printed("pepper", "table2", "table3", "table4", "table5")


# When the test rows are opened: {in words: the field of `ProgramCurve`}.
WHEN = {BEST: "best", LAST: "last", RESTORED: "restored"}
WHEN_TUNED = {END: "tuned"}


class ProgramSystem(NamedTuple):
    """A system as the program has it."""

    algorithm: str
    """Its name in the paper's tables."""
    called: str
    """Its name in this table."""
    gossip: Gossip
    """How its nodes gossip; the number of rounds is set for each study."""
    tuned: bool = False
    """True of decentralised Reptile: the gossip of decentralised FedAvg, then its meta epochs."""

    @property
    def when(self) -> dict[str, str]:
        """When its test rows are opened."""
        return WHEN_TUNED if self.tuned else WHEN

    def row(self, when: str) -> str:
        """Returns the name of its row that stands beside the rows `when` of other systems."""
        return f"{self.called}, {END if self.tuned else when}"

    def evaluation(self, curve: ProgramCurve, when: str) -> Float64Array:
        """Returns the figures of every node, float64 [nodes, 12]."""
        field = WHEN_TUNED[END] if self.tuned else WHEN[when]
        return getattr(curve, field)


# Decentralised Reptile begins where decentralised FedAvg ends: both are of one training.
AVERAGING = Gossip(ROWS, ROUNDS, reptile=True)
PEPPER = ProgramSystem("pepper-gmf", "PEPPER, HR x NDCG", Gossip(HIT_RATIO_NDCG, ROUNDS))
COMPETITORS = (
    ProgramSystem("gossip-average-gmf", "decentralised FedAvg", AVERAGING),
    ProgramSystem("gossip-age-gmf", "model age", Gossip(AGE, ROUNDS)),
    ProgramSystem("gossip-reptile-gmf", "decentralised Reptile", AVERAGING, tuned=True),
)
SYSTEMS = (
    *COMPETITORS,
    ProgramSystem("pepper-gmf", "PEPPER, HR", Gossip(HIT_RATIO, ROUNDS)),
    PEPPER,
    ProgramSystem("", "PEPPER's peers, half of each model", Gossip(HALF, ROUNDS)),
)
# On Foursquare-NYC a run takes minutes; the two that ablate PEPPER are left out there.
SYSTEMS_OF_FOURSQUARE = (*COMPETITORS, PEPPER)
Curves = dict[ProgramSystem, list[ProgramCurve]]


def run_by_program(study: Study, _: Sequence[System]) -> Trained:
    """Runs the program once for each system and seed; `Trained.more` has the curves."""
    chosen = SYSTEMS_OF_FOURSQUARE if study.source == FOURSQUARE else SYSTEMS
    return runs_of(study, chosen)


def runs_of(study: Study, systems: Sequence[ProgramSystem]) -> Trained:
    """Runs these systems; `Trained.more` is {system: the curve of each seed}."""
    curves = Curves()
    # A count of missing trainings trains nothing.
    if study.cells.stand_in is None:
        rows = rows_of_program(study)
        asked = [
            (system.gossip._replace(rounds=_rounds(study)), seed)
            for system in systems
            for seed in study.seeds
        ]
        # Two systems may share a gossip: it is run once.
        once = list(dict.fromkeys(asked))
        found = dict(zip(once, curves_of(study.cells, rows, once), strict=True))
        for n, system in enumerate(systems):
            mine = asked[n * len(study.seeds) : (n + 1) * len(study.seeds)]
            curves[system] = [found[one] for one in mine]
    return Trained(study=study, systems=[], more=curves)


def rows_of_program(study: Study) -> ProgramRows:
    """Returns the rows of a study as the program reads them."""
    given = study.source.protocol == "pepper-given"
    published = published_by("pepper", study.source.data) if given else None
    return program_rows(study.part("test"), published)


def _rounds(study: Study) -> int:
    return QUICK_ROUNDS if study.quick else ROUNDS


def rows_of(trained: Trained) -> list[Row]:
    """Returns the rows of each system: the best round by test rows beside the paper, then the last
    round; on Foursquare-NYC all once more with the test rows that are training rows.
    """
    curves: Curves = trained.more
    study = trained.study
    lines = []
    for system, runs in curves.items():
        for when in system.when:
            evaluations = np.stack([system.evaluation(run, when) for run in runs])
            without, with_repeats = np.split(evaluations.mean(axis=1), 2, axis=1)
            name = system.row(when)
            beside = system.algorithm if when in (BEST, END) else ""
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
    programs = with_repeats or study.source != FOURSQUARE
    return [
        seed_row(
            study.name,
            name,
            metric,
            means[:, place].tolist(),
            PRINTED.get((study.name, beside, metric)) if programs else None,
            protocol_of(study),
            seeds=list(study.seeds),
        )
        for place, metric in enumerate(METRICS)
    ]


def protocol_of(study: Study) -> str:
    """Returns in words how a row came about."""
    return "; ".join(
        [
            study.name,
            "the authors' program, written anew",
            f"{_rounds(study)} rounds",
            f"seeds {', '.join(map(str, study.seeds))}",
        ]
    )


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns PEPPER against each other system, over users and seeds, in the round that the
    program reports and in the last one; Holm over the pairs of a metric. On Foursquare-NYC once
    more with the test rows that are training rows.
    """
    if PEPPER not in trained.more:
        return []
    tests = []
    for when in WHEN:
        tests += _tests(trained, when, 0, "")
        if trained.study.source == FOURSQUARE:
            tests += _tests(trained, when, len(METRICS), f", {WITH_REPEATS}")
    return tests


def _tests(trained: Trained, when: str, first: int, ending: str) -> list[dict[str, Any]]:
    """Returns the tests of one moment. first: the place of the first figure in `ProgramCurve`.
    ending: of the names of rows.
    """
    curves: Curves = trained.more
    tests = []
    for place, metric in enumerate(METRICS, start=first):
        users = {
            system: np.array([system.evaluation(run, when)[:, place] for run in runs])
            for system, runs in curves.items()
        }
        pairs = [
            (
                f"{PEPPER.row(when)}{ending}",
                f"{other.row(when)}{ending}",
                users[PEPPER],
                users[other],
            )
            for other in curves
            if other != PEPPER
        ]
        tests += tested_columns(trained.name, metric, pairs)
    return tests


def spread_note(trained: Trained) -> list[str]:
    """Compares PEPPER's lead here with the spread of seeds and, where it is printed, with the
    paper's, in HR@20.
    """
    curves: Curves = trained.more
    if PEPPER not in curves:
        return []
    place = METRICS.index("hr@20")
    if trained.study.source == FOURSQUARE:
        # Beside the print stand the test rows of the program.
        place += len(METRICS)
    means = {
        system: np.array([system.evaluation(run, BEST)[:, place].mean() for run in runs])
        for system, runs in curves.items()
    }
    best_other = max(COMPETITORS, key=lambda system: float(means[system].mean()))
    ours = means[PEPPER] - means[best_other]
    lucky = max(COMPETITORS, key=lambda system: float(means[system].max()))
    ranges = [float(np.ptp(values)) for values in means.values()]
    asserted = PEPPER.row(BEST)
    if trained.study.source == FOURSQUARE:
        asserted = f"{asserted}, {WITH_REPEATS}"
    tests = [
        verdict(test)
        for test in trained.tests
        if test["metric"] == "hr@20" and test["a"] == asserted
    ]
    said = worded(
        "pepper",
        "as-run",
        name=trained.name,
        best=best_other.called,
        ours=float(ours.mean()),
        low=float(ours.min()),
        high=float(ours.max()),
        widest=max(ranges),
        seeds=len(ours),
        lucky=lucky.called,
        luck=float(means[lucky].max()),
        own=float(means[PEPPER].max()),
    )
    tested = worded("pepper", "as-run-tests", name=trained.name, tests="; ".join(tests))
    return [f"{said}{_printed_lead(trained.name)}", tested]


def _printed_lead(data: str) -> str:
    """Returns a sentence on the paper's lead in HR@20; "" for data that it does not have."""
    names = [system.algorithm for system in (PEPPER, *COMPETITORS)]
    values = [PRINTED.get((data, name, "hr@20")) for name in names]
    known = [value for value in values if value is not None]
    if len(known) < len(names):
        return ""
    pepper_value, *others = known
    return worded("pepper", "as-run-printed", lead=pepper_value - max(others))


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
