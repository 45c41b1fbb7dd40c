"""`RatingStudy`: rating prediction on one data set under cross-validation (FBALF, section 5.1.4): what systems err by in every fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from ..core.errors import InputError
from ..core.protocols import FederatedAlgorithm
from ..data.interactions import Interactions
from ..data.load import load
from ..evaluate.ratings import ERRORS
from ..split.protocol import splits
from .cell import Cell, Look, Parts, parts_of
from .cells import Cells
from .ncf_study import said
from .rating_settings import Settings, tuned
from .result import Context, Found, Paper, Row, row

PROTOCOL, FOLDS = "kfold-5", 5
ENOUGH = 10  # ratings that a user or an item must have where "users and items with fewer than 10 ratings" are removed


class System(NamedTuple):
    """What is trained: an algorithm with the settings chosen for `label` (the algorithm's name, unless given), `own` to make it what the
    label says, and `more` in place of those."""

    algorithm: str
    label: str = ""
    own: tuple[tuple[str, Any], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        replaced = [f"{name} {str(value).lower()}" for name, value in self.more]
        return ", ".join([self.name, *replaced])

    @property
    def name(self) -> str:
        """Under which its settings were chosen."""
        return self.label or self.algorithm

    def replaced(self, **more: Any) -> System:
        """The same with other settings in place of the chosen ones."""
        return self._replace(more=tuple(more.items()))


class Source(NamedTuple):
    """Where the rows come from. filtered: whether users and items with fewer than ENOUGH ratings are removed."""

    name: str
    filtered: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {ENOUGH} or more ratings" if self.filtered else self.name

    def read(self) -> Interactions:
        """Raises InputError if the data set is absent."""
        return load(self.name, min_rows=ENOUGH if self.filtered else 1)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RatingStudy:
    """One data set. chosen_on: the data set whose settings are used; filtered: whether rare users and items were removed from it.
    folds: how many of the five are tested."""

    data: Interactions
    chosen_on: str
    filtered: bool = False
    cells: Cells
    seed: int = 0
    folds: int = FOLDS

    @property
    def name(self) -> str:
        """Of the data set, as tables have it."""
        return self.data.name

    @property
    def slug(self) -> str:
        """The same for the name of a file."""
        return self.name.replace(" ", "-").replace(",", "")

    @cached_property
    def parts(self) -> list[Parts]:
        """Those of each fold. Raises InputError if there are too few rows."""
        return [parts_of(split) for split in splits(PROTOCOL, self.data, seed=self.seed)[: self.folds]]

    def settings(self, system: System) -> Settings:
        """What a system is trained with, where it differs from the defaults."""
        return {**tuned(self.chosen_on, system.name).settings, **dict(system.own), **dict(system.more)}

    def cell(self, system: System, settings: Settings | None = None) -> Cell:
        """The training of a system, evaluated at its end."""
        chosen = self.settings(system) if settings is None else settings
        made = Cell(algorithm=system.algorithm, settings=chosen, part="test").made(self.data)
        looks = (made.rounds,) if isinstance(made, FederatedAlgorithm) else (0,)  # type: ignore[attr-defined]
        return Cell(algorithm=system.algorithm, settings=chosen, part="test", looks=looks, seed=self.seed)

    def tested(self, systems: Sequence[System]) -> dict[System, list[Look]]:
        """What each scored on the test rows of every fold; the list is empty if a training diverged."""
        pairs = [(parts["test"], self.cell(system)) for system in systems for parts in self.parts]
        outcomes, found = self.cells.outcomes_of(pairs), dict[System, list[Look]]()
        for number, system in enumerate(systems):
            mine = outcomes[number * len(self.parts) : (number + 1) * len(self.parts)]
            found[system] = [look for one in mine for look in one.looks] if all(one.looks for one in mine) else []
        return found

    def protocol(self, system: System) -> str:
        """How a row came about, in words."""
        low, high = self.data.rating_scale
        found = tuned(self.chosen_on, system.name)
        settings = f"settings {found.by or 'not searched: the defaults'}: {said(self.settings(system)) or 'none'}"
        return f"{self.name}, {PROTOCOL}, {self.folds} folds, clipped to {low:g} .. {high:g}; {settings}; seed {self.seed}"

    def row(self, system: System, metric: str, values: Sequence[float], paper: float | None, **more: Any) -> Row:
        """The mean over folds, with the standard deviation over them; no values: it diverged."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return row(
            self.name,
            str(system),
            metric,
            paper=paper,
            obtained=float(np.mean(values)) if len(values) else None,
            protocol=self.protocol(system) if len(values) else f"{self.protocol(system)}; training diverged",
            reading="",
            spread=spread,
            values=[float(value) for value in values],
            settings=self.settings(system),
            **more,
        )

    def rows(self, system: System, looks: Sequence[Look], paper: Paper) -> list[Row]:
        """MAE and RMSE."""
        return [
            self.row(system, metric, [look.metrics[metric] for look in looks], paper.get((self.name, str(system), metric)))
            for metric in ERRORS
        ]


def studies(context: Context, sources: Sequence[Source], quick: Sequence[Source], found: Found) -> list[RatingStudy]:
    """A study for each source, or for the context's own data; what is absent is named in a note. Quick: two folds of `quick`."""
    folds, made = (2 if context.quick else FOLDS), []
    for source in [Source(context.data.name)] if context.data is not None else (quick if context.quick else sources):
        try:
            data = source.read() if context.data is None else context.data
            data = replace(data, name=str(source))
            study = RatingStudy(
                data=data, chosen_on=source.name, filtered=source.filtered, cells=context.cells, seed=context.seed, folds=folds
            )
            _ = study.parts
        except InputError as missing:
            found.notes.append(f"Left out: {missing}")
        else:
            made.append(study)
    return made


def over_sources(
    one: Callable[[RatingStudy], Found], sources: Sequence[Source], quick: Sequence[Source]
) -> Callable[[Context], Found]:
    """The `run` of an experiment that does the same for every source."""

    def run(context: Context) -> Found:
        found = Found()
        for study in studies(context, sources, quick, found):
            found.add(one(study))
        return found

    return run
