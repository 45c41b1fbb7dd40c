"""Cali3F over rounds. Figure 3: NDCG@10 on validation, Cali3F against FedAvg; the paper's curves
are a drawing.

Table III: fairness of NeuMF, and the time to within 5 % of the best NDCG@10, of FedAvg, Ditto and
Cali3F.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from entrenous.evaluation.protocol import RANKING
from entrenous.evaluation.significance import paired_spread
from entrenous.report.figures import FigureFormat, lines

from .findings import SIGNIFICANT, still_rising, users_of
from .measures import (
    CHANCE,
    CPU_SECONDS,
    FAIRNESS,
    MB_SENT,
    ROUNDS,
    STD,
    WITHIN,
    WORST,
    ConvergencePace,
    each,
    mean,
    near_round,
    paces,
    reached,
)
from .opened import cali3f
from .result import Row
from .study import Curves, Study, System, mean_curve
from .table import PaperTable, Trained, Values, metric_rows, on_test_rows
from .values import listed, printed, worded

# ---- figure 3 ------------------------------------------------------------------------------------

MODELS = {"gmf": "GMF", "mlp": "MLP", "neumf": "NeuMF"}
BEST, AT, NEAR, OMITTED = "best ndcg@10", "best round", "round within 5 %", "rounds omitted"
FIGURE_3 = printed("cali3f", "fig3")


def three(model: str) -> tuple[System, System, System]:
    """Cali3F; FedAvg with its settings, so that both start alike and have as many devices a round;
    FedAvg with its own.
    """
    return (
        System(f"cali3f-{model}"),
        System(f"fedavg-{model}", shared=True),
        System(f"fedavg-{model}"),
    )


def on_curves(study: Study, systems: list[System], seeds: Sequence[int] = ()) -> Trained:
    """Trains on the way to no test; `more` is {system: the pace of each seed}. seeds: none = those
    of curves."""
    curves, budget = study.curves(systems, seeds), study.budget
    near = {system: paces(outcomes) for system, outcomes in curves.items()}
    said = f"; on validation, a look every {budget.every} rounds up to {budget.horizon}"
    return Trained(
        study=study,
        systems=systems,
        curves=curves,
        more=near,
        seeds=seeds or study.curve_seeds,
        conditions=said,
        censored=still_rises(near),
    )


def on_every_seed(study: Study, systems: list[System]) -> Trained:
    """Does the same once for each seed of the tables."""
    return on_curves(study, systems, study.seeds)


def still_rises(
    near: Mapping[System, Sequence[ConvergencePace]],
) -> dict[System, list[bool]]:
    """For each system, whether the curve of each seed still rose at its last round."""
    return {system: [pace.rising for pace in several] for system, several in near.items()}


def convergence_of(trained: Trained, system: System) -> Values:
    """The best, and how soon it is nearly reached."""
    mine: Sequence[ConvergencePace] = trained.more[system]
    return {
        BEST: [pace.best.metrics[RANKING.metric] for pace in mine],
        AT: [pace.best.rounds for pace in mine],
        NEAR: [pace.near.rounds for pace in mine],
        OMITTED: [pace.omitted for pace in mine],
    }


def sooner(trained: Trained) -> list[str]:
    """Who is near its best first, model by model."""
    said = []
    for model, name in MODELS.items():
        near = {
            system: near_round(trained.more[system])
            for system in three(model)
            if trained.more[system]
        }
        own = near.pop(three(model)[0], None)
        if own is not None:
            first, others = sum(own < other for other in near.values()), listed(near, ".0f")
            said.append(f"{name}: Cali3F {own:.0f}, {others} (sooner than {first} of {len(near)})")
    words = "; ".join(said) or "every training diverged"
    return [worded("cali3f", "sooner", name=trained.name, within=WITHIN, said=words)]


def omitted(trained: Trained) -> list[str]:
    """The rounds that Cali3F can omit, and whose curves still rise."""
    of = {name: trained.more[three(model)[0]] for model, name in MODELS.items()}
    share = {
        name: float(np.mean([pace.omitted for pace in mine])) for name, mine in of.items() if mine
    }
    words, paper = listed(share, ".1%") or "none", FIGURE_3["ml-1m", "any", OMITTED]
    return [
        worded("cali3f", "omitted", name=trained.name, share=words, paper=paper),
        *still_rising(trained, trained.more),
    ]


def convergence_figures(trained: Trained) -> dict[str, str]:
    """The mean curves of each model's three systems."""
    drawn = {}
    for model, name in MODELS.items():
        series = {str(system): mean_curve(trained.curves[system]) for system in three(model)}
        title, label = f"Figure 3: {name}, {trained.name}", "NDCG@10 on validation"
        figure = lines(
            series, FigureFormat(title=title, x_label="round", y_label=label), marks=False
        )
        drawn[f"convergence-{trained.name}-{model}"] = figure
    return drawn


# ---- table III -----------------------------------------------------------------------------------

RATIO = "time, x FedAvg"
FEDAVG, DITTO, CALI3F = map(System, ("fedavg-neumf", "ditto-neumf", "cali3f-neumf"))
SHARED = tuple(system._replace(shared=True) for system in (FEDAVG, DITTO))
ONE_PASS = CALI3F.replaced(
    one_pass=True
)  # beyond the print: w and v_p in one pass over the history
TRIPLES = {
    "each with its own settings": (FEDAVG, DITTO, CALI3F, ONE_PASS),
    "all with Cali3F's settings": (*SHARED, CALI3F, ONE_PASS),
}
SYSTEMS = tuple(dict.fromkeys(system for triple in TRIPLES.values() for system in triple))
TABLE_3 = printed("cali3f", "table3")


