"""FPL at every learning rate of its grid (section 5.3): tables 2, 3 and 6 and figures 2 to 4 at
0.005, 0.05 and 0.5, and at the rate that each system chooses.

The paper gives all factor models the learning rate that BPR-MF chose. On Italy that is 0.5, the
corner of the grid, at which pFPL+ as run diverges. Here every system has every rate, under both
readings of the epoch. At each rate and pi a system chooses the number of epochs by its own
precision on validation rows, and at each rate the pi with the best of these; "chosen rate" is the
rate with the best of these. Factors are 50, as BPR-MF chose them. A training that diverges has a
row without a figure. Systems without a learning rate have one row.

FCF is in a table of its own, fpl-fcf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from entrenous.report.figures import FigureFormat, lines, scatter

from .cell import CurvePoint
from .effort import PRINTED, RUN
from .findings import tested_columns, users_of
from .fpl_accuracy import ACCURACY, DIVERSITY, TABLE_2, TABLE_3
from .fpl_bias import disparities_of
from .fpl_cost import COST, UNIT, tcc
from .fpl_pi import METRIC as F1
from .fpl_pi import PRINTED_F1, PRINTED_PATH, f1_at
from .fpl_search import READINGS, Chosen, Search, first_best
from .measures import each
from .opened import Country, countries
from .result import Context, Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import Settings, worded

RATES = (0.005, 0.05, 0.5)
# Those that the paper prints as best on Italy.
PI = (0.1, 0.2, 0.4, 1.0)
FACTORS = 50
SEEDS = 5
CHOSEN_RATE = "chosen rate"
PRINTED_OVER_PI = {**PRINTED_F1, **PRINTED_PATH}
BPR = System("bpr-mf")
SEQUENTIAL, PARALLEL = System("sfpl", reading=PRINTED), System("pfpl", reading=PRINTED)
SEQUENTIAL_PLUS = {reading: System("sfpl+", reading=reading) for reading in (PRINTED, RUN)}
PARALLEL_PLUS = {reading: System("pfpl+", reading=reading) for reading in (PRINTED, RUN)}
# Systems with local computation, and the partner without it that each is compared with.
PARTNERS = {
    **dict.fromkeys(SEQUENTIAL_PLUS.values(), SEQUENTIAL),
    **dict.fromkeys(PARALLEL_PLUS.values(), PARALLEL),
}
FPL = (SEQUENTIAL, PARALLEL, *PARTNERS)
SYSTEMS = (BPR, *FPL)
POPULAR, USER_KNN = System("popular"), System("user-knn")
WITHOUT_RATE = (POPULAR, USER_KNN)


class AtRate(NamedTuple):
    """A system at a point of the table, with its choice and its figures on the test rows."""

    system: System
    rate: str
    """The learning rate as the table names it, such as `rate 0.05`; "" of a system without one."""
    chosen: Chosen | None
    """Its choice on validation rows; None if every training diverged."""
    looks: list[CurvePoint]
    """An evaluation for each seed; none if a training diverged."""
    pi: float = 0.0
    """The pi of a point over pi."""

    @property
    def label(self) -> str:
        """The name of the row, such as `pfpl+ (run), rate 0.05`."""
        return f"{self.system}, {self.rate}" if self.rate else str(self.system)

    @property
    def label_of_pi(self) -> str:
        """The name of a row over pi, such as `pfpl+ (run), rate 0.05, pi 0.1`."""
        return f"{self.label}, pi {self.pi:g}"


Sweep = dict[float, Chosen | None]  # {pi (BPR-MF: epochs): the choice there}


class Rates(NamedTuple):
    """Every point of the tables and figures on one data set."""

    points: list[AtRate]
    """A point for each system and rate, and the chosen rate."""
    over_pi: list[AtRate]
    """A point for each FPL system, rate and pi, and those of the chosen rate."""
    failed: list[str]
    """The validation trainings that diverged, in words."""


def settings_of(system: System, rate: float, epochs: Sequence[int]) -> list[Settings]:
    """Returns the settings that a system tries at a rate; only BPR-MF has epochs among them."""
    common = {"learning_rate": rate, "factors": FACTORS}
    if system == BPR:
        return [{**common, "epochs": number, "sample": "user"} for number in epochs]
    return [{**common, "pi": pi, "rounds_per_epoch": system.reading} for pi in PI]


def trained_at_every_rate(study: Study, _: Sequence[System]) -> Trained:
    """Chooses on validation rows at each rate, then opens the test rows; `more`: `Rates`."""
    return _trained(study, every_pi=False)


def trained_at_every_pi(study: Study, _: Sequence[System]) -> Trained:
    """Does the same, and opens the test rows of every pi."""
    return _trained(study, every_pi=True)


def _trained(study: Study, *, every_pi: bool) -> Trained:
    search = Search(study)
    sweeps, failed = _sweeps(search)
    best_of_each = {place: first_best(_present(sweep)) for place, sweep in sweeps.items()}
    if every_pi:
        opened = [choice for sweep in sweeps.values() for choice in _present(sweep)]
    else:
        opened = _present(best_of_each)
    unrated = {system: _without_rate(search, system) for system in WITHOUT_RATE}
    opened += unrated.values()
    looks = dict(zip(map(id, opened), search.test_looks(opened), strict=True))
    over_pi = list[AtRate]()
    points = [AtRate(system, "", choice, looks[id(choice)]) for system, choice in unrated.items()]
    for (system, rate), sweep in sweeps.items():
        best = best_of_each[system, rate]
        named = f"rate {rate:g}"
        points.append(AtRate(system, named, best, looks[id(best)] if best else []))
        if system in FPL and every_pi:
            over_pi += [
                AtRate(system, named, choice, looks[id(choice)] if choice else [], pi)
                for pi, choice in sweep.items()
            ]
    for system in SYSTEMS:
        mine = [point for point in points if point.system == system]
        chosen = _best_of(mine)
        points += [point._replace(rate=CHOSEN_RATE) for point in mine if point is chosen]
        over_pi += [
            point._replace(rate=CHOSEN_RATE)
            for point in over_pi
            if chosen and point.system == system and point.rate == chosen.rate
        ]
    return Trained(study=study, systems=[], more=Rates(points, over_pi, failed))


def _present(choices: Mapping[Any, Chosen | None]) -> list[Chosen]:
    """The choices of trainings that did not diverge."""
    return [choice for choice in choices.values() if choice is not None]


def _sweeps(search: Search) -> tuple[dict[tuple[System, float], Sweep], list[str]]:
    """For each system and rate, what it chooses at each pi, None if it diverged before the first
    look; and what diverged, in words.
    """
    epochs = search.grid.epochs
    tried = [
        (system, rate, settings)
        for system in SYSTEMS
        for rate in RATES
        for settings in settings_of(system, rate, epochs)
    ]
    cells = [
        search.cell(system.algorithm, settings, (0,) if system == BPR else epochs)
        for system, _, settings in tried
    ]
    sweeps: dict[tuple[System, float], Sweep] = {}
    failed = list[str]()
    for (system, rate, settings), outcome in zip(tried, search.outcomes(cells), strict=True):
        best = first_best(
            Chosen(system.algorithm, settings, look.epochs, look.metrics[ACCURACY[0]])
            for look in outcome.looks
        )
        name = "epochs" if system == BPR else "pi"
        sweeps.setdefault((system, rate), {})[settings[name]] = best
        if outcome.failed:
            after = f"after {outcome.looks[-1].epochs}" if outcome.looks else f"before {epochs[0]}"
            failed.append(f"{system}, rate {rate:g}, {name} {settings[name]:g}: {after} epochs")
    return sweeps, failed


def _without_rate(search: Search, system: System) -> Chosen:
    """The choice of a system that has no learning rate."""
    if system == POPULAR:
        return Chosen(system.algorithm, {})
    tried = search.grid.central()[system.algorithm]
    outcomes = search.outcomes([search.cell(system.algorithm, settings) for settings in tried])
    best = first_best(
        Chosen(system.algorithm, settings, 0, look.metrics[ACCURACY[0]])
        for settings, outcome in zip(tried, outcomes, strict=True)
        for look in outcome.looks
    )
    return best or Chosen(system.algorithm, tried[0])


def _best_of(points: Sequence[AtRate]) -> AtRate | None:
    """The point whose precision on validation rows is best; None if all diverged."""
    trained = [point for point in points if point.chosen is not None]
    best = first_best(point.chosen for point in trained if point.chosen is not None)
    return next((point for point in trained if point.chosen is best), None)


# ---- tables 2, 3 and 6 ---------------------------------------------------------------------------


def rows_of(trained: Trained) -> list[Row]:
    """Returns a row for each system, rate and metric, the bias disparities among them."""
    printed = {**TABLE_2, **TABLE_3}
    rows = list[Row]()
    for point in trained.more.points:
        figures = {metric: each(point.looks, metric) for metric in (*ACCURACY, *DIVERSITY)}
        if point.system in FPL and point.looks:
            figures[COST] = [_cost(trained.study, point.chosen, point.system.reading)] * len(
                point.looks
            )
        of_seeds = disparities_of(point.looks)
        for metric in of_seeds[0] if of_seeds else ():
            figures[metric] = [of[metric] for of in of_seeds]
        for metric, values in figures.items():
            paper = printed.get((trained.name, point.system.algorithm, metric))
            rows.append(_row(trained, point, point.label, metric, values, paper))
    return rows


def _row(
    trained: Trained,
    point: AtRate,
    label: str,
    metric: str,
    values: Sequence[float],
    paper: float | None,
) -> Row:
    protocol = Search(trained.study).protocol(point.system, point.chosen)
    chosen = {
        "settings": point.chosen.settings if point.chosen else None,
        "epochs": point.chosen.epochs if point.chosen else None,
    }
    seeds = list(trained.study.seeds)
    return seed_row(trained.name, label, metric, values, paper, protocol, seeds=seeds, **chosen)


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns tests over users and seeds at each rate; see `_columns` for the pairs.

    Holm's correction is over the pairs of a rate and metric.
    """
    unrated = {point.system: point for point in trained.more.points if not point.rate}
    at: dict[str, dict[System, AtRate]] = {}
    for point in trained.more.points:
        if point.looks and point.rate:
            at.setdefault(point.rate, dict(unrated))[point.system] = point
    return [
        test
        for points in at.values()
        for metric in ACCURACY
        for test in tested_columns(trained.name, metric, _columns(points, metric))
    ]


