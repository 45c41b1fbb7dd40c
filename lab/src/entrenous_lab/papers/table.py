"""`PaperTable`: a table or figure of a paper as a declaration, and the one engine that trains and
measures what it declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from entrenous.core.errors import InputError

from .cell import CurvePoint, Outcome
from .measures import each
from .result import Context, Found, Row, row
from .study import Study, System
from .values import Printed

DIVERGED = "training diverged"  # the end of the protocol of a row without a figure


@final
@dataclass(eq=False, kw_only=True)
class Trained:
    """What was trained for a table on one data set, and what the table made of it.

    looks: evaluations on test rows, one for each seed. rounds: how long each system was trained.
    curves: evaluations on validation rows. more: what a table's own `train` adds. seeds: of the
    values in its rows, () = the study's. conditions: added to every row's protocol. rows, tests: as
    in `Found`, there once the findings are asked for."""

    study: Study
    systems: Sequence[System]
    looks: Mapping[System, Sequence[CurvePoint]] = field(default_factory=dict)
    rounds: Mapping[System, int] = field(default_factory=dict)
    curves: Mapping[System, Sequence[Outcome]] = field(default_factory=dict)
    more: Any = None
    seeds: Sequence[int] = ()
    conditions: str = ""
    censored: Mapping[System, Sequence[bool]] = field(default_factory=dict)
    """For figures of curves: whether the curve of each seed still rose at its last round, so that
    the figure is a bound and not a measurement. Empty for other figures."""
    rows: list[Row] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the data set that was trained on."""
        return self.study.name

    @property
    def slug(self) -> str:
        """The same for the name of a file."""
        return self.study.source.slug

    def means(self, systems: Iterable[System], metric: str) -> dict[str, float]:
        """The mean over seeds of a metric of each system that was trained."""
        return {
            str(s): float(np.mean([look.metrics[metric] for look in self.looks[s]]))
            for s in systems
            if self.looks.get(s)
        }


Values: TypeAlias = Mapping[str, Sequence[float]]  # {metric: the value of every seed}
Metrics: TypeAlias = Sequence[str] | Callable[[Trained, System], Values]
Train: TypeAlias = Callable[[Study, list[System]], Trained]


def on_test_rows(
    study: Study, systems: list[System], seeds: Sequence[int] = (), *, timed: bool = False
) -> Trained:
    """Trains each system and evaluates it on the test rows at its end. timed: one after another, so
    that seconds can be compared.
    """
    looks = study.tested(systems, seeds, timed=timed)
    return Trained(
        study=study, systems=systems, looks=looks, rounds=study.rounds(systems), seeds=seeds
    )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class PaperTable:
    """A table or figure of a paper.

    title: what it is. data: opens its data sets, and names those that are absent. systems: what is
    trained. metrics: what is measured, as in `metric_rows`. train: how it is trained and evaluated.
    printed: the paper's numbers. rows: makes the rows, where metrics are not enough. tests: between
    systems. findings: paragraphs in words. figures: {name: SVG}. before, after: what needs no
    training, and what needs all data sets."""

    title: str
    data: Callable[[Context, list[str]], Sequence[Study]]
    systems: Sequence[System] | Callable[[Study], Sequence[System]] = ()
    metrics: Metrics = ()
    train: Train = on_test_rows
    printed: Printed = field(default_factory=dict)
    rows: Callable[[Trained], list[Row]] | None = None
    tests: Callable[[Trained], list[dict[str, Any]]] | None = None
    findings: Sequence[Callable[[Trained], Sequence[str]]] = ()
    figures: Callable[[Trained], Mapping[str, str]] | None = None
    before: Callable[[Context], Found] | None = None
    across: Callable[[Sequence[Row]], list[Row]] | None = None
    """Rows over several data sets, which follow from the rows of each."""
    after: Callable[[list[Trained]], Found] | None = None

    def run(self, context: Context) -> Found:
        """Everything on every data set; what is absent or does not fit is named in a note."""
        found = self.before(context) if self.before else Found()
        done = []
        for study in self.data(context, found.notes):
            try:
                trained = self.measured(study, found.notes)
            except InputError as refused:
                found.notes.append(f"{study.name}, left out: {refused}")
                continue
            done.append(trained)
            notes = [note for finding in self.findings for note in finding(trained)]
            figures = dict(self.figures(trained)) if self.figures else {}
            found.add(Found(rows=trained.rows, notes=notes, figures=figures, tests=trained.tests))
        if self.across:
            found.rows.extend(self.across(found.rows))
        if self.after:
            found.add(self.after(done))
        return found

    def measured(self, study: Study, notes: list[str]) -> Trained:
        """Trains on one data set and measures: rows and tests."""
        systems = self.systems(study) if callable(self.systems) else self.systems
        trained = self.train(study, study.fitting(systems, notes))
        trained.rows = (
            self.rows(trained) if self.rows else metric_rows(trained, self.metrics, self.printed)
        )
        trained.tests = self.tests(trained) if self.tests else []
        return trained


def metric_rows(trained: Trained, metrics: Metrics, printed: Printed) -> list[Row]:
    """A row for each system and metric. metrics: names, or a function that measures a system."""

    def values(system: System) -> Values:
        return (
            metrics(trained, system)
            if callable(metrics)
            else {name: each(trained.looks[system], name) for name in metrics}
        )

    return [
        line
        for system in trained.systems
        for line in system_rows(trained, system, values(system), printed)
    ]


def system_rows(trained: Trained, system: System, values: Values, printed: Printed) -> list[Row]:
    """A row for each metric of a system, and the paper's number where it printed one for what the
    system is called.
    """
    study, rounds, seeds = (
        trained.study,
        trained.rounds.get(system),
        trained.seeds or trained.study.seeds,
    )
    said = (
        study.protocol(system, seeds, None if study.budget.folds else rounds) + trained.conditions
    )
    more: dict[str, Any] = {
        "settings": study.settings(system),
        **({} if study.budget.folds else {"seeds": list(seeds), "epochs": rounds}),
    }
    known = {} if system.network else printed
    looked_up = str(system._replace(shared=False))
    censored = list(trained.censored.get(system, ()))
    if any(censored):
        more["censored"] = censored
    return [
        seed_row(
            study.name,
            str(system),
            metric,
            some,
            known.get((study.name, looked_up, metric)),
            said,
            **more,
        )
        for metric, some in values.items()
    ]


def system_of(row: Row) -> System:
    """The system of a row."""
    return System(row["system"], reading=row.get("reading", ""))


def seed_row(
    data: str,
    system: str,
    metric: str,
    values: Sequence[float],
    paper: float | None,
    protocol: str,
    **more: Any,
) -> Row:
    """A row with the mean, the sample standard deviation (None of one) and every value; without
    values: training diverged.
    """
    return row(
        data,
        system,
        metric,
        paper=paper,
        obtained=float(np.mean(values)) if len(values) else None,
        protocol=protocol if len(values) else f"{protocol}; {DIVERGED}",
        reading="",
        spread=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        values=[float(value) for value in values],
        **more,
    )
