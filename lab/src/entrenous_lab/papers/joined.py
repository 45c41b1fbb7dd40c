"""Stored rows of a table and what was run of its other data sets, as one result: a table grows, and
is made anew, a data set at a time.

Where the program has changed since, the whole is as stale as the rows that stay; each data set says
when and by which program it was made. Tables that say something of all their data sets at once are
made in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from entrenous.core.errors import InputError

from .provenance import programs
from .result import ExperimentResult
from .stored import StoredResult, figures_of, set_of
from .table import PaperTable

MADE = ("date", "commit", "confirmed")  # of an origin: when and by which program
ABSENT = "Left out: "  # what the note on a data set that was not there begins with


def joinable(stored: StoredResult, table: PaperTable, *, quick: bool, seeds: int) -> bool:
    """Whether other data sets can be joined to what is stored: both are no excerpts and have as
    many seeds, and the table says nothing of several data sets at once.
    """
    apart = table.before is None and table.after is None and table.across is None
    return (
        apart and not quick and not stored.quick and stored.content.get("asked_seeds", 0) == seeds
    )


def lacking(result: ExperimentResult) -> list[str]:
    """Why data sets that were asked for are not in a result, a note each."""
    return [note for note in result.notes if note.startswith(ABSENT)]


def joined(
    stored: StoredResult, stay: Sequence[str], result: ExperimentResult, folder: Path
) -> ExperimentResult:
    """Both as one, the stored data sets first. stay: the stored data sets that are kept, as
    `StoredResult.sets` names them; rows of others are replaced. folder: with the stored figures.

    Raises InputError where a data set that stays is in `result`, and for a stored figure that is
    not there."""
    was = stored.content
    rows = [row for row in was["rows"] if set_of(row) in stay]
    if twice := sorted({row["data"] for row in rows} & {row["data"] for row in result.rows}):
        raise InputError(
            stored.name,
            f"rows of {', '.join(twice)} are stored already",
            expected="other data sets",
        )
    replaced = {*stored.sets} - {*stay}
    notes = [note for note in was["notes"] if not note.startswith((ABSENT, *_openings(replaced)))]
    return replace(
        result,
        rows=[*rows, *result.rows],
        notes=[*notes, *result.notes],
        tests=[*(test for test in was["tests"] if set_of(test) in stay), *result.tests],
        figures={**figures_of(stored, folder), **result.figures},
        seconds=round(was["seconds"] + result.seconds, 1),
        computed=was["computed"] + result.computed,
        remembered=was["remembered"] + result.remembered,
        origin=_origin(stored, rows, result.origin),
    )


def _openings(sets: Iterable[str]) -> Iterator[str]:
    """What a note on one of some data sets begins with."""
    for name in sets:
        yield from (f"{name}, ", f"{name}: ")


def _origin(
    stored: StoredResult, rows: Sequence[Mapping[str, Any]], now: Mapping[str, Any]
) -> dict[str, Any]:
    """The origin of both: today's, and under `earlier` when each of the stored data sets was made.
    Without a sample: one of both is due. rows: those that stay.

    What of the program has changed since the stored rows were made keeps its old identity, so that
    the whole is as stale as these rows are.
    """
    was = stored.origin
    algorithms = sorted({*was["algorithms"], *now["algorithms"]})
    settings = sorted({tuple(place) for origin in (was, now) for place in origin["settings"]})
    made = {name: was[name] for name in MADE if name in was}
    program = programs(algorithms, settings)
    stale = {part: was["program"][part] for part in stored.changed()}
    earlier = {**dict.fromkeys(_data(rows), made), **was.get("earlier", {})}
    return {
        **now,
        "pins": {**was["pins"], **now["pins"]},
        "algorithms": algorithms,
        "settings": [[*place] for place in settings],
        "training_seconds": round(was["training_seconds"] + now["training_seconds"], 1),
        "program": {**program, **stale},
        "earlier": {name: earlier[name] for name in _data(rows)},
    }


def _data(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The data sets of some rows, in their order."""
    return list(dict.fromkeys(row["data"] for row in rows))
