"""Every configuration of FPL at every pi, each with the number of epochs that validation chose for it: figures 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .cell import Look
from .grid import PRINTED, RUN
from .result import Paper, Row, row
from .study import FPL_SYSTEMS, Chosen, Study, System

NAMES = {"sfpl": "sFPL", "sfpl+": "sFPL+", "pfpl": "pFPL", "pfpl+": "pFPL+"}


class Point(NamedTuple):
    """One training: its pi and other settings, and what it scored on the test rows."""

    pi: float
    chosen: Chosen
    look: Look


Points = Mapping[System, list[Point]]


def points_of(study: Study) -> Points:
    """The points of each configuration and reading by ascending pi, without those that diverged."""
    sweeps = {system: sorted(study.sweeps[system].items()) for system in FPL_SYSTEMS}
    looks = iter(study.test_looks([chosen for sweep in sweeps.values() for _, chosen in sweep]))
    every = {system: [(pi, chosen, next(looks)) for pi, chosen in sweep] for system, sweep in sweeps.items()}
    return {
        system: [Point(pi, chosen, look) for pi, chosen, look in sweep if look is not None] for system, sweep in every.items()
    }


def point_row(study: Study, system: System, point: Point, metric: str, obtained: float, paper: Paper) -> Row:
    """A row of one metric at one pi; the paper's numbers are under `SYSTEM pi PI`."""
    printed = paper.get((study.data.name, f"{system.name} pi {point.pi:g}", metric))
    more = {"reading": system.reading, "pi": point.pi, "settings": point.chosen.settings, "epochs": point.chosen.epochs}
    said = study.protocol(system, point.chosen)
    return row(study.data.name, system.name, metric, paper=printed, obtained=obtained, protocol=said, **more)


def lines_of(points: Points) -> dict[str, list[Point]]:
    """{name in a figure: points with pi > 0}, as the paper draws them; with T = 1 both readings are one line."""
    lines = {name_of(system): [point for point in mine if point.pi > 0] for system, mine in points.items() if not system.twin}
    return {name: mine for name, mine in lines.items() if mine}


def name_of(system: System) -> str:
    """`pFPL`, `pFPL+ (run)`."""
    return f"{NAMES[system.name]} ({system.reading})" if system.name.endswith("+") else NAMES[system.name]


def compared_line(name: str) -> str:
    """The line that a printed point stands beside: of FPL+ the epoch as run, as the authors' program has it."""
    return name_of(System(name, RUN if name.endswith("+") else PRINTED))
