"""`Search`: how section 5.3 of the FPL paper chooses the settings of every system of table 2, and
what they score on the test rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.errors import InputError

from .cell import Cell, CurvePoint, Outcome
from .effort import CONFIGURATIONS, FCF, GRIDS, PRINTED, RUN, Grid
from .measures import each
from .result import Row, row
from .study import Study, System
from .table import DIVERGED, Trained
from .values import Printed, Settings, said

CHOSEN_BY = "precision@10"  # the paper's tables print the best of this
WITHOUT_SETTINGS = ("random", "popular")
CENTRAL = ("user-knn", "item-knn", "vae", "bpr-mf")
FPL_SYSTEMS = tuple(
    System(name, reading=reading) for name in CONFIGURATIONS for reading in (PRINTED, RUN)
)
SYSTEMS = (*(System(name) for name in (*WITHOUT_SETTINGS, *CENTRAL, *FCF)), *FPL_SYSTEMS)
READINGS = {
    PRINTED: "rounds per epoch as printed: an epoch is X+ triples",
    RUN: "rounds per epoch as run: X+ / |U-| whatever T, an epoch is T times X+ triples",
}


def twin(system: System) -> bool:
    """Whether it is the training of another system: with T = 1 both readings are one."""
    return system.reading == RUN and not system.algorithm.endswith("+")


def computed_as(system: System) -> str:
    """The reading it is computed under."""
    return PRINTED if twin(system) else system.reading


class Chosen(NamedTuple):
    """What validation chose. epochs: 0 for a centralised system. validation: its CHOSEN_BY there,
    NaN if there was no choice.
    """

    algorithm: str
    settings: Settings
    epochs: int = 0
    validation: float = math.nan

    def sentence(self) -> str:
        """The settings in words."""
        unit = "rounds" if self.algorithm in FCF else "epochs"
        words = [
            *filter(None, [said(self.settings)]),
            *([f"{self.epochs} {unit}"] if self.epochs else []),
        ]
        chosen = (
            ""
            if math.isnan(self.validation)
            else f" (best {CHOSEN_BY} on validation: {self.validation:.5f})"
        )
        return (", ".join(words) or "no settings") + chosen


@final
@dataclass(frozen=True, eq=False)
class Search:
    """FPL's choice of settings on one data set, on validation rows alone; then the test rows are
    opened.
    """

    study: Study

    @property
    def grid(self) -> Grid:
        """The settings that the search tries on validation rows."""
        return self.study.grid or GRIDS[True]

    def outcomes(self, cells: Sequence[Cell]) -> list[Outcome]:
        """The outcomes of cells on this data set."""
        return self.study.cells.outcomes_of([(self.study.part(cell.part), cell) for cell in cells])

    def protocol(self, system: System, chosen: Chosen | None) -> str:
        """The protocol of a row, in words."""
        study, competing = self.study, int((self.study.part("test").rows.popularity > 0).sum())
        parts = [
            (
                f"{study.name}, {study.source.protocol}, training and full ranking over the"
                f" {competing} items with training rows"
            ),
            READINGS.get(system.reading, ""),
            "" if chosen is None else chosen.sentence(),
            f"seed{'s' if len(study.seeds) > 1 else ''} {', '.join(map(str, study.seeds))}",
            "quick excerpt of the grid" if self.grid.quick else "",
        ]
        return "; ".join(filter(None, parts))

    def row(
        self,
        system: System,
        chosen: Chosen | None,
        metric: str,
        values: Sequence[float],
        paper: float | None = None,
        words: str = "",
    ) -> Row:
        """A row of a system with chosen settings, of the value of each seed; none: training
        diverged. words: added to its protocol.
        """
        settings, epochs = (None, None) if chosen is None else (chosen.settings, chosen.epochs)
        more = {
            "reading": system.reading,
            "pi": (settings or {}).get("pi"),
            "settings": settings,
            "epochs": epochs,
        }
        if len(values) > 1:
            more |= {
                "spread": float(np.std(values, ddof=1)),
                "values": list(values),
                "seeds": list(self.study.seeds),
            }
        protocol, obtained = (
            self.protocol(system, chosen) + words,
            float(np.mean(values)) if len(values) else None,
        )
        return row(
            self.study.name,
            system.algorithm,
            metric,
            paper=paper,
            obtained=obtained,
            protocol=protocol,
            **more,
        )

    def why_absent(self, system: System) -> str:
        """Why a system has no figure of ours."""
        if system.algorithm == "vae" and not self.grid.vae:
            return "left out of the quick excerpt"
        return "needs entrenous[torch]" if system.algorithm == "vae" else DIVERGED

    # ---- choosing, on validation rows alone ------------------------------------------------------

    @cached_property
    def chosen(self) -> Mapping[System, Chosen | None]:
        """The settings of every system of table 2; None where it cannot be trained here or
        diverged.
        """
        self._prepare()
        found: dict[System, Chosen | None] = {
            System(name): Chosen(name, {}) for name in WITHOUT_SETTINGS
        }
        found |= {System(name): self._best(name, self.grid.central()[name]) for name in CENTRAL}
        found |= {
            System(name): self._best(name, [self._shared], self.grid.fcf_rounds) for name in FCF
        }
        found |= {system: first_best(self.sweeps[system].values()) for system in FPL_SYSTEMS}
        return {system: found[system] for system in SYSTEMS}

    @cached_property
    def sweeps(self) -> Mapping[System, Mapping[float, Chosen]]:
        """For each configuration and reading, {pi: the settings with the best number of epochs}."""
        self.outcomes(self._fpl_cells())
        return {system: self._sweep(system) for system in FPL_SYSTEMS}

    def _sweep(self, system: System) -> dict[float, Chosen]:
        reading = computed_as(system)
        looks = self.grid.epochs_of(reading)
        found = {
            pi: self._best(system.algorithm, [self._fpl(reading, pi)], looks)
            for pi in self.grid.pi_of(reading)
        }
        return {pi: chosen for pi, chosen in found.items() if chosen is not None}

    @cached_property
    def _shared(self) -> Settings:
        """The learning rate and factors that BPR-MF chose, which FPL and FCF take over (section
        5.3).
        """
        bpr = self._best("bpr-mf", self.grid.central()["bpr-mf"])
        if bpr is None:
            raise InputError(
                self.study.name,
                "BPR-MF diverged with every setting of the grid",
                expected="data with more rows",
            )
        return {name: bpr.settings[name] for name in ("learning_rate", "factors")}

    def _fpl(self, reading: str, pi: float) -> Settings:
        return {**self._shared, "pi": pi, "rounds_per_epoch": reading}

    def _best(
        self, algorithm: str, grid: Sequence[Settings], looks: tuple[int, ...] = (0,)
    ) -> Chosen | None:
        """The settings and number of epochs with the best CHOSEN_BY on validation, the first of
        equals; None without any.
        """
        outcomes = self.outcomes([self.cell(algorithm, settings, looks) for settings in grid])
        return first_best(
            Chosen(algorithm, settings, look.epochs, look.metrics[CHOSEN_BY])
            for settings, outcome in zip(grid, outcomes, strict=True)
            for look in outcome.looks
        )

    def _prepare(self) -> None:
        """Everything that waits for BPR-MF's choice, in one go, the longest first."""
        central, grid = ("vae", "user-knn", "item-knn"), self.grid.central()
        fcf = [self.cell(name, self._shared, self.grid.fcf_rounds) for name in FCF]
        others = [
            self.cell(name, settings) for name in central for settings in reversed(grid[name])
        ]
        self.outcomes([*fcf, *others, *self._fpl_cells()])

    def _fpl_cells(self) -> list[Cell]:
        once = sorted(
            (system for system in FPL_SYSTEMS if not twin(system)),
            key=lambda system: system.reading != RUN,
        )
        return [
            self.cell(
                system.algorithm, self._fpl(system.reading, pi), self.grid.epochs_of(system.reading)
            )
            for system in once
            for pi in self.grid.pi_of(system.reading)
        ]

    def cell(
        self,
        algorithm: str,
        settings: Settings,
        looks: tuple[int, ...] = (0,),
        part: Any = "validation",
        seed: int | None = None,
    ) -> Cell:
        """A training that is evaluated, on validation rows and with the study's first seed unless
        told otherwise.
        """
        return Cell(
            algorithm=algorithm,
            settings=settings,
            part=part,
            looks=looks,
            seed=self.study.seed if seed is None else seed,
        )

    # ---- the test rows, opened once the settings are chosen --------------------------------------

    def tested(self) -> dict[System, list[CurvePoint]]:
        """What each system scored on the test rows with its chosen settings, once a seed; nothing
        if it has none or diverged.
        """
        looks = iter(
            self.test_looks([choice for choice in self.chosen.values() if choice is not None])
        )
        return {
            system: [] if choice is None else next(looks) for system, choice in self.chosen.items()
        }

    def test_looks(self, choices: Sequence[Chosen]) -> list[list[CurvePoint]]:
        """The evaluations of each choice on the test rows, once a seed; none where a training
        diverged.
        """
        cells = [
            self.cell(choice.algorithm, choice.settings, (choice.epochs,), "test", seed)
            for choice in choices
            for seed in self.study.seeds
        ]
        looks = [outcome.looks[:1] for outcome in self.outcomes(cells)]
        several = [
            looks[n : n + len(self.study.seeds)]
            for n in range(0, len(looks), len(self.study.seeds))
        ]
        return [[look for some in mine for look in some] if all(mine) else [] for mine in several]


def first_best(choices: Iterable[Chosen]) -> Chosen | None:
    """The choice with the best validation, the first of equals; None of none."""
    return max(choices, key=lambda choice: choice.validation, default=None)


# ---- rows of a table over all systems ------------------------------------------------------------


def searched(study: Study, systems: Sequence[System]) -> Trained:
    """The `train` of tables over all systems; `more` is the Search."""
    search = Search(study)
    looks = search.tested()
    return Trained(study=study, systems=list(looks), looks=looks, more=search)


def row_of(
    trained: Trained, system: System, metric: str, values: Sequence[float], printed: Printed
) -> Row:
    """A row of one system. The paper's one FCF stands beside both of ours."""
    search: Search = trained.more
    paper = printed.get(
        (trained.name, "fcf" if system.algorithm in FCF else system.algorithm, metric)
    )
    absent = "" if trained.looks[system] else f"; {search.why_absent(system)}"
    return search.row(system, search.chosen[system], metric, values, paper, absent)


def rows_of_metrics(trained: Trained, metrics: Sequence[str], printed: Printed) -> list[Row]:
    """A row for each system and metric."""
    return [
        row_of(trained, system, metric, each(looks, metric), printed)
        for system, looks in trained.looks.items()
        for metric in metrics
    ]
