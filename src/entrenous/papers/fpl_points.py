"""Every configuration of FPL at every pi, each with the number of epochs that validation chose for it: table 4, figures 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .cell import CurvePoint
from .fpl_grid import PRINTED, RUN
from .fpl_search import FPL_SYSTEMS, Chosen, Search, twin
from .result import Row, row
from .study import Study, System
from .table import Trained
from .values import Printed

NAMES = {"sfpl": "sFPL", "sfpl+": "sFPL+", "pfpl": "pFPL", "pfpl+": "pFPL+"}


class Point(NamedTuple):
    """One training: its pi and other settings, and what it scored on the test rows."""

    pi: float
    chosen: Chosen
    look: CurvePoint


Points = Mapping[System, list[Point]]


def swept(study: Study, systems: Sequence[System]) -> Trained:
    """The `train` of tables over pi; `more` is (the Search, the points of each configuration and reading by ascending pi).

    Points that diverged are not among them.
    """
    search = Search(study)
    sweeps = {system: sorted(search.sweeps[system].items()) for system in FPL_SYSTEMS}
    looks = iter(search.test_looks([chosen for sweep in sweeps.values() for _, chosen in sweep]))
    every = {system: [(pi, chosen, next(looks)) for pi, chosen in sweep] for system, sweep in sweeps.items()}
    points = {
        system: [Point(pi, chosen, look) for pi, chosen, look in sweep if look is not None] for system, sweep in every.items()
    }
    return Trained(study=study, systems=FPL_SYSTEMS, more=(search, points))


def points_of(trained: Trained) -> Points:
    """The points of each configuration and reading."""
    points: Points = trained.more[1]
    return points


def point_row(trained: Trained, system: System, point: Point, metric: str, obtained: float, paper: Printed) -> Row:
    """A row of one metric at one pi; the paper's numbers are under `SYSTEM pi PI`."""
    printed = paper.get((trained.name, f"{system.algorithm} pi {point.pi:g}", metric))
    more = {"reading": system.reading, "pi": point.pi, "settings": point.chosen.settings, "epochs": point.chosen.epochs}
    said = trained.more[0].protocol(system, point.chosen)
    return row(trained.name, system.algorithm, metric, paper=printed, obtained=obtained, protocol=said, **more)


def lines_of(points: Points) -> dict[str, list[Point]]:
    """{name in a figure: points with pi > 0}, as the paper draws them; with T = 1 both readings are one line."""
    lines = {name_of(system): [point for point in mine if point.pi > 0] for system, mine in points.items() if not twin(system)}
    return {name: mine for name, mine in lines.items() if mine}


def name_of(system: System) -> str:
    """`pFPL`, `pFPL+ (run)`."""
    name = NAMES[system.algorithm]
    return f"{name} ({system.reading})" if system.algorithm.endswith("+") else name


def compared_line(name: str) -> str:
    """The line that a printed point stands beside: of FPL+ the epoch as run, as the authors' program has it."""
    return name_of(System(name, reading=RUN if name.endswith("+") else PRINTED))
