"""PEPPER, table 8: a peer set of 3 or of 6: hit ratio, rounds to convergence, and seconds that a node computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .pepper_fig9 import CONVERGED, MILLISECONDS, MODELS, ROUNDS, Costs, of_all
from .pepper_plan import System
from .pepper_study import PepperStudy, over_sources
from .pepper_tables import MOVIELENS
from .result import Experiment, Found

VIEWS = (3, 6)
SYSTEMS = {view: System("pepper-gmf", more=(("view", view),), own_rounds=True) for view in VIEWS}
HR, RATIO = "hr@20", "CPU, x view 3"
TABLE = {3: (0.79, 283.0, 53.4), 6: (0.80, 136.0, 119.8)}  # printed: hit ratio, rounds, seconds
PAPER = {
    (str(MOVIELENS), str(SYSTEMS[view]), metric): value
    for view, values in TABLE.items()
    for metric, value in zip((HR, ROUNDS, MILLISECONDS), (*values[:2], 1000 * values[2]), strict=True)
} | {(str(MOVIELENS), str(SYSTEMS[view]), RATIO): round(TABLE[view][2] / TABLE[3][2], 2) for view in VIEWS}


def one(study: PepperStudy) -> Found:
    """Both views on one split: HR on the test rows at each one's best round; rounds and seconds of the curves."""
    found = Found()
    systems = study.fitting(list(SYSTEMS.values()), found)
    looks, rounds = study.tested(systems), study.rounds(systems)
    spent = of_all(study, study.timed_curves(systems, (CONVERGED,)))
    for system in systems:
        values: dict[str, Sequence[float]] = {HR: [look.metrics[HR] for look in looks[system]], **_costs(spent[system])}
        values |= {RATIO: _ratios(spent[system], spent[systems[0]])}
        found.rows.extend(study.rows(system, values, PAPER, rounds[system]))
    found.notes.extend(_notes(study, spent))
    return found


def _costs(mine: Sequence[Costs]) -> dict[str, Sequence[float]]:
    return {
        ROUNDS: [one.rounds.mean() for one in mine],
        MODELS: [one.models.mean() for one in mine],
        MILLISECONDS: [1e3 * one.seconds.mean() for one in mine],
    }


def _ratios(mine: Sequence[Costs], first: Sequence[Costs]) -> list[float]:
    return [a.seconds.mean() / b.seconds.mean() for a, b in zip(mine, first, strict=False)]


def _notes(study: PepperStudy, spent: Mapping[System, Sequence[Costs]]) -> list[str]:
    mine = [spent.get(SYSTEMS[view], ()) for view in VIEWS]
    if not all(mine):
        return []
    change = np.mean([one.rounds.mean() for one in mine[1]]) / np.mean([one.rounds.mean() for one in mine[0]]) - 1
    return [
        f"{study.name}: the paper says that six peers converge in fewer rounds and compute more; here rounds change by {change:+.0%} "
        "(paper: -52 %). Rounds and seconds are means over nodes, until each has converged on its weighting set (see pepper-fig9).",
        "By the paper's own numbers a node receives 283 x 3 = 849 models and then 136 x 6 = 816, so that a model costs 63 ms with three "
        "peers and 147 ms with six, though what is done with it is the same; here it costs the same.",
    ]


EXPERIMENTS = {
    "pepper-table8": Experiment(
        "a peer set of 3 or 6: accuracy, rounds, seconds (PEPPER, table 8)", PAPER, over_sources(one, (MOVIELENS,), (MOVIELENS,))
    )
}