def _columns(points: Mapping[System, AtRate], metric: str) -> list[tuple[str, str, Any, Any]]:
    """The pairs of systems at one rate, with the values of users.

    They are "+" against its partner, parallel against sequential, and every FPL system against
    BPR-MF and user-kNN.
    """
    pairs = [*PARTNERS.items(), (PARALLEL, SEQUENTIAL)]
    pairs += [(PARALLEL_PLUS[reading], SEQUENTIAL_PLUS[reading]) for reading in (PRINTED, RUN)]
    pairs += [(system, BPR) for system in FPL]
    pairs += [(USER_KNN, system) for system in (BPR, *FPL)]
    return [
        (
            points[a].label,
            points[b].label,
            users_of(points[a].looks, metric),
            users_of(points[b].looks, metric),
        )
        for a, b in pairs
        if a in points and b in points
    ]


def diverged_note(trained: Trained) -> list[str]:
    """Names the trainings that diverge at a rate, and the rate that each system chose."""
    names = [point.label for point in trained.more.points if not point.looks]
    chosen = [
        f"{point.system} {point.chosen.settings['learning_rate']:g}"
        for point in trained.more.points
        if point.rate == CHOSEN_RATE and point.chosen
    ]
    return [
        worded(
            "fpl",
            "rates",
            name=trained.name,
            failed="; ".join(trained.more.failed) or "none",
            diverged=", ".join(names) or "none",
            chosen=", ".join(chosen),
            readings="; ".join(READINGS.values()),
        )
    ]


