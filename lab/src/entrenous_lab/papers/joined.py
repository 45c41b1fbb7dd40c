"""A stored part of a table and what was run of its other data sets, as one result: a table grows a
data set at a time.

Only what today's program would give is joined to what it gives: a stale part is made again with the
rest. Tables that say something of all their data sets at once are made in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from entrenous.core.errors import InputError

from .provenance import programs
from .result import ExperimentResult
from .stored import StoredResult, figures_of
from .table import PaperTable

MADE = ("date", "commit", "confirmed")  # of an origin: when and by which program
ABSENT = "Left out: "  # what the note on a data set that was not there begins with


def joinable(stored: StoredResult, table: PaperTable, *, quick: bool, seeds: int) -> bool:
    """Whether further data sets can be added to a stored part of today's program: both are no
    excerpts and have as many seeds.
    """
    apart = table.before is None and table.after is None and table.across is None
    return (
        apart
        and bool(stored.only)
        and not quick
        and not stored.quick
        and stored.content.get("asked_seeds", 0) == seeds
    )


def lacking(result: ExperimentResult) -> list[str]:
    """Why data sets that were asked for are not in a result, a note each."""
    return [note for note in result.notes if note.startswith(ABSENT)]


def joined(stored: StoredResult, result: ExperimentResult, folder: Path) -> ExperimentResult:
    """Both as one, the stored data sets first. folder: with the figures of the stored one.

    Raises InputError where both have rows of one data set, and for a stored figure that is not
    there."""
    was = stored.content
    if twice := sorted({row["data"] for row in was["rows"]} & {row["data"] for row in result.rows}):
        raise InputError(
            stored.name,
            f"rows of {', '.join(twice)} are stored already",
            expected="other data sets",
        )
    return replace(
        result,
        rows=[*was["rows"], *result.rows],
        notes=[*(note for note in was["notes"] if not note.startswith(ABSENT)), *result.notes],
        tests=[*was["tests"], *result.tests],
        figures={**figures_of(stored, folder), **result.figures},
        seconds=round(was["seconds"] + result.seconds, 1),
        computed=was["computed"] + result.computed,
        remembered=was["remembered"] + result.remembered,
        origin=_origin(stored, result.origin),
    )


def _origin(stored: StoredResult, now: Mapping[str, Any]) -> dict[str, Any]:
    """The origin of both: today's, and under `earlier` when each of the stored data sets was made.
    Without a sample: one of both is due.
    """
    was = stored.origin
    algorithms = sorted({*was["algorithms"], *now["algorithms"]})
    settings = sorted({tuple(place) for origin in (was, now) for place in origin["settings"]})
    made = {name: was[name] for name in MADE if name in was}
    return {
        **now,
        "pins": {**was["pins"], **now["pins"]},
        "algorithms": algorithms,
        "settings": [[*place] for place in settings],
        "training_seconds": round(was["training_seconds"] + now["training_seconds"], 1),
        "program": programs(stored.name, algorithms, settings),
        "earlier": {**dict.fromkeys(_data(stored.content["rows"]), made), **was.get("earlier", {})},
    }


def _data(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The data sets of some rows, in their order."""
    return list(dict.fromkeys(row["data"] for row in rows))
