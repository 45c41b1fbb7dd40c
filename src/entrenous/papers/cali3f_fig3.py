"""Cali3F, figure 3: NDCG@10 on validation over rounds, Cali3F against FedAvg. The paper's curves are a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..evaluate.goal import RANKING
from ..report.figures import lines
from .ncf_study import Curves, NcfStudy, System, mean_curve, over_data
from .result import Experiment, Found, Row
from .seed_rows import WITHIN, Pace, paces, seed_rows

MODELS = {"gmf": "GMF", "mlp": "MLP", "neumf": "NeuMF"}
BEST, AT, NEAR, OMITTED = "best ndcg@10", "best round", "round within 5 %", "rounds omitted"
# the text: "Take ML-1M for instance, Cali3F settles to within 5% of its best values at round 10", which omits 98.6 % of the rounds
PAPER = {("ml-1m", f"cali3f-{model}", metric): value for model in MODELS for metric, value in ((NEAR, 10.0), (OMITTED, 0.986))}


def three(model: str) -> tuple[System, System, System]:
    """Cali3F; FedAvg with its settings, so that both begin with the same w[I, N] and have as many devices a round; FedAvg with its
    own."""
    return System(f"cali3f-{model}"), System(f"fedavg-{model}", shared=True), System(f"fedavg-{model}")


def one(study: NcfStudy) -> Found:
    """A figure for each model."""
    systems = [system for model in MODELS for system in three(model)]
    curves = study.curves(systems)
    found = {system: paces(outcomes) for system, outcomes in curves.items()}
    rows = [row for system in systems for row in _rows(study, system, found[system])]
    figures = {f"convergence-{study.data.name}-{model}": _figure(study, model, curves) for model in MODELS}
    return Found(rows=rows, notes=_notes(study, found), figures=figures)


def _rows(study: NcfStudy, system: System, mine: Sequence[Pace]) -> list[Row]:
    values: dict[str, list[float]] = {
        BEST: [one.best.metrics[RANKING.metric] for one in mine],
        AT: [one.best.rounds for one in mine],
        NEAR: [one.near.rounds for one in mine],
        OMITTED: [one.omitted for one in mine],
    }
    said = f"{study.protocol(system, study.curve_seeds)}; on validation, a look every {study.budget.every} rounds up to "
    return seed_rows(study, system, values, paper=PAPER, protocol=f"{said}{study.budget.horizon}", seeds=study.curve_seeds)


def _notes(study: NcfStudy, found: Mapping[System, Sequence[Pace]]) -> list[str]:
    """Who is near its best first, model by model."""
    said = []
    for model, name in MODELS.items():
        mine, *others = ((system, found[system]) for system in three(model))
        if mine[1]:
            against = [f"{system} {_round(of):.0f}" for system, of in others if of]
            sooner = sum(_round(mine[1]) < _round(of) for _, of in others if of)
            said.append(f"{name}: Cali3F {_round(mine[1]):.0f}, {', '.join(against)} (sooner than {sooner} of {len(against)})")
    omitted = {name: found[three(model)[0]] for model, name in MODELS.items()}
    share = ", ".join(f"{name} {np.mean([one.omitted for one in of]):.1%}" for name, of in omitted.items() if of)
    rising = [str(system) for system, of in found.items() if any(one.rising for one in of)]
    return [
        f"{study.data.name}, first round within {WITHIN:.0%} of one's own best on validation (the paper: Cali3F far before FedAvg): "
        f"{'; '.join(said) or 'every training diverged'}.",
        f"{study.data.name}, the rounds that Cali3F can omit, of those to its best: {share or 'none'} (paper, ML-1M: 98.6%).",
        *([f"{study.data.name}, still rising at round {study.budget.horizon}: {', '.join(rising)}."] if rising else []),
    ]


def _round(mine: Sequence[Pace]) -> float:
    return float(np.mean([one.near.rounds for one in mine]))


def _figure(study: NcfStudy, model: str, curves: Curves) -> str:
    series = {str(system): mean_curve(curves[system]) for system in three(model)}
    title = f"Figure 3: {MODELS[model]}, {study.data.name}"
    return lines(series, x_label="round", y_label="NDCG@10 on validation", title=title, marks=False)


EXPERIMENTS = {"cali3f-fig3": Experiment("convergence of Cali3F and FedAvg (Cali3F, figure 3)", PAPER, over_data(one))}
