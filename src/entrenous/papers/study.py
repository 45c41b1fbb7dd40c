"""`Study`: one data set under the paper's protocol; what chose the settings of every system, and what they score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

from ..core.errors import InputError
from ..data.interactions import Interactions
from ..split.protocol import splits
from ..split.types import Split
from .cell import Cell, Look, Outcome, Parts, parts_of
from .cells import Cells
from .grid import CONFIGURATIONS, FCF, PRINTED, RUN, Grid, Settings

PROTOCOL = "temporal-80-20"
CHOSEN_BY = "precision@10"  # the paper's tables print the best of this


class System(NamedTuple):
    """A row of table 2. reading: of rounds per epoch, "" for systems without epochs of triples."""

    name: str
    reading: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.reading})" if self.reading else self.name

    @property
    def twin(self) -> bool:
        """Whether it is the training of another system: with T = 1 both readings are one."""
        return self.reading == RUN and not self.name.endswith("+")

    @property
    def computed_as(self) -> str:
        """The reading it is computed under."""
        return PRINTED if self.twin else self.reading

    @property
    def printed_as(self) -> str:
        """The system of the paper that it stands beside: the paper has one FCF."""
        return "fcf" if self.name in FCF else self.name


FPL_SYSTEMS = tuple(System(name, reading) for name in CONFIGURATIONS for reading in (PRINTED, RUN))
WITHOUT_SETTINGS = ("random", "popular")
CENTRAL = ("user-knn", "item-knn", "vae", "bpr-mf")
SYSTEMS = (*(System(name) for name in (*WITHOUT_SETTINGS, *CENTRAL, *FCF)), *FPL_SYSTEMS)


class Chosen(NamedTuple):
    """What validation chose. epochs: 0 for a centralised system. validation: its CHOSEN_BY there, NaN if there was no choice."""

    algorithm: str
    settings: Settings
    epochs: int = 0
    validation: float = math.nan

    def sentence(self) -> str:
        """The settings in words."""
        words = [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in self.settings.items()]
        unit = "rounds" if self.algorithm in FCF else "epochs"
        words += [f"{self.epochs} {unit}"] if self.epochs else []
        words += ["no settings"] if not words else []
        chosen = "" if math.isnan(self.validation) else f" (best {CHOSEN_BY} on validation: {self.validation:.5f})"
        return ", ".join(words) + chosen


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """One data set under `temporal-80-20`. country: its name in the paper's tables, "" for other data."""

    country: str
    data: Interactions
    grid: Grid
    cells: Cells
    seed: int = 0

    @cached_property
    def split(self) -> Split:
        """Raises InputError if users have too few rows for validation."""
        split = splits(PROTOCOL, self.data, seed=self.seed)[0]
        if split.validation is None:
            raise InputError(self.data.name, "no user has enough rows for validation", expected="users with 7 rows or more")
        return split

    @cached_property
    def parts(self) -> Parts:
        return parts_of(self.split)

    def outcomes(self, cells: Sequence[Cell]) -> list[Outcome]:
        """The outcomes of cells of this study."""
        return self.cells.outcomes(self.parts, cells)

    def protocol(self, system: System, chosen: Chosen | None) -> str:
        """The protocol of a row, in words."""
        competing = int((self.parts["test"].rows.popularity > 0).sum())
        readings = {
            PRINTED: "rounds per epoch as printed: an epoch is X+ triples",
            RUN: "rounds per epoch as run: X+ / |U-| whatever T, an epoch is T times X+ triples",
        }
        parts = [
            f"{self.data.name}, {PROTOCOL}, full ranking of {competing} items",
            readings.get(system.reading, ""),
            "" if chosen is None else chosen.sentence(),
            f"seed {self.seed}",
            "quick excerpt of the grid" if self.grid.quick else "",
        ]
        return "; ".join(filter(None, parts))

    # ---- choosing, on validation rows alone ------------------------------------------------------------------------------------

    @cached_property
    def chosen(self) -> Mapping[System, Chosen | None]:
        """The settings of every system of table 2; None where it cannot be trained here or diverged."""
        self._prepare()
        found: dict[System, Chosen | None] = {System(name): Chosen(name, {}) for name in WITHOUT_SETTINGS}
        found |= {System(name): self._best(name, self.grid.central()[name]) for name in CENTRAL}
        found |= {System(name): self._best(name, [self._shared], self.grid.fcf_rounds) for name in FCF}
        found |= {system: first_best(self.sweeps[system].values()) for system in FPL_SYSTEMS}
        return {system: found[system] for system in SYSTEMS}

    @cached_property
    def sweeps(self) -> Mapping[System, Mapping[float, Chosen]]:
        """For each configuration and reading, {pi: the settings with the best number of epochs}."""
        self.outcomes(self._fpl_cells())
        return {system: self._sweep(system) for system in FPL_SYSTEMS}

    def _sweep(self, system: System) -> dict[float, Chosen]:
        reading = system.computed_as
        looks = self.grid.epochs_of(reading)
        found = {pi: self._best(system.name, [self._fpl(reading, pi)], looks) for pi in self.grid.pi_of(reading)}
        return {pi: chosen for pi, chosen in found.items() if chosen is not None}

    @cached_property
    def _shared(self) -> Settings:
        """The learning rate and factors that BPR-MF chose, which FPL and FCF take over (section 5.3)."""
        bpr = self._best("bpr-mf", self.grid.central()["bpr-mf"])
        if bpr is None:
            raise InputError(self.data.name, "BPR-MF diverged with every setting of the grid", expected="data with more rows")
        return {name: bpr.settings[name] for name in ("learning_rate", "factors")}

    def _fpl(self, reading: str, pi: float) -> Settings:
        return {**self._shared, "pi": pi, "rounds_per_epoch": reading}

    def _best(self, algorithm: str, grid: Sequence[Settings], looks: tuple[int, ...] = (0,)) -> Chosen | None:
        """The settings and number of epochs with the best CHOSEN_BY on validation, the first of equals; None without any."""
        outcomes = self.outcomes([self._cell(algorithm, settings, looks) for settings in grid])
        return first_best(
            Chosen(algorithm, settings, look.epochs, look.metrics[CHOSEN_BY])
            for settings, outcome in zip(grid, outcomes, strict=True)
            for look in outcome.looks
        )

    def _prepare(self) -> None:
        """Everything that waits for BPR-MF's choice, in one go, the longest first."""
        fcf = [self._cell(name, self._shared, self.grid.fcf_rounds) for name in FCF]
        central = [
            self._cell(name, own) for name in ("vae", "user-knn", "item-knn") for own in reversed(self.grid.central()[name])
        ]
        self.outcomes([*fcf, *central, *self._fpl_cells()])

    def _fpl_cells(self) -> list[Cell]:
        once = sorted((system for system in FPL_SYSTEMS if not system.twin), key=lambda system: system.reading != RUN)
        return [
            self._cell(system.name, self._fpl(system.reading, pi), self.grid.epochs_of(system.reading))
            for system in once
            for pi in self.grid.pi_of(system.reading)
        ]

    def _cell(self, algorithm: str, settings: Settings, looks: tuple[int, ...] = (0,)) -> Cell:
        return Cell(algorithm=algorithm, settings=settings, part="validation", looks=looks, seed=self.seed)

    # ---- the test rows, opened once the settings are chosen --------------------------------------------------------------------

    def tested(self, systems: Iterable[System] = SYSTEMS) -> dict[System, Look | None]:
        """What each system scored on the test rows with its chosen settings; None if it has none or diverged."""
        chosen = {system: self.chosen[system] for system in systems}
        looks = iter(self.test_looks([choice for choice in chosen.values() if choice is not None]))
        return {system: None if choice is None else next(looks) for system, choice in chosen.items()}

    def test_looks(self, choices: Sequence[Chosen]) -> list[Look | None]:
        """The test look of each choice; None where training diverged."""
        cells = [
            Cell(algorithm=choice.algorithm, settings=choice.settings, part="test", looks=(choice.epochs,), seed=self.seed)
            for choice in choices
        ]
        return [outcome.looks[0] if outcome.looks else None for outcome in self.outcomes(cells)]


def first_best(choices: Iterable[Chosen]) -> Chosen | None:
    """The choice with the best validation, the first of equals; None of none."""
    return max(choices, key=lambda choice: choice.validation, default=None)