def trained_and_timed(study: Study, systems: list[System]) -> Trained:
    """Time on validation, one after another in one run; fairness on the test rows, each at its own
    best round.
    """
    curves = study.curves(systems, timed=True)
    near = {system: paces(outcomes) for system, outcomes in curves.items()}
    return replace(on_test_rows(study, systems), curves=curves, more=near)


def rows_of(trained: Trained) -> list[Row]:
    """Fairness of each system, then its time."""
    said = f"; validation NDCG@10, a look every {trained.study.budget.every} rounds"
    timed = replace(trained, rounds={}, seeds=trained.study.curve_seeds, conditions=said)
    timed = replace(timed, censored=still_rises(trained.more))
    return [
        *metric_rows(trained, (*FAIRNESS, "ndcg@10"), TABLE_3),
        *metric_rows(timed, time_of, TABLE_3),
    ]


def fairness_notes(trained: Trained) -> list[str]:
    """The claim: Cali3F and Ditto are fairer than FedAvg. Beside it, what chance gives at the same
    hit rate.
    """
    return [
        _fairer(trained, other)
        for other in (DITTO, CALI3F)
        if trained.looks[FEDAVG] and trained.looks[other]
    ]


def _fairer(trained: Trained, other: System) -> str:
    pair = [trained.looks[system] for system in (other, FEDAVG)]
    test = paired_spread(*(users_of(looks, "ndcg@10") for looks in pair))
    fairer = (
        "spreads less over users than" if test.difference < 0 else "spreads more over users than"
    )
    verb = fairer if test.p < SIGNIFICANT else "cannot be told apart in spread from"
    chance = " and ".join(f"{mean(looks, STD) - mean(looks, CHANCE):+.4f}" for looks in pair)
    worst = " and ".join(f"{mean(looks, WORST):.4f}" for looks in pair)
    return worded(
        "cali3f",
        "fairer",
        name=trained.name,
        other=other,
        verb=verb,
        test=test,
        chance=chance,
        worst=worst,
    )


def time_of(trained: Trained, system: System) -> Values:
    """To the first evaluation within WITHIN of the best. Cali3F's ratio beside FedAvg with Cali3F's
    settings is in the notes.
    """
    mine, fedavg = trained.more[system], trained.more[SHARED[0] if system.shared else FEDAVG]
    near = [pace.near for pace in mine]
    values = {name: each(near, name) for name in (CPU_SECONDS, ROUNDS, MB_SENT)}
    return {RATIO: ratios(mine, fedavg), **values} if mine and fedavg else values


def ratios(mine: Sequence[ConvergencePace], fedavg: Sequence[ConvergencePace]) -> list[float]:
    """Seconds over FedAvg's, seed by seed."""
    return [a.near.cpu_seconds / b.near.cpu_seconds for a, b in zip(mine, fedavg, strict=True)]


def time_notes(trained: Trained) -> list[str]:
    """Ratios of time, to one's own best and to one goal for all; and who was still rising."""
    near, name = trained.more, trained.name
    runs = dict.fromkeys(
        outcome.measured for outcomes in trained.curves.values() for outcome in outcomes
    )
    said = [worded("cali3f", "measured", name=name, runs="; ".join(runs))]
    paper = listed(
        {
            who: TABLE_3["ml-1m", s.algorithm, RATIO]
            for who, s in (("Ditto", DITTO), ("Cali3F", CALI3F))
        },
        ".2f",
    )
    for reading, triple in TRIPLES.items():
        if all(near[system] for system in triple):
            ours = listed(
                {s: float(np.mean(ratios(near[s], near[triple[0]]))) for s in triple[1:]}, ".2f"
            )
            goal = same_goal(trained.curves, triple)
            more = {"reading": reading, "listed": ours, "paper": paper, "goal": goal}
            said.append(worded("cali3f", "time", name=name, within=WITHIN, **more))
    return [*said, *still_rising(trained, SYSTEMS)]


def same_goal(curves: Curves, triple: Sequence[System]) -> str:
    """When each first has what is within WITHIN of FedAvg's best: a goal that is the same for
    all.
    """
    said, goals = [], paces(curves[triple[0]])
    for system in triple:
        pairs = zip(curves[system], goals, strict=True)
        looks = [
            reached(outcome, (1 - WITHIN) * goal.best.metrics[RANKING.metric])
            for outcome, goal in pairs
        ]
        some = [look for look in looks if look is not None]
        in_time = (
            f"round {mean(some, ROUNDS):.0f}, {mean(some, CPU_SECONDS):.1f} s"
            if len(some) == len(looks)
            else "never"
        )
        said.append(f"{system} {in_time}")
    return ", ".join(said)


EXPERIMENTS = {
    "cali3f-fig3": PaperTable(
        title="convergence of Cali3F and FedAvg (Cali3F, figure 3)",
        data=cali3f(),
        systems=[system for model in MODELS for system in three(model)],
        train=on_every_seed,
        metrics=convergence_of,
        findings=(sooner, omitted),
        figures=convergence_figures,
    ),
    "cali3f-table3": PaperTable(
        title="fairness and time of FedAvg, Ditto and Cali3F over NeuMF (Cali3F, table III)",
        data=cali3f(("ml-1m", "ml-100k")),
        systems=SYSTEMS,
        train=trained_and_timed,
        printed=TABLE_3,
        rows=rows_of,
        findings=(fairness_notes, time_notes),
    ),
}
