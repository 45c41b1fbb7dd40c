"""PEPPER, figure 8: the exploitation-exploration ratio alpha, by the mean hit ratio and its distribution over users.

Of a view of three peers, T = (1 - alpha) 3, to the nearest whole number, are the best heard from: eleven values of alpha are four systems,
one for each T. So a view of six is run beside it. "In an equal number of training rounds", those of the default alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..report.figures import lines
from .cell import Look
from .pepper_plan import System
from .pepper_study import PepperStudy, over_sources
from .pepper_tables import MOVIELENS
from .pepper_tails import figure, tails
from .result import Experiment, Found
from .seed_rows import against, verdict

ALPHAS = tuple(n / 10 for n in range(11))
VIEWS = (3, 6)
HR = "hr@20"
# printed, of a view of three
PAPER = {
    (str(MOVIELENS), f"pepper-gmf, alpha {alpha:g}", HR): value for alpha, value in ((0.0, 0.7049), (0.4, 0.7929), (1.0, 0.7549))
}


def best(alpha: float, view: int) -> int:
    """T of algorithm 3."""
    return int((1 - alpha) * view + 0.5)


def system(alpha: float, view: int) -> System:
    """PEPPER with one alpha for all that have the same T, so that what is the same is trained once."""
    usual = next(one for one in (0.4, 1.0, *ALPHAS) if best(one, view) == best(alpha, view))
    more = (("alpha", f"{usual:g}"),) if view == VIEWS[0] else (("alpha", f"{usual:g}"), ("view", view))
    return System("pepper-gmf", more=more)


def one(study: PepperStudy) -> Found:
    """Means, tails and distributions of every T."""
    found = Found()
    views = VIEWS[:1] if study.quick else VIEWS
    of = {view: study.fitting(list(dict.fromkeys(system(alpha, view) for alpha in ALPHAS)), found) for view in views}
    every = [one for some in of.values() for one in some]
    looks, rounds = study.tested(every), study.rounds(every)
    for one_system in every:
        found.rows.extend(study.rows(one_system, tails(looks[one_system], HR), PAPER, rounds[one_system]))
    found.tests.extend(against(study.name, looks, system(0.4, 3), [one for one in of[3] if one != system(0.4, 3)], [HR]))
    found.notes.extend(_notes(study, found))
    found.figures[f"alpha-{study.source.slug}"] = _mean_figure(study, looks, views)
    drawn = {one: looks[one] for one in of[3]}
    found.figures[f"alpha-users-{study.source.slug}"] = figure(f"Figure 8a: {study.name}", HR, drawn)
    return found


def _notes(study: PepperStudy, found: Found) -> list[str]:
    same = ", ".join(f"{alpha:g}: {best(alpha, 3)}" for alpha in ALPHAS)
    return [
        f"{study.name}: of a view of three, T by alpha is {same}; a row stands for all alphas with its T. alpha = .4 has T = 2 as "
        "algorithm 3 has it; as the text has it (40 % from L_N), and as the authors ran it, T = 1, which is alpha = .6 here.",
        f"{study.name}: the paper has the best mean at .4; here: {'; '.join(verdict(test) for test in found.tests)}.",
    ]


def _mean_figure(study: PepperStudy, looks: Mapping[System, Sequence[Look]], views: Sequence[int]) -> str:
    def mean(alpha: float, view: int) -> float:
        mine = looks.get(system(alpha, view), ())
        return float(np.mean([look.metrics[HR] for look in mine])) if mine else float("nan")

    series = {f"view {view}": (ALPHAS, [mean(alpha, view) for alpha in ALPHAS]) for view in views}
    at = [alpha for alpha in ALPHAS if (str(MOVIELENS), f"pepper-gmf, alpha {alpha:g}", HR) in PAPER]
    printed = {"view 3": (at, [PAPER[str(MOVIELENS), f"pepper-gmf, alpha {alpha:g}", HR] for alpha in at])}
    return lines(series, x_label="alpha", y_label="HR@20", title=f"Figure 8b: {study.name}", reference=printed)


EXPERIMENTS = {
    "pepper-fig8": Experiment("sensitivity to alpha (PEPPER, figure 8)", PAPER, over_sources(one, (MOVIELENS,), (MOVIELENS,)))
}