def _cost(study: Study, chosen: Chosen, reading: str) -> float:
    """The communication cost of a training by the formula of section 6.3, in UNIT vectors."""
    catalogue = study.part("test").trained.catalogue
    shape = Country(
        study.name, study.name, catalogue.users, catalogue.items, catalogue.interactions
    )
    pi = chosen.settings["pi"]
    return tcc(shape, chosen.algorithm, pi, chosen.epochs, reading) / UNIT


def cost_figures(trained: Trained) -> dict[str, str]:
    """Draws figure 4, cost against precision, at each rate."""
    drawn = dict[str, str]()
    rates = dict.fromkeys(point.rate for point in trained.more.points if point.rate)
    for rate in rates:
        series = {
            str(point.system): (
                [_cost(trained.study, point.chosen, point.system.reading)],
                [_mean(point, ACCURACY[0])],
            )
            for point in trained.more.points
            if point.rate == rate and point.system in FPL and point.looks
        }
        axes = FigureFormat(title=f"Figure 4: {trained.name}, {rate}", x_label=COST, y_label="P@10")
        drawn[f"cost-precision-{rate.replace(' ', '-')}-{trained.name}"] = scatter(series, axes)
    return drawn


# ---- figures 2 and 3 -----------------------------------------------------------------------------


def rows_over_pi(trained: Trained) -> list[Row]:
    """Returns F1, coverage, precision and cost of each system, rate and pi."""
    rows = list[Row]()
    for point in trained.more.over_pi:
        figures = {
            F1: [f1_at(look) for look in point.looks],
            DIVERSITY[0]: each(point.looks, DIVERSITY[0]),
            ACCURACY[0]: each(point.looks, ACCURACY[0]),
            COST: [],
        }
        if point.looks:
            cost = _cost(trained.study, point.chosen, point.system.reading)
            figures[COST] = [cost] * len(point.looks)
        printed_under = f"{point.system.algorithm} pi {point.pi:g}"
        for metric, values in figures.items():
            paper = PRINTED_OVER_PI.get((trained.name, printed_under, metric))
            rows.append(_row(trained, point, point.label_of_pi, metric, values, paper))
    return rows


