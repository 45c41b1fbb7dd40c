"""The identity of a table's own code: what it makes of outcomes that are made up.

A table is a function of what its trainings gave. `table_sha256` runs the whole of it, on all of its
data sets and settings, with outcomes that are drawn from the name of each training in place of
trainings. Two programs that make the same rows, findings and tests of the same made-up outcomes
make them of the same real ones, as far as the made-up ones reach: what a table counts by category
is empty here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from .cell import Cell, CellPart, CurvePoint, Outcome
from .remember import Cells
from .result import Context, Found

LEAST, MOST = 0.1, 0.9  # of a made-up figure
MESSAGES = 1000  # of every count
FIGURE = ("data", "system", "metric", "pi", "obtained", "values")  # of a row, what decides
TIMES = ("cpu", "seconds", "cpu_seconds")  # metrics that differ from run to run


class Drawn(dict[str, Any]):
    """A mapping that has every name: the value of a name is drawn from it and from a seed."""

    def __init__(self, seed: str, draw: Callable[[np.random.Generator], Any]) -> None:
        super().__init__()
        self.seed = seed
        self.draw = draw

    def __missing__(self, name: str) -> Any:
        return self.draw(generator(f"{self.seed} {name}"))


def generator(seed: str) -> np.random.Generator:
    """Returns a generator whose numbers follow from a text."""
    digest = hashlib.sha256(seed.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def made_up(_: str, cell: Cell, part: CellPart) -> Outcome:
    """Returns the made-up outcome of a training, which follows from what is trained on which rows
    and from nothing of the program.
    """
    users = int((part.held.rows.counts > 0).sum())
    label = f"{part.rows.name}, {cell.label}, seed {cell.seed}, {len(part.rows)} rows"
    looks = [_look(f"{label}, look {n}", epochs, users) for n, epochs in enumerate(cell.looks)]
    return Outcome(looks, "", 0.0)


def _look(seed: str, epochs: int, users: int) -> CurvePoint:
    def figure(random: np.random.Generator) -> float:
        return float(random.uniform(LEAST, MOST))

    def column(random: np.random.Generator) -> list[float]:
        return [float(value) for value in random.uniform(LEAST, MOST, users)]

    metrics = Drawn(seed, figure)
    return CurvePoint(
        epochs=epochs,
        rounds=epochs,
        metrics=metrics,
        by_category=Drawn(seed, lambda random: Drawn(f"{seed} {random.random()}", figure)),
        ledger=Drawn(seed, lambda random: int(random.integers(1, MESSAGES))),
        per_user=Drawn(seed, column),
        seconds=figure(generator(f"{seed} seconds")),
        cpu_seconds=figure(generator(f"{seed} cpu")),
        full=Drawn(f"{seed} full", figure),
        fairness=Drawn(f"{seed} fairness", figure),
        also=Drawn(seed, lambda random: Drawn(f"{seed} {random.random()}", figure)),
        nodes=Drawn(seed, lambda random: random.integers(1, MESSAGES, users).tolist()),
    )


def recorded_sha256(table: Any, **asked: Any) -> str:
    """Returns the identity of the figures that a table makes of made-up outcomes; "" if it makes
    none, if such outcomes do not suit it, or if it trains outside of cells (`before`). `asked`: as
    in `Context`. Nothing is trained.
    """
    if table.before is not None:
        return ""
    try:
        found = table.run(Context(cells=Cells(stand_in=made_up), **asked))
    except Exception:
        return ""
    return found_sha256(found) if found.rows else ""


def found_sha256(found: Found) -> str:
    """Returns the identity of the figures of what was found, without its words and without
    measured times.
    """
    rows = [[row.get(name) for name in FIGURE] for row in found.rows if row["metric"] not in TIMES]
    text = json.dumps([rows, found.tests], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
