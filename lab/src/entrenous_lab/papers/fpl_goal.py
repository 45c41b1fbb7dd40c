"""FPL, section 4.3: the rounds that pFPL takes to a goal, over the triples T of each device.

The paper has no table of it; it says that a T that is too small or too large leads to many rounds.
The goal is a share of the best precision on validation rows that T = 1 has on its curve. Curves go
on for as many triples at every T, so that a larger T has fewer rounds. A curve that does not reach
the goal is marked as censored, and its last round stands as a bound. If it ended because training
diverged, its T has rows without a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .cell import Outcome
from .effort import PRINTED
from .fpl_accuracy import triples
from .fpl_rates import FACTORS, SEEDS
from .fpl_search import CHOSEN_BY, Search
from .measures import WITHIN
from .opened import countries
from .result import Context, Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import worded

RATES = (0.05, 0.5)
TRIPLES = (1, 5, 20)  # and T of FPL+, X+ / |U|
EPOCHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50)
GOAL = 1 - WITHIN  # of the best precision of T = 1
PI = 1.0
TO_GOAL, EPOCHS_TO_GOAL = "rounds to the goal", "X+ triples to the goal"


class Reached(NamedTuple):
    """When the curves of one T reach the goal, a value for each seed."""

    rate: float
    triples: int
    rounds: list[int]
    epochs: list[int]
    """The same in X+ triples."""
    censored: list[bool]
    """Whether a curve ended below the goal."""
    diverged: bool = False
    """Whether a curve ended below the goal because training diverged."""

    @property
    def label(self) -> str:
        """The name of the row, such as `T = 5, rate 0.05`."""
        return f"T = {self.triples}, rate {self.rate:g}"


def trained_to_goal(study: Study, _: Sequence[System]) -> Trained:
    """Trains curves on validation rows; `more`: {rate: goal}, and `Reached` by rate and T."""
    search = Search(study)
    several = (*TRIPLES, triples(study))
    tried = [(rate, t, seed) for rate in RATES for t in several for seed in study.seeds]
    common = {"factors": FACTORS, "pi": PI, "rounds_per_epoch": PRINTED}
    cells = [
        search.cell(
            "pfpl", {**common, "learning_rate": rate, "triples": t}, EPOCHS, "validation", seed
        )
        for rate, t, seed in tried
    ]
    curves = dict(zip(tried, search.outcomes(cells), strict=True))
    goals = {rate: _goal([curves[rate, 1, seed] for seed in study.seeds]) for rate in RATES}
    reached = [
        _reached(rate, t, [curves[rate, t, seed] for seed in study.seeds], goals[rate])
        for rate in RATES
        for t in several
    ]
    return Trained(study=study, systems=[], more=(goals, reached))


def _goal(curves: Sequence[Outcome]) -> float:
    """GOAL of the best precision of a curve, mean over seeds."""
    best = [max(look.metrics[CHOSEN_BY] for look in curve.looks) for curve in curves]
    return GOAL * float(np.mean(best))


def _reached(rate: float, t: int, curves: Sequence[Outcome], goal: float) -> Reached:
    rounds, epochs, censored = list[int](), list[int](), list[bool]()
    diverged = False
    for curve in curves:
        above = [look for look in curve.looks if look.metrics[CHOSEN_BY] >= goal]
        if curve.failed and not above:
            diverged = True
            continue
        look = above[0] if above else curve.looks[-1]
        rounds.append(look.rounds)
        epochs.append(look.epochs)
        censored.append(not above)
    return Reached(rate, t, rounds, epochs, censored, diverged)


def goal_rows(trained: Trained) -> list[Row]:
    """Returns two rows for each rate and T: rounds, and triples in X+."""
    goals, reached = trained.more
    rows = list[Row]()
    for one in reached:
        said = (
            f"{trained.name}, validation rows; pFPL, all devices, T = {one.triples}, pi {PI:g},"
            f" rate {one.rate:g}, {FACTORS} factors; the first of the looks at"
            f" {CHOSEN_BY} {goals[one.rate]:.5f} or more; seeds"
            f" {', '.join(map(str, trained.study.seeds))}"
        )
        more = {"seeds": list(trained.study.seeds)}
        if any(one.censored):
            more["censored"] = one.censored
        for metric, values in ((TO_GOAL, one.rounds), (EPOCHS_TO_GOAL, one.epochs)):
            figures = [] if one.diverged else values
            rows.append(seed_row(trained.name, one.label, metric, figures, None, said, **more))
    return rows


def goal_note(trained: Trained) -> list[str]:
    """States the goals, and which curves do not reach theirs."""
    goals, reached = trained.more
    said = ", ".join(f"{goal:.4f} at rate {rate:g}" for rate, goal in goals.items())
    below = [
        f"{one.label} ({sum(one.censored)} of {len(one.censored)} seeds)"
        for one in reached
        if any(one.censored)
    ]
    absent = ", ".join(below) or "none"
    diverged = ", ".join(one.label for one in reached if one.diverged) or "none"
    words = {"share": GOAL, "said": said, "below": absent, "diverged": diverged}
    return [worded("fpl", "goal", name=trained.name, **words)]


def _opened(context: Context, notes: Sequence[str] = ()) -> list[Study]:
    """FPL's countries with SEEDS seeds, unless another number was asked for."""
    return countries(replace(context, seeds=context.seeds or SEEDS), notes)


EXPERIMENTS = {
    "fpl-goal": PaperTable(
        title="rounds to a goal, over the triples of a device in a round (FPL, section 4.3)",
        data=_opened,
        train=trained_to_goal,
        metrics=(TO_GOAL, EPOCHS_TO_GOAL),
        rows=goal_rows,
        findings=(goal_note,),
    ),
}