def tests_over_pi(trained: Trained) -> list[dict[str, Any]]:
    """Returns tests over users and seeds of each pi against the largest, for each system and rate.

    Holm's correction is over the pairs of a rate and metric.
    """
    tests = list[dict[str, Any]]()
    for rate in dict.fromkeys(point.rate for point in trained.more.over_pi):
        of_rate = [point for point in trained.more.over_pi if point.rate == rate and point.looks]
        for metric in ACCURACY:
            pairs = [
                (
                    point.label_of_pi,
                    most.label_of_pi,
                    users_of(point.looks, metric),
                    users_of(most.looks, metric),
                )
                for point in of_rate
                for most in of_rate
                if most.system == point.system and most.pi == PI[-1] and point is not most
            ]
            tests += tested_columns(trained.name, metric, pairs) if pairs else []
    return tests


def figures_over_pi(trained: Trained) -> dict[str, str]:
    """Draws figures 2 and 3 at each rate."""
    drawn = dict[str, str]()
    for rate in dict.fromkeys(point.rate for point in trained.more.over_pi):
        of_rate = [point for point in trained.more.over_pi if point.rate == rate and point.looks]
        by_system: dict[str, list[AtRate]] = {}
        for point in of_rate:
            by_system.setdefault(str(point.system), []).append(point)
        slug = rate.replace(" ", "-")
        f1 = {
            name: ([point.pi for point in mine], [_mean_f1(point) for point in mine])
            for name, mine in by_system.items()
        }
        path = {
            name: (
                [_mean(point, DIVERSITY[0]) for point in mine],
                [_mean(point, ACCURACY[0]) for point in mine],
            )
            for name, mine in by_system.items()
        }
        f1_format = FigureFormat(
            title=f"Figure 2: {trained.name}, {rate}", x_label="pi", y_label="F1@10"
        )
        path_format = FigureFormat(
            title=f"Figure 3: {trained.name}, {rate}, pi up to 1 (white)",
            x_label="IC@10, items recommended",
            y_label="P@10",
        )
        drawn[f"f1-{slug}-{trained.name}"] = lines(f1, f1_format)
        drawn[f"coverage-precision-{slug}-{trained.name}"] = scatter(path, path_format, joined=True)
    return drawn


def _mean_f1(point: AtRate) -> float:
    return sum(f1_at(look) for look in point.looks) / len(point.looks)


def _mean(point: AtRate, metric: str) -> float:
    return sum(each(point.looks, metric)) / len(point.looks)


def top_note(trained: Trained) -> list[str]:
    """States the pi at which each line has its top, at each rate."""
    said = []
    for rate in dict.fromkeys(point.rate for point in trained.more.over_pi):
        of_rate = [point for point in trained.more.over_pi if point.rate == rate and point.looks]
        tops = []
        for system in FPL:
            mine = [point for point in of_rate if point.system == system]
            if mine:
                top = max(mine, key=_mean_f1)
                tops.append(f"{system} {_mean_f1(top):.4f} at {top.pi:g}")
        said.append(f"{rate}: {', '.join(tops)}")
    return [worded("fpl", "rate-tops", name=trained.name, said="; ".join(said))]


def with_seeds(context: Context, notes: Sequence[str] = ()) -> list[Study]:
    """FPL's countries with SEEDS seeds, unless another number was asked for."""
    return countries(replace(context, seeds=context.seeds or SEEDS), notes)


EXPERIMENTS = {
    "fpl-rates": PaperTable(
        title="FPL at every learning rate of its grid (FPL, section 5.3, tables 2, 3 and 6,"
        " figure 4)",
        data=with_seeds,
        train=trained_at_every_rate,
        metrics=(*ACCURACY, *DIVERSITY),
        printed={**TABLE_2, **TABLE_3},
        rows=rows_of,
        tests=tests_of,
        findings=(diverged_note,),
        figures=cost_figures,
    ),
    "fpl-rates-pi": PaperTable(
        title="FPL over pi at every learning rate of its grid (FPL, figures 2 and 3)",
        data=with_seeds,
        train=trained_at_every_pi,
        metrics=(F1, DIVERSITY[0], ACCURACY[0], COST),
        printed=PRINTED_OVER_PI,
        rows=rows_over_pi,
        tests=tests_over_pi,
        findings=(diverged_note, top_note),
        figures=figures_over_pi,
    ),
}
