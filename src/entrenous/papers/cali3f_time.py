"""Cali3F, table III: fairness of NeuMF, and the time to within 5 % of the best NDCG@10, of FedAvg, Ditto and Cali3F."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..evaluate.goal import RANKING
from ..evaluate.significance import paired_spread
from .findings import SIGNIFICANT, still_rising, user_means
from .measures import CHANCE, CPU_SECONDS, FAIRNESS, MB_SENT, ROUNDS, STD, WORST, each, mean
from .opened import cali3f
from .pace import WITHIN, ConvergencePace, paces, reached
from .result import Row
from .study import Curves, Study, System
from .table import PaperTable, Trained, Values, metric_rows, on_test_rows
from .values import printed

RATIO = "time, x FedAvg"
FEDAVG, DITTO, CALI3F = map(System, ("fedavg-neumf", "ditto-neumf", "cali3f-neumf"))
SHARED = tuple(system._replace(shared=True) for system in (FEDAVG, DITTO))
TRIPLES = {"own": (FEDAVG, DITTO, CALI3F), "shared": (*SHARED, CALI3F)}
SYSTEMS = tuple(dict.fromkeys(system for triple in TRIPLES.values() for system in triple))
TABLE_3 = printed("cali3f", "table3")


def trained_and_timed(study: Study, systems: list[System]) -> Trained:
    """Time on validation, one after another in one run; fairness on the test rows, each at its own best round."""
    curves = study.timed_curves(systems, study.curve_seeds)
    near = {system: paces(outcomes) for system, outcomes in curves.items()}
    return replace(on_test_rows(study, systems), curves=curves, more=near)


def rows_of(trained: Trained) -> list[Row]:
    """Fairness of each system, then its time."""
    said = f"; validation NDCG@10, a look every {trained.study.budget.every} rounds"
    timed = replace(trained, rounds={}, seeds=trained.study.curve_seeds, conditions=said)
    return [*metric_rows(trained, (*FAIRNESS, "ndcg@10"), TABLE_3), *metric_rows(timed, time_of, TABLE_3)]


# ---- fairness ----------------------------------------------------------------------------------------------------------------------


def fairness_notes(trained: Trained) -> list[str]:
    """The claim: Cali3F and Ditto are fairer than FedAvg. Beside it, what chance gives at the same hit rate."""
    return [_fairer(trained, other) for other in (DITTO, CALI3F) if trained.looks[FEDAVG] and trained.looks[other]]


def _fairer(trained: Trained, other: System) -> str:
    pair = [trained.looks[system] for system in (other, FEDAVG)]
    test = paired_spread(*(user_means(looks, "ndcg@10") for looks in pair))
    fairer = "spreads less over users than" if test.difference < 0 else "spreads more over users than"
    verb = fairer if test.p < SIGNIFICANT else "cannot be told apart in spread from"
    chance = " and ".join(f"{mean(looks, STD) - mean(looks, CHANCE):+.4f}" for looks in pair)
    worst = " and ".join(f"{mean(looks, WORST):.4f}" for looks in pair)
    return (
        f"{trained.name}: the paper says that {other} is fairer than FedAvg. Here it {verb} FedAvg (std of NDCG@10 over "
        f"users, means over seeds, {test.difference:+.4f}, p = {test.p:.2g}). Above the std by chance at the same hit rate: "
        f"{chance}; AUC of the worst tenth {worst}."
    )


# ---- time --------------------------------------------------------------------------------------------------------------------------


def time_of(trained: Trained, system: System) -> Values:
    """To the first evaluation within WITHIN of the best. Cali3F's ratio beside FedAvg with Cali3F's settings is in the notes."""
    mine, fedavg = trained.more[system], trained.more[SHARED[0] if system.shared else FEDAVG]
    near = [pace.near for pace in mine]
    values = {name: each(near, name) for name in (CPU_SECONDS, ROUNDS, MB_SENT)}
    return {RATIO: ratios(mine, fedavg), **values} if mine and fedavg else values


def ratios(mine: Sequence[ConvergencePace], fedavg: Sequence[ConvergencePace]) -> list[float]:
    """Seconds over FedAvg's, seed by seed."""
    return [a.near.cpu_seconds / b.near.cpu_seconds for a, b in zip(mine, fedavg, strict=True)]


def time_notes(trained: Trained) -> list[str]:
    """Ratios of time, to one's own best and to one goal for all; and who was still rising."""
    near, said = trained.more, [_measured(trained)]
    for reading, triple in TRIPLES.items():
        if all(near[system] for system in triple):
            listed = ", ".join(f"{s} {np.mean(ratios(near[s], near[triple[0]])):.2f}" for s in triple[1:])
            with_ = "each with its own settings" if reading == "own" else "all with Cali3F's settings"
            paper = ", ".join(
                f"{who} {TABLE_3['ml-1m', s.algorithm, RATIO]:.2f}" for who, s in (("Ditto", DITTO), ("Cali3F", CALI3F))
            )
            said.append(
                f"{trained.name}, processor time to within {WITHIN:.0%} of one's best over FedAvg's, {with_}: {listed} "
                f"(paper: {paper}). {_same_goal(trained.curves, triple)}"
            )
    rising = [str(system) for system in SYSTEMS if any(pace.rising for pace in near[system])]
    return [*said, *still_rising(trained, rising)]


def _measured(trained: Trained) -> str:
    runs = dict.fromkeys(outcome.measured for outcomes in trained.curves.values() for outcome in outcomes)
    return (
        f"{trained.name}: seconds are processor seconds of the training rounds alone, one thread, the systems one after another on "
        f"one machine ({'; '.join(runs)}). The paper's seconds are of another machine: compare ratios."
    )


def _same_goal(curves: Curves, triple: Sequence[System]) -> str:
    """When each first has what is within WITHIN of FedAvg's best: a goal that is the same for all."""
    said = []
    for system in triple:
        pairs = zip(curves[system], paces(curves[triple[0]]), strict=True)
        at = [reached(outcome, (1 - WITHIN) * goal.best.metrics[RANKING.metric]) for outcome, goal in pairs]
        some = [look for look in at if look is not None]
        if len(some) < len(at):
            said.append(f"{system} never")
        else:
            rounds, seconds = (np.mean([getattr(look, name) for look in some]) for name in ("rounds", "cpu_seconds"))
            said.append(f"{system} round {rounds:.0f}, {seconds:.1f} s")
    return f"To within {WITHIN:.0%} of FedAvg's best: {', '.join(said)}."


EXPERIMENTS = {
    "cali3f-table3": PaperTable(
        title="fairness and time of FedAvg, Ditto and Cali3F over NeuMF (Cali3F, table III)",
        data=cali3f(("ml-1m", "ml-100k")),
        systems=SYSTEMS,
        train=trained_and_timed,
        printed=TABLE_3,
        rows=rows_of,
        findings=(fairness_notes, time_notes),
    )
}
