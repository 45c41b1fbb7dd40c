"""The list of items that all nodes or peers of a federation number alike, as its operator has it: a CSV file for people."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..data.interactions import Interactions


class Items(NamedTuple):
    """The items of a catalogue. ids: external ids in index order; title: "" where not known; places: latitude and longitude in
    degrees, float64 [items, 2], or None."""

    ids: list[str]
    title: list[str]
    places: Any


def read_items(path: Path) -> Items:
    """Read a CSV file with a column `item` and, if known, `title`, `lat` and `lon`. Raises InputError, also for an item that
    is there twice."""
    lines = dict(table(path, "item"))
    ids, titles = ([row.get(name, "") for row in lines.values()] for name in ("item", "title"))
    if not ids or len(set(ids)) != len(ids) or not all(ids):
        raise InputError(str(path), "an item occurs twice, or has no name, or there are none", expected="each item once")
    places = None
    if {"lat", "lon"} <= next(iter(lines.values())).keys():
        places = np.array([[number_in(path, n, row, name, np.nan) for name in ("lat", "lon")] for n, row in lines.items()])
    return Items(ids, titles, places)


def items_of(rows: Interactions) -> Items:
    """The items of a data set, with their titles and places where it has them."""
    titles = rows.features["title"].tolist() if "title" in rows.features else [""] * len(rows.items)
    return Items(rows.items.ids.tolist(), titles, rows.places)


def table(path: Path, needed: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line number, row by column name) of a CSV file with a column `needed`. Raises InputError."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if needed not in (reader.fieldnames or ()):
                raise InputError(f"{path}:1", f"no column `{needed}`", expected=f"a header with {needed}")
            for row in reader:
                yield reader.line_num, {name: value or "" for name, value in row.items() if isinstance(name, str)}
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected=f"a CSV file with a column `{needed}`") from None


def number_in(path: Path, line: int, row: Mapping[str, str], name: str, missing: float) -> float:
    """The number in a column of a line, `missing` where there is none. Raises InputError."""
    text = row.get(name, "")
    try:
        return float(text) if text else missing
    except ValueError:
        raise InputError(f"{path}:{line}", f"{name} is '{text}'", expected="a number") from None
