"""What an experiment finds: rows of ours beside the paper's, findings in words, figures,
significance tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from entrenous.data.interactions import Interactions

from .effort import Effort, Grid
from .remember import Cells

Row = dict[str, Any]


def row(
    data: str,
    system: str,
    metric: str,
    *,
    paper: float | None,
    obtained: float | None,
    protocol: str,
    **more: Any,
) -> Row:
    """One figure of ours beside the paper's, None where there is none. more: reading, pi, settings,
    epochs; spread and values where `obtained` is a mean over seeds."""
    return {
        "data": data,
        "system": system,
        "metric": metric,
        "paper": paper,
        "obtained": obtained,
        "protocol": protocol,
        **more,
    }


@final
@dataclass(frozen=True, kw_only=True)
class Found:
    """rows: see `row`. notes: findings, a paragraph each. figures: {name: SVG}. tests: paired
    t-tests between systems.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    tests: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Appends what was found on another data set."""
        self.rows.extend(other.rows)
        self.notes.extend(other.notes)
        self.figures.update(other.figures)
        self.tests.extend(other.tests)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """What an experiment runs in. data: rows to use in place of the paper's, None = the paper's.

    grid, effort: what is tried (FPL) and how much is trained (Cali3F), None = the full or the quick
    one. seeds: how many, 0 = as many as the budget of a data set has. only: the data sets to run,
    of those that the experiment has; () = all. done: data sets that are left out, since a stored
    result has them."""

    cells: Cells
    quick: bool = False
    seed: int = 0
    seeds: int = 0
    only: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    data: Interactions | None = None
    grid: Grid | None = None
    effort: Effort | None = None

    def wants(self, *names: str) -> bool:
        """Whether a data set, by any of its names, is to be run."""
        return set(self.done).isdisjoint(names) and (
            not self.only or not set(self.only).isdisjoint(names)
        )

    def seed_numbers(self, usual: int) -> range:
        """The seeds of a table that has no study. usual: how many it has unless it is told."""
        return range(self.seed, self.seed + (self.seeds or usual))

    def uses(self, algorithm: str, data: Interactions) -> None:
        """Notes what is trained on which rows, for the pins of a stored result."""
        self.cells.algorithms.add(algorithm)
        self.cells.pins[data.name] = data.sha256()


@final
@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """A finished experiment, and what it found, as in `Found`.

    computed: trainings that were done now; remembered: those that were not. folder: where it was
    written, if it was. origin: see `provenance`.
    """

    name: str
    title: str
    quick: bool
    rows: list[Row]
    notes: list[str]
    figures: dict[str, str]
    tests: list[dict[str, Any]]
    seconds: float = 0.0
    computed: int = 0
    remembered: int = 0
    folder: Path | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What `entrenous experiment NAME --json` prints; figures by file."""
        files = [f"{name}.svg" for name in self.figures]
        return {
            "experiment": self.name,
            "title": self.title,
            "quick": self.quick,
            "rows": self.rows,
            "notes": self.notes,
            "tests": self.tests,
            "figures": files
            if self.folder is None
            else [str(self.folder / file) for file in files],
            "seconds": self.seconds,
            "computed": self.computed,
            "remembered": self.remembered,
            "folder": None if self.folder is None else str(self.folder),
            "origin": dict(self.origin),
        }
