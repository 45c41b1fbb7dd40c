"""PEPPER, figure 9: what learning costs a node, until its own model has converged: processor time, and rounds of communication.

The paper does not say when a node has converged. Here: at the first look at which HR@20 on its own weighting set is within 5 % of the
node's best. A node's seconds are the models it had received by then, times the processor seconds of one received model in the same run
(judging, merging, a local epoch), as a device would have spent them; decentralised Reptile's fine-tuning comes after and is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..core.types import Float64Array
from ..report.figures import lines
from .cell import Outcome
from .pepper_plan import System
from .pepper_study import PepperStudy, over_sources
from .pepper_tables import GOSSIP, MOVIELENS
from .pepper_tails import steps
from .result import Experiment, Found
from .seed_rows import WITHIN

CONVERGED = "hr@20"
SYSTEMS = tuple(System(f"{name}-gmf") for name in GOSSIP)
ROUNDS, MILLISECONDS, MODELS, COST = "rounds", "CPU ms", "models received", "us a model"
MEAN_ROUNDS = {
    "pepper-gmf": 283.0,
    "gossip-age-gmf": 410.0,
    "gossip-reptile-gmf": 490.0,
}  # printed: until convergence, mean over nodes
MORE_AT_99 = {"gossip-age-gmf": 799.0, "gossip-reptile-gmf": 1247.0}  # printed: rounds more than PEPPER at percentile 99
PAPER = {(str(MOVIELENS), system, ROUNDS): rounds for system, rounds in MEAN_ROUNDS.items()}


class Costs(NamedTuple):
    """Until each node's convergence, float64 [nodes]: rounds, models received, processor seconds. each: seconds of one model."""

    rounds: Float64Array
    models: Float64Array
    seconds: Float64Array
    each: float


def costs(study: PepperStudy, outcome: Outcome) -> Costs | None:
    """What one training cost every node that has a weighting set; None if it diverged before the first look."""
    looks = outcome.looks
    if not looks:
        return None
    nodes, per_user = np.flatnonzero(study.part("validation").held.rows.counts), [look.per_user[CONVERGED] for look in looks]
    values, received = np.array(per_user), np.array([look.nodes["received"] for look in looks])
    at = np.argmax(values >= (1 - WITHIN) * values.max(axis=0), axis=0)
    models = received[at, nodes].astype(np.float64)
    each = looks[-1].cpu_seconds / max(1, int(received[-1].sum()))
    return Costs(np.array([looks[k].rounds for k in at.tolist()], np.float64), models, models * each, each)


def of_all(study: PepperStudy, curves: Mapping[System, Sequence[Outcome]]) -> dict[System, list[Costs]]:
    """The costs of every seed; none if one of them diverged."""
    each = {system: [costs(study, outcome) for outcome in outcomes] for system, outcomes in curves.items()}
    return {system: [one for one in mine if one is not None] if None not in mine else [] for system, mine in each.items()}


def one(study: PepperStudy) -> Found:
    """Rounds and seconds of four systems, over nodes."""
    found = Found()
    systems = study.fitting(SYSTEMS, found)
    spent = of_all(study, study.timed_curves(systems, (CONVERGED,)))
    for system in systems:
        values = {
            ROUNDS: [one.rounds.mean() for one in spent[system]],
            f"{ROUNDS} p50": [np.percentile(one.rounds, 50) for one in spent[system]],
            f"{ROUNDS} p99": [np.percentile(one.rounds, 99) for one in spent[system]],
            MODELS: [one.models.mean() for one in spent[system]],
            COST: [1e6 * one.each for one in spent[system]],
            MILLISECONDS: [1e3 * one.seconds.mean() for one in spent[system]],
            f"{MILLISECONDS} p99": [1e3 * np.percentile(one.seconds, 99) for one in spent[system]],
        }
        found.rows.extend(study.rows(system, values, PAPER))
    found.notes.extend(_notes(study, spent))
    for name, what in (("seconds", "processor seconds to convergence"), ("rounds", "rounds to convergence")):
        series = {
            str(system): steps(np.concatenate([getattr(one, name) for one in mine]).tolist())
            for system, mine in spent.items()
            if mine
        }
        title = f"Figure 9: {study.name}"
        found.figures[f"{name}-{study.source.slug}"] = lines(
            series, x_label=what, y_label="share of nodes", title=title, marks=False
        )
    return found


def _notes(study: PepperStudy, spent: Mapping[System, Sequence[Costs]]) -> list[str]:
    mean = {system: float(np.mean([one.rounds.mean() for one in mine])) for system, mine in spent.items() if mine}
    pepper = System("pepper-gmf")
    horizon = study.reach.gossip[0]
    said = [
        f"{study.name}: a node has converged when HR@20 on its weighting set is first within {WITHIN:.0%} of its best in {horizon} "
        f"rounds; the paper does not say when. A look every {study.reach.gossip[1]} rounds. Processor seconds of one thread, the systems "
        "one after another; compare ratios with the paper's."
    ]
    if pepper in mean:
        ahead = ", ".join(
            f"{1 - mean[pepper] / rounds:+.0%} against {system}" for system, rounds in mean.items() if system != pepper
        )
        said.append(
            f"{study.name}, rounds that PEPPER's nodes save on average: {ahead} (paper: 42 % against Reptile, 31 % against age)."
        )
        received = np.concatenate([one.models / np.maximum(one.rounds, 1) for one in spent[pepper]])
        low, high = np.percentile(received, [10, 90])
        said.append(
            f"{study.name}: PEPPER's nodes receive between {low:.1f} and {high:.1f} models a round (percentiles 10 and 90 over nodes): who "
            "sends good models is chosen more often, which makes the two groups of the paper's figure 9a."
        )
    return said


EXPERIMENTS = {
    "pepper-fig9": Experiment(
        "computing time and rounds until a node's model has converged (PEPPER, figure 9)",
        PAPER,
        over_sources(one, (MOVIELENS,), (MOVIELENS,)),
    )
}
