"""The list of items that all nodes of a federation number alike: a CSV file as its operator has it,
items.json as everybody gets it.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from ...core.errors import InputError
from ...core.types import Float64Array
from ...core.vocabulary import Vocabulary
from ...data.interactions import Interactions

ITEMS = "items.json"


class Items(NamedTuple):
    """The items of a catalogue. ids: external ids in index order; titles: "" where not known;
    places: latitude and longitude in degrees, float64 [items, 2], or None."""

    ids: list[str]
    titles: list[str]
    places: Float64Array | None

    @classmethod
    def of(cls, rows: Interactions) -> Self:
        """The items of a data set, with their titles and places where it has them."""
        titles = (
            rows.features["title"].tolist() if "title" in rows.features else [""] * len(rows.items)
        )
        return cls(rows.items.ids.tolist(), titles, rows.places)

    @classmethod
    def read_csv(cls, path: Path) -> Self:
        """Read a CSV file with a column `item` and, if known, `title`, `lat` and `lon`. Raises
        InputError, also for an item that is there twice, and for places of some items only."""
        lines = dict(_lines(path))
        ids, titles = ([row.get(name, "") for row in lines.values()] for name in ("item", "title"))
        if not ids or len(set(ids)) != len(ids) or not all(ids):
            raise InputError(
                str(path),
                "an item occurs twice, or has no name, or there are none",
                expected="each item once",
            )
        if not {"lat", "lon"} <= next(iter(lines.values())).keys():
            return cls(ids, titles, None)
        return cls(
            ids,
            titles,
            np.array(
                [
                    [_degrees(path, n, row, name) for name in ("lat", "lon")]
                    for n, row in lines.items()
                ]
            ),
        )

    @classmethod
    def read(cls, path: Path, sha256: str) -> Self:
        """Read items.json. Raises InputError for another list than the one whose digest the terms
        have.
        """
        try:
            said = path.read_bytes()
        except OSError as bad:
            expected = "the federation's list of items"
            raise InputError(
                str(path), f"cannot be read ({bad.strerror})", expected=expected
            ) from None
        if hashlib.sha256(said).hexdigest() != sha256:
            fix = "get the items.json that belongs to terms.json"
            raise InputError(str(path), "not the list of items of the terms", fix=fix)
        found = json.loads(said)
        places = None if found["places"] is None else np.array(found["places"], np.float64)
        return cls(found["ids"], found["titles"] or [""] * len(found["ids"]), places)

    @property
    def text(self) -> str:
        """The content of items.json."""
        titles = self.titles if any(self.titles) else None
        return json.dumps(
            {
                "ids": self.ids,
                "titles": titles,
                "places": None if self.places is None else self.places.tolist(),
            }
        )

    @property
    def sha256(self) -> str:
        """The digest of items.json, hexadecimal, by which the terms name the list."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def vocabulary(self) -> Vocabulary:
        """The items' ids with their numbers."""
        return Vocabulary(self.ids, kind="item")


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line number, row by column name) of a CSV file with a column `item`. Raises InputError."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "item" not in (reader.fieldnames or ()):
                raise InputError(f"{path}:1", "no column `item`", expected="a header with item")
            for row in reader:
                yield (
                    reader.line_num,
                    {name: value or "" for name, value in row.items() if isinstance(name, str)},
                )
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(
            str(path), f"cannot be read ({cause})", expected="a CSV file with a column `item`"
        ) from None


def _degrees(path: Path, line: int, row: Mapping[str, str], name: str) -> float:
    """The latitude or longitude in a line. Raises InputError."""
    try:
        return float(row[name])
    except ValueError:
        expected = "degrees for every item, or no columns lat and lon"
        raise InputError(f"{path}:{line}", f"{name} is '{row[name]}'", expected=expected) from None
