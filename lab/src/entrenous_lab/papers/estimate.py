"""How long what is left of an experiment will take: what it would train, at the pace of finished
trainings of the same algorithm.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, final

from entrenous.evaluation.protocol import RANKING

from .cell import Cell, CellPart, CurvePoint, Outcome
from .remember import Cells
from .result import Context
from .table import PaperTable

STOOD_IN = 0.5  # of every metric that no training has given
AS_MANY = math.log(1.25)  # rows of two trainings that are compared: within a quarter


class WorkLeft(NamedTuple):
    """missing: {identity: seconds on one core} of the trainings that are left; None where an
    algorithm was never timed here.

    What experiments do beside trainings (counts, audits) is not in it.
    """

    missing: Mapping[str, float | None]

    @property
    def seconds(self) -> float:
        """Of all whose pace is known."""
        return sum(filter(None, self.missing.values()))

    @property
    def unknown(self) -> int:
        """How many were never timed."""
        return sum(cost is None for cost in self.missing.values())

    @classmethod
    def together(cls, several: Iterable[WorkLeft]) -> WorkLeft:
        """What is left of several experiments, a training that they share once."""
        return cls({name: cost for one in several for name, cost in one.missing.items()})


@final
class TrainingCosts:
    """Seconds of a training for each row and epoch, by algorithm and number of rows: those of the
    remembered ones of a folder.
    """

    def __init__(self, folder: Path | None) -> None:
        self._of: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for path in sorted(folder.glob("*.json")) if folder is not None and folder.is_dir() else ():
            try:
                self._add(json.loads(path.read_text()))
            except (OSError, ValueError, KeyError, TypeError, IndexError):
                continue  # damaged, or not of a training

    def _add(self, kept: Mapping[str, Any]) -> None:
        rows = int(kept["rows"])
        self._of[kept["algorithm"]].append(
            (rows, kept["seconds"] / (rows * max(1, kept["looks"][-1]["epochs"])))
        )

    def of(self, cell: Cell, part: CellPart) -> float | None:
        """Seconds of one training, at the median pace of those on about as many rows (what a round
        costs beside its rows weighs more on small data); None if its algorithm was never timed."""
        known, rows = self._of.get(cell.algorithm), len(part.rows)
        if not known:
            return None
        apart = [abs(math.log(many / rows)) for many, _ in known]
        pace = median(
            pace for far, (_, pace) in zip(apart, known, strict=True) if far <= min(apart) + AS_MANY
        )
        return pace * rows * max(1, cell.looks[-1])


def work_left(table: PaperTable, context: Context, costs: TrainingCosts) -> WorkLeft:
    """What an experiment would train that is not remembered. Nothing is trained.

    What a missing training would have chosen (rounds, settings) is not known: its curve is taken to
    be best in the middle. What stands before or after the trainings of a table (counts, audits) is
    left out."""
    missing: dict[str, float | None] = {}

    def note(name: str, cell: Cell, part: CellPart) -> None:
        missing[name] = costs.of(cell, part)

    asked_of(table, context, note, [])
    return WorkLeft(missing)


def asked_of(
    table: PaperTable,
    context: Context,
    note: Callable[[str, Cell, CellPart], None],
    absent: list[str],
) -> None:
    """Tells `note` of every training that an experiment asks for and that is not remembered: its
    identity, and what it is. absent: gets a line for each data set that is left out.
    """

    def stand_in(name: str, cell: Cell, part: CellPart) -> Outcome:
        note(name, cell, part)
        users = int((part.held.rows.counts > 0).sum())
        return Outcome(
            [
                _look(epochs, abs(n - len(cell.looks) // 2), users)
                for n, epochs in enumerate(cell.looks)
            ],
            "",
            0.0,
        )

    dry = Context(**{**vars(context), "cells": Cells(context.cells.folder, stand_in=stand_in)})
    try:
        for study in table.data(dry, absent):
            table.measured(study, [])
    except Exception:
        # figures that were made up need not suit what is computed of them; all trainings were asked
        # for by then
        pass


class MadeUp(dict[str, Any]):
    """A mapping that has every name, with one value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def __missing__(self, name: str) -> Any:
        return self.value


def _look(epochs: int, from_middle: int, users: int) -> CurvePoint:
    metrics = MadeUp(STOOD_IN)
    metrics[RANKING.metric] = STOOD_IN / (1 + from_middle)
    every = MadeUp(STOOD_IN)
    return CurvePoint(
        epochs,
        epochs,
        metrics,
        {},
        MadeUp(1),
        MadeUp([STOOD_IN] * users),
        1.0,
        1.0,
        every,
        every,
        MadeUp(metrics),
    )
