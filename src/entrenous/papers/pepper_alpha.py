"""PEPPER, figure 8: the exploitation-exploration ratio alpha, by the mean hit ratio and its distribution over users.

Of a view of three peers, T = (1 - alpha) 3, to the nearest whole number, are the best heard from: eleven values of alpha are four systems,
one for each T. So a view of six is run beside it. "In an equal number of training rounds", those of the default alpha.
"""

from __future__ import annotations

from typing import Any

from ..report.figures import lines
from .findings import against, verdict
from .opened import pepper
from .pepper_accuracy import MOVIELENS
from .pepper_tails import figure, tails
from .study import Study, System
from .table import PaperTable, Trained, Values
from .values import printed

ALPHAS = tuple(n / 10 for n in range(11))
VIEWS = (3, 6)
HR = "hr@20"
PAPER = printed("pepper", "fig8")


def best(alpha: float, view: int) -> int:
    """T of algorithm 3."""
    return int((1 - alpha) * view + 0.5)


def system(alpha: float, view: int) -> System:
    """PEPPER with one alpha for all that have the same T, so that what is the same is trained once."""
    usual = next(other for other in (0.4, 1.0, *ALPHAS) if best(other, view) == best(alpha, view))
    more = (("alpha", f"{usual:g}"),) if view == VIEWS[0] else (("alpha", f"{usual:g}"), ("view", view))
    return System("pepper-gmf", more=more)


def systems_of(study: Study) -> list[System]:
    """Every T of a view of three, and of six in full runs."""
    views = VIEWS[:1] if study.quick else VIEWS
    return list(dict.fromkeys(system(alpha, view) for view in views for alpha in ALPHAS))


def values_of(trained: Trained, system: System) -> Values:
    """The mean and the lowest users."""
    return tails(trained.looks[system], HR)


def _of_three(trained: Trained) -> list[System]:
    return [system for system in trained.systems if "view" not in dict(system.more)]


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """The default alpha against every other one, of a view of three."""
    usual = system(0.4, 3)
    return against(trained.name, trained.looks, usual, [other for other in _of_three(trained) if other != usual], [HR])


def notes_of(trained: Trained) -> list[str]:
    """Which alphas are one system, and whether the best mean is at .4 as in the paper."""
    same = ", ".join(f"{alpha:g}: {best(alpha, 3)}" for alpha in ALPHAS)
    return [
        f"{trained.name}: of a view of three, T by alpha is {same}; a row stands for all alphas with its T. alpha = .4 has T = 2 as "
        "algorithm 3 has it; as the text has it (40 % from L_N), and as the authors ran it, T = 1, which is alpha = .6 here.",
        f"{trained.name}: the paper has the best mean at .4; here: {'; '.join(verdict(test) for test in trained.tests)}.",
    ]


def _figures(trained: Trained) -> dict[str, str]:
    slug, looks = trained.study.source.slug, trained.looks
    users = figure(f"Figure 8a: {trained.name}", HR, {of: looks[of] for of in _of_three(trained)})
    return {f"alpha-{slug}": _mean_figure(trained), f"alpha-users-{slug}": users}


def _mean_figure(trained: Trained) -> str:
    def mean(alpha: float, view: int) -> float:
        return next(iter(trained.means([system(alpha, view)], HR).values()), float("nan"))

    views = VIEWS[:1] if trained.study.quick else VIEWS
    series = {f"view {view}": (ALPHAS, [mean(alpha, view) for alpha in ALPHAS]) for view in views}
    known = {alpha: PAPER.get((str(MOVIELENS), f"pepper-gmf, alpha {alpha:g}", HR)) for alpha in ALPHAS}
    at = {alpha: value for alpha, value in known.items() if value is not None}
    paper = {"view 3": (list(at), list(at.values()))}
    return lines(series, x_label="alpha", y_label="HR@20", title=f"Figure 8b: {trained.name}", reference=paper)


EXPERIMENTS = {
    "pepper-fig8": PaperTable(
        title="sensitivity to alpha (PEPPER, figure 8)",
        data=pepper(MOVIELENS),
        systems=systems_of,
        metrics=values_of,
        printed=PAPER,
        tests=tests_of,
        findings=(notes_of,),
        figures=_figures,
    )
}
