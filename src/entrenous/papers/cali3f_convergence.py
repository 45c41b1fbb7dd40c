"""Cali3F, figure 3: NDCG@10 on validation over rounds, Cali3F against FedAvg. The paper's curves are a drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..report.figures import lines
from .findings import still_rising
from .opened import cali3f
from .pace import WITHIN, ConvergencePace, near_round, paces
from .study import Study, System, mean_curve
from .table import PaperTable, Trained, Values
from .values import printed

MODELS = {"gmf": "GMF", "mlp": "MLP", "neumf": "NeuMF"}
BEST, AT, NEAR, OMITTED = "best ndcg@10", "best round", "round within 5 %", "rounds omitted"
PAPER = printed("cali3f", "fig3")


def three(model: str) -> tuple[System, System, System]:
    """Cali3F; FedAvg with its settings, so that both begin with the same w[I, N] and have as many devices a round; FedAvg with its
    own."""
    return System(f"cali3f-{model}"), System(f"fedavg-{model}", shared=True), System(f"fedavg-{model}")


def on_curves(study: Study, systems: list[System]) -> Trained:
    """Trains on the way to no test; `more` is {system: the pace of each seed}."""
    curves, budget = study.curves(systems), study.budget
    near = {system: paces(outcomes) for system, outcomes in curves.items()}
    said = f"; on validation, a look every {budget.every} rounds up to {budget.horizon}"
    return Trained(study=study, systems=systems, curves=curves, more=near, seeds=study.curve_seeds, conditions=said)


def values_of(trained: Trained, system: System) -> Values:
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
        mine, *others = ((system, trained.more[system]) for system in three(model))
        if mine[1]:
            against = [f"{system} {near_round(of):.0f}" for system, of in others if of]
            first = sum(near_round(mine[1]) < near_round(of) for _, of in others if of)
            said.append(f"{name}: Cali3F {near_round(mine[1]):.0f}, {', '.join(against)} (sooner than {first} of {len(against)})")
    return [
        f"{trained.name}, first round within {WITHIN:.0%} of one's own best on validation (the paper: Cali3F far before FedAvg): "
        f"{'; '.join(said) or 'every training diverged'}."
    ]


def omitted(trained: Trained) -> list[str]:
    """The rounds that Cali3F can omit, and whose curves still rise."""
    of = {name: trained.more[three(model)[0]] for model, name in MODELS.items()}
    share = ", ".join(f"{name} {np.mean([pace.omitted for pace in mine]):.1%}" for name, mine in of.items() if mine)
    rising = [str(system) for system, mine in trained.more.items() if any(pace.rising for pace in mine)]
    paper = PAPER["ml-1m", "cali3f-gmf", OMITTED]
    return [
        f"{trained.name}, the rounds that Cali3F can omit, of those to its best: {share or 'none'} (paper, ML-1M: {paper:.1%}).",
        *still_rising(trained, rising),
    ]


def _figures(trained: Trained) -> dict[str, str]:
    return {f"convergence-{trained.name}-{model}": _figure(trained, model) for model in MODELS}


def _figure(trained: Trained, model: str) -> str:
    series = {str(system): mean_curve(trained.curves[system]) for system in three(model)}
    title = f"Figure 3: {MODELS[model]}, {trained.name}"
    return lines(series, x_label="round", y_label="NDCG@10 on validation", title=title, marks=False)


EXPERIMENTS = {
    "cali3f-fig3": PaperTable(
        title="convergence of Cali3F and FedAvg (Cali3F, figure 3)",
        data=cali3f(),
        systems=[system for model in MODELS for system in three(model)],
        train=on_curves,
        metrics=values_of,
        printed=PAPER,
        findings=(sooner, omitted),
        figures=_figures,
    )
}
