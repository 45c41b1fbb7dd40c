"""Cali3F, table III: fairness of NeuMF, and the time to within 5 % of the best NDCG@10, of FedAvg, Ditto and Cali3F."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..evaluate.significance import paired_spread
from .cell import Look
from .ncf_study import Curves, NcfStudy, System, over_data
from .result import Experiment, Found, Row
from .seed_rows import SIGNIFICANT, WITHIN, Pace, fairness_mean, paces, reached, seed_rows, user_means

STD, CHANCE, WORST = "std_ndcg@10", "std_by_chance", "worst_decile_auc"
RATIO, SECONDS, ROUNDS, MEGABYTES = "time, x FedAvg", "CPU s", "rounds", "MB sent"
NAMES = ("fedavg-neumf", "ditto-neumf", "cali3f-neumf")
# printed: std, minutes, and the time over FedAvg's
TABLE = {"fedavg-neumf": (0.38, 10.6, 1.00), "ditto-neumf": (0.33, 34.5, 3.25), "cali3f-neumf": (0.33, 3.4, 0.32)}
PAPER = {
    ("ml-1m", system, metric): value
    for system, (std, minutes, ratio) in TABLE.items()
    for metric, value in ((STD, std), (SECONDS, 60 * minutes), (RATIO, ratio))
}
CALI3F = System("cali3f-neumf")
TRIPLES = {"own": tuple(map(System, NAMES)), "shared": (System(NAMES[0], True), System(NAMES[1], True), CALI3F)}
SYSTEMS = tuple(dict.fromkeys(system for triple in TRIPLES.values() for system in triple))
Reached = dict[System, list[Pace]]


def one(study: NcfStudy) -> Found:
    """Time on validation, one after another in one run; fairness on the test rows, each at its own best round."""
    curves = study.timed_curves(SYSTEMS)
    found = {system: paces(outcomes) for system, outcomes in curves.items()}
    looks, rounds = study.tested(SYSTEMS), study.rounds(SYSTEMS)
    rows = [row for system in SYSTEMS for row in _fairness(study, system, looks[system], rounds[system])]
    rows += [row for system in SYSTEMS for row in _time(study, system, found)]
    return Found(rows=rows, notes=[*_fair_notes(study, looks), *_time_notes(study, curves, found)])


# ---- fairness ----------------------------------------------------------------------------------------------------------------------


def _fairness(study: NcfStudy, system: System, looks: Sequence[Look], rounds: int) -> list[Row]:
    values = {metric: [look.fairness[metric] for look in looks] for metric in (STD, CHANCE, WORST)}
    values["ndcg@10"] = [look.metrics["ndcg@10"] for look in looks]
    said = study.protocol(system, study.seeds, rounds)
    return seed_rows(study, system, values, paper=PAPER, protocol=said, seeds=study.seeds)


def _fair_notes(study: NcfStudy, looks: Mapping[System, Sequence[Look]]) -> list[str]:
    """The claim: Cali3F and Ditto are fairer than FedAvg. Beside it, what chance gives at the same hit rate."""
    fedavg, said = System(NAMES[0]), []
    for other in (System(NAMES[1]), CALI3F):
        if looks[fedavg] and looks[other]:
            test = paired_spread(*(user_means(looks[system], "ndcg@10") for system in (other, fedavg)))
            fairer = "spreads less over users than" if test.difference < 0 else "spreads more over users than"
            verb = fairer if test.p < SIGNIFICANT else "cannot be told apart in spread from"
            chance = " and ".join(
                f"{fairness_mean(looks[s], STD) - fairness_mean(looks[s], CHANCE):+.4f}" for s in (other, fedavg)
            )
            said.append(
                f"{study.data.name}: the paper says that {other} is fairer than FedAvg. Here it {verb} FedAvg (std of NDCG@10 over "
                f"users, means over seeds, {test.difference:+.4f}, p = {test.p:.2g}). Above the std by chance at the same hit rate: "
                f"{chance}; AUC of the worst tenth {fairness_mean(looks[other], WORST):.4f} and {fairness_mean(looks[fedavg], WORST):.4f}."
            )
    return said


# ---- time --------------------------------------------------------------------------------------------------------------------------


def _time(study: NcfStudy, system: System, found: Reached) -> list[Row]:
    """To the first look within WITHIN of the best. Cali3F's ratio beside FedAvg with Cali3F's settings is in the notes."""
    mine, fedavg = found[system], found[System(NAMES[0], system.shared)]
    values: dict[str, list[float]] = {
        SECONDS: [one.near.cpu_seconds for one in mine],
        ROUNDS: [one.near.rounds for one in mine],
        MEGABYTES: [_sent(one.near) / 1e6 for one in mine],
    }
    if mine and fedavg:
        values = {RATIO: ratios(mine, fedavg), **values}
    said = study.protocol(system, study.curve_seeds) + f"; validation NDCG@10, a look every {study.budget.every} rounds"
    return seed_rows(study, system, values, paper=PAPER, protocol=said, seeds=study.curve_seeds)


def ratios(mine: Sequence[Pace], fedavg: Sequence[Pace]) -> list[float]:
    """Seconds over FedAvg's, seed by seed."""
    return [a.near.cpu_seconds / b.near.cpu_seconds for a, b in zip(mine, fedavg, strict=True)]


def _sent(look: Look) -> int:
    return look.ledger["bytes_up"] + look.ledger["bytes_down"]


def _time_notes(study: NcfStudy, curves: Curves, found: Reached) -> list[str]:
    said = [_measured(study, curves)]
    for reading, triple in TRIPLES.items():
        if all(found[system] for system in triple):
            fedavg = found[triple[0]]
            listed = ", ".join(f"{s} {np.mean(ratios(found[s], fedavg)):.2f}" for s in triple[1:])
            with_ = "each with its own settings" if reading == "own" else "all with Cali3F's settings"
            said.append(
                f"{study.data.name}, processor time to within {WITHIN:.0%} of one's best over FedAvg's, {with_}: {listed} "
                f"(paper: Ditto 3.25, Cali3F 0.32). {_same_goal(curves, triple)}"
            )
    rising = [str(system) for system in SYSTEMS if any(one.rising for one in found[system])]
    return [*said, *([f"{study.data.name}, still rising at the last look: {', '.join(rising)}."] if rising else [])]


def _measured(study: NcfStudy, curves: Curves) -> str:
    runs = dict.fromkeys(outcome.measured for outcomes in curves.values() for outcome in outcomes)
    return (
        f"{study.data.name}: seconds are processor seconds of the training rounds alone, one thread, the systems one after another on "
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
    "cali3f-table3": Experiment(
        "fairness and time of FedAvg, Ditto and Cali3F over NeuMF (Cali3F, table III)",
        PAPER,
        over_data(one, ("ml-1m", "ml-100k")),
    )
}
