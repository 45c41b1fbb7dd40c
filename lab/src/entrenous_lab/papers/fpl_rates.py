"""FPL at every learning rate of its grid (section 5.3): tables 2 and 3 at 0.005, 0.05 and 0.5.

The paper gives all factor models the learning rate that BPR-MF chose. On Italy that is 0.5, the
corner of the grid, at which pFPL+ as run diverges. Here every system has every rate, under both
readings of the epoch. At each rate a system chooses pi and the number of epochs by its own
precision on validation rows; "chosen rate" is the rate with the best of these. Factors are 50,
as BPR-MF chose them. A training that diverges has a row without a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .cell import CurvePoint
from .effort import PRINTED, RUN
from .findings import tested_columns, user_means
from .fpl_accuracy import ACCURACY, DIVERSITY, TABLE_2, TABLE_3
from .fpl_search import READINGS, Chosen, Search, first_best
from .measures import each
from .opened import countries
from .result import Context, Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import Settings, worded

RATES = (0.005, 0.05, 0.5)
PI = (0.2, 0.5, 1.0)
FACTORS = 50
SEEDS = 5
CHOSEN_RATE = "chosen rate"
BPR = System("bpr-mf")
SEQUENTIAL, PARALLEL = System("sfpl", reading=PRINTED), System("pfpl", reading=PRINTED)
# Systems with local computation, and the partner without it that each is compared with.
PARTNERS = {
    System("sfpl+", reading=PRINTED): SEQUENTIAL,
    System("sfpl+", reading=RUN): SEQUENTIAL,
    System("pfpl+", reading=PRINTED): PARALLEL,
    System("pfpl+", reading=RUN): PARALLEL,
}
SYSTEMS = (BPR, SEQUENTIAL, PARALLEL, *PARTNERS)


class AtRate(NamedTuple):
    """A system at a point of the table, with its choice and its figures on the test rows."""

    system: System
    rate: str
    """The learning rate as the table names it, such as `rate 0.05`."""
    chosen: Chosen | None
    """Its choice on validation rows; None if every training diverged."""
    looks: list[CurvePoint]
    """An evaluation for each seed; none if a training diverged."""

    @property
    def label(self) -> str:
        """The name of the row, such as `pfpl+ (run), rate 0.05`."""
        return f"{self.system}, {self.rate}"


def settings_of(system: System, rate: float, epochs: Sequence[int]) -> list[Settings]:
    """Returns the settings that a system tries at a rate; only BPR-MF has epochs among them."""
    common = {"learning_rate": rate, "factors": FACTORS}
    if system == BPR:
        return [{**common, "epochs": number} for number in epochs]
    return [{**common, "pi": pi, "rounds_per_epoch": system.reading} for pi in PI]


def trained_at_every_rate(study: Study, _: Sequence[System]) -> Trained:
    """Chooses on validation rows at each rate, then opens the test rows; see `Trained.more`."""
    search = Search(study)
    epochs = search.grid.epochs
    tried = {
        (system, rate): settings_of(system, rate, epochs) for system in SYSTEMS for rate in RATES
    }
    cells = [
        search.cell(system.algorithm, settings, (0,) if system == BPR else epochs)
        for (system, _), several in tried.items()
        for settings in several
    ]
    outcomes = iter(search.outcomes(cells))
    chosen: dict[tuple[System, float], Chosen | None] = {}
    for (system, rate), several in tried.items():
        choices = [
            Chosen(system.algorithm, settings, look.epochs, look.metrics[ACCURACY[0]])
            for settings in several
            for look in next(outcomes).looks
        ]
        chosen[system, rate] = first_best(choices)
    present = {place: choice for place, choice in chosen.items() if choice is not None}
    looks = dict(zip(present, search.test_looks(list(present.values())), strict=True))
    points = [
        AtRate(system, f"rate {rate:g}", choice, looks.get((system, rate), []))
        for (system, rate), choice in chosen.items()
    ]
    points += [point for system in SYSTEMS for point in _at_chosen_rate(system, points)]
    return Trained(study=study, systems=[], more=points)


def _at_chosen_rate(system: System, points: Sequence[AtRate]) -> list[AtRate]:
    """The point of a system whose precision on validation rows is best; none if all diverged."""
    mine = [point for point in points if point.system == system]
    best = first_best(point.chosen for point in mine if point.chosen is not None)
    return [point._replace(rate=CHOSEN_RATE) for point in mine if point.chosen is best][:1]


def rows_of(trained: Trained) -> list[Row]:
    """Returns a row for each system, rate and metric."""
    search = Search(trained.study)
    printed = {**TABLE_2, **TABLE_3}
    lines = []
    for point in trained.more:
        protocol = search.protocol(point.system, point.chosen)
        for metric in (*ACCURACY, *DIVERSITY):
            lines.append(
                seed_row(
                    trained.name,
                    point.label,
                    metric,
                    each(point.looks, metric),
                    printed.get((trained.name, point.system.algorithm, metric)),
                    protocol,
                    seeds=list(trained.study.seeds),
                    settings=point.chosen.settings if point.chosen else None,
                    epochs=point.chosen.epochs if point.chosen else None,
                )
            )
    return lines


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns paired tests over users at each rate: "+" against its partner, all against BPR-MF.

    Holm's correction is over the pairs of a rate and metric.
    """
    at: dict[str, dict[System, AtRate]] = {}
    for point in trained.more:
        if point.looks:
            at.setdefault(point.rate, {})[point.system] = point
    return [
        test
        for points in at.values()
        for metric in ACCURACY
        for test in tested_columns(trained.name, metric, _columns(points, metric))
    ]


def _columns(points: Mapping[System, AtRate], metric: str) -> list[tuple[str, str, Any, Any]]:
    """The pairs of systems at one rate, with the means of users over seeds."""
    pairs = [*PARTNERS.items(), *((system, BPR) for system in SYSTEMS if system != BPR)]
    return [
        (
            points[a].label,
            points[b].label,
            user_means(points[a].looks, metric),
            user_means(points[b].looks, metric),
        )
        for a, b in pairs
        if a in points and b in points
    ]


def diverged_note(trained: Trained) -> list[str]:
    """Names the systems that diverge at a rate, and the rate that each system chose."""
    names = [point.label for point in trained.more if not point.looks]
    chosen = [
        f"{point.system} {point.chosen.settings['learning_rate']:g}"
        for point in trained.more
        if point.rate == CHOSEN_RATE and point.chosen
    ]
    return [
        worded(
            "fpl",
            "rates",
            name=trained.name,
            diverged=", ".join(names) or "none",
            chosen=", ".join(chosen),
            readings="; ".join(READINGS.values()),
        )
    ]


def _opened(context: Context, notes: Sequence[str] = ()) -> list[Study]:
    """FPL's countries with SEEDS seeds, unless another number was asked for."""
    return countries(replace(context, seeds=context.seeds or SEEDS), notes)


EXPERIMENTS = {
    "fpl-rates": PaperTable(
        title="FPL at every learning rate of its grid (FPL, section 5.3, tables 2 and 3)",
        data=_opened,
        train=trained_at_every_rate,
        metrics=(*ACCURACY, *DIVERSITY),
        printed={**TABLE_2, **TABLE_3},
        rows=rows_of,
        tests=tests_of,
        findings=(diverged_note,),
    )
}
