"""The list of items that all nodes of a federation number alike: the operator has it as a CSV file
with a column `item`, everybody gets it as items.json.

    ids       external ids in index order
    titles    a title for each item, "" where not known; null if no item has one
    places    [latitude, longitude] in degrees for each item; null if unknown
    features  what algorithms may learn from, such as `category` or `year`: by the name of a column,
              a text for each item, "" where not known; absent if there are none
    retired   numbers of items that are recommended to nobody any more; absent if there are none

Features are the further columns of the CSV file, other than `title`, `lat` and `lon`. Everybody who
takes part reads them. The terms name the file by its SHA-256, so that it cannot change later; a
longer list is longer-items.json (`growth`).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from entrenous.core.contract.item_features import ItemFeatures
from entrenous.core.errors import InputError
from entrenous.core.types import Float64Array
from entrenous.data.interactions import SHOWN, Interactions, Vocabulary, text_array

from ..wire.completed import completed

ITEMS = "items.json"


@completed
class ItemFields(Struct, frozen=True):
    """A list of items, or what somebody's list lacks, as it travels."""

    ids: list[str]
    titles: list[str] | None
    places: list[tuple[float, float]] | None
    features: dict[str, list[str]] = {}
    retired: list[int] = []
    after: int | None = None
    """How many items are known where the others are lacking."""
    sha256: str = ""
    """Of the whole list, where it lacks some."""


def _fields(text: str, where: str) -> ItemFields:
    """Reads the fields of a list of items. Raises InputError for what has none."""
    try:
        return msgspec.json.decode(text, type=ItemFields)
    except (ValueError, RecursionError) as bad:
        problem = f"not a list of items ({type(bad).__name__})"
        raise InputError(where, problem, expected="ids, titles and places") from None


class Items(NamedTuple):
    """The items of a catalogue."""

    ids: list[str]
    """External ids in index order."""
    titles: list[str]
    """Titles, "" where not known."""
    places: Float64Array | None
    """Latitude and longitude in degrees, float64 [items, 2], or None."""
    features: Mapping[str, list[str]] = {}
    """The texts of what algorithms may learn from, as in `ItemFeatures`, by name."""
    retired: tuple[int, ...] = ()
    """Numbers of items that are recommended to nobody any more, ascending."""

    @classmethod
    def of(cls, rows: Interactions) -> Self:
        """Returns the items of a data set, with their titles, places and features where it has
        them.
        """
        titles = [""] * len(rows.items)
        if "title" in rows.features:
            titles = rows.features["title"].tolist()
        features = {}
        if rows.item_features is not None:
            features = {name: texts.tolist() for name, texts in rows.item_features.texts.items()}
        return cls(rows.items.ids.tolist(), titles, rows.places, features)

    @classmethod
    def read_csv(cls, path: Path) -> Self:
        """Reads a CSV file with a column `item` and, if known, `title`, `lat` and `lon`; further
        columns are features. Raises InputError, also for an item that is there twice, and for
        places of some items only."""
        lines = list(_lines(path))
        if not lines:
            raise InputError(str(path), "has no items", expected="a line for each item")
        known: dict[str, int] = {}  # the line of each item
        for number, row in lines:
            item = row["item"]
            problem = "" if item else "an item has no name"
            if item in known:
                problem = f"an item occurs twice: '{item}' is in line {known[item]} too"
            if problem:
                raise InputError(f"{path}:{number}", problem, expected="each item once")
            known[item] = number
        ids = list(known)
        titles = [row.get("title", "") for _, row in lines]
        _, first = lines[0]
        names = [name for name in first if name not in ("item", *SHOWN)]
        features = {name: [row.get(name, "") for _, row in lines] for name in names}
        if not {"lat", "lon"} <= first.keys():
            return cls(ids, titles, None, features)
        places = []
        for number, row in lines:
            latitude = _degrees(path, number, row, "lat")
            longitude = _degrees(path, number, row, "lon")
            places.append((latitude, longitude))
        return cls(ids, titles, np.array(places), features)

    @classmethod
    def read(cls, path: Path, sha256: str) -> Self:
        """Reads items.json. Raises InputError for another list than the one whose digest the terms
        have.
        """
        try:
            text = path.read_bytes()
        except OSError as bad:
            problem = f"cannot be read ({bad.strerror})"
            expected = "the federation's list of items"
            raise InputError(str(path), problem, expected=expected) from None
        # Nodes that number items otherwise would train on each other's rows of other items.
        if hashlib.sha256(text).hexdigest() != sha256:
            fix = "get the items.json that belongs to terms.json"
            raise InputError(str(path), "not the list of items of the terms", fix=fix)
        return cls.parse(text.decode(), str(path))

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Returns the items that `text` wrote. where: the place that errors name. Raises InputError
        for what is no list of items.
        """
        return cls._made(_fields(text, where), where)

    @classmethod
    def _made(cls, said: ItemFields, where: str) -> Self:
        """Returns the items of a list, as `parse` does."""
        ids = said.ids
        # A list in which no item has a title has no titles, so that the file stays small.
        titles = said.titles or [""] * len(ids)
        known: list[Sized] = [titles, *said.features.values()]
        if said.places is not None:
            known.append(said.places)
        whole = all(len(told) == len(ids) for told in known)
        ordered = said.retired == sorted(set(said.retired) & set(range(len(ids))))
        if not (ids and all(ids) and len(set(ids)) == len(ids) and whole and ordered):
            problem = "an item occurs twice or has no name, or something is not told of all items"
            raise InputError(where, problem, expected="each item once")
        places = None if said.places is None else np.array(said.places, np.float64)
        return cls(ids, titles, places, said.features, tuple(said.retired))

    def check_longer(self, before: Items) -> None:
        """Raises ValueError unless this list is `before` with further items at its end: each item
        keeps its number and its features, and a retired one stays so. Titles may be told better.
        """
        count = len(before.ids)
        if self.ids[:count] != before.ids:
            raise ValueError("an item is missing, or has another number")
        if not set(before.retired) <= set(self.retired):
            raise ValueError("a retired item is not retired any more")
        if self.features.keys() != before.features.keys():
            raise ValueError("other features are told")
        if any(self.features[name][:count] != texts for name, texts in before.features.items()):
            raise ValueError("an item has other features")
        places = None if self.places is None else self.places[:count].tolist()
        if places != (None if before.places is None else before.places.tolist()):
            raise ValueError("an item has another place")

    def since(self, known: int) -> str:
        """Returns, as JSON text, what a list of the first `known` items lacks: further items, and
        the numbers of all that are retired.
        """
        places = None
        if self.places is not None:
            places = self.places[known:].tolist()
        fields = {
            "after": known,
            "sha256": self.sha256,
            "ids": self.ids[known:],
            "titles": self.titles[known:],
            "places": places,
            "features": {name: texts[known:] for name, texts in self.features.items()},
            "retired": list(self.retired),
        }
        return json.dumps(fields)

    def taken(self, text: str, where: str) -> Items:
        """Returns the longer list that a text has whole (`text`), or of which it has what this one
        lacks (`since`). Raises InputError, and ValueError for a list that is not longer, or not the
        one that the text says.
        """
        said = _fields(text, where)
        if said.after is None:
            items = Items._made(said, where)
        else:
            items = self
            if said.ids:
                items = self.with_more(Items._made(replace(said, retired=[]), where))
            # Read again, since every check is made there.
            items = Items.parse(items._replace(retired=tuple(said.retired)).text, where)
            if said.after != len(self.ids) or items.sha256 != said.sha256:
                raise ValueError("not what this list lacks")
        items.check_longer(self)
        return items

    def with_more(self, more: Items) -> Items:
        """Returns the list with further items at its end. Raises InputError for an item that is on
        it, and for places or features that are told of one list alone.
        """
        known = set(self.ids)
        twice = next((item for item in more.ids if item in known), None)
        if twice is not None:
            raise InputError("--add", f"'{twice}' is on the list", expected="new items alone")
        same = self.features.keys() == more.features.keys()
        if not same or (self.places is None) != (more.places is None):
            columns = ["item", "title", *(("lat", "lon") if self.places is not None else ())]
            expected = f"the columns of the first list: {', '.join([*columns, *self.features])}"
            raise InputError("--add", "other columns than the first list had", expected=expected)
        places = self.places
        if places is not None and more.places is not None:
            places = np.concatenate([places, more.places])
        features = {name: [*texts, *more.features[name]] for name, texts in self.features.items()}
        return Items(
            [*self.ids, *more.ids], [*self.titles, *more.titles], places, features, self.retired
        )

    def without(self, ids: Collection[str]) -> Items:
        """Returns the list with some items retired. Raises InputError for an unknown one."""
        numbers = self.vocabulary.indices(list(ids))
        unknown = [item for item, number in zip(ids, numbers, strict=True) if number < 0]
        if unknown:
            problem = f"'{unknown[0]}' is not on the list"
            fix = self.vocabulary.hint(unknown[0])
            raise InputError("--retire", problem, expected="the id of an item on it", fix=fix)
        return self._replace(retired=tuple(sorted({*self.retired, *map(int, numbers)})))

    @property
    def text(self) -> str:
        """The content of items.json."""
        titles = self.titles if any(self.titles) else None
        places = None
        if self.places is not None:
            places = self.places.tolist()
        # Its digest is in the terms, so neither the order nor the form of the fields may change.
        fields: dict[str, Any] = {"ids": self.ids, "titles": titles, "places": places}
        if self.features:
            fields["features"] = self.features
        if self.retired:
            fields["retired"] = list(self.retired)
        return json.dumps(fields)

    @property
    def sha256(self) -> str:
        """The SHA-256 of items.json in hexadecimal. The terms name the list of items by it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def known(self) -> ItemFeatures | None:
        """The features that algorithms may learn from; None if nothing is known."""
        if not self.features:
            return None
        return ItemFeatures({name: text_array(texts) for name, texts in self.features.items()})

    @property
    def vocabulary(self) -> Vocabulary:
        """The items' ids with their numbers."""
        return Vocabulary(self.ids, kind="item")


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yields (line number, row by column name) of a CSV file with a column `item`. Raises
    InputError."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "item" not in (reader.fieldnames or ()):
                expected = "a header with item"
                raise InputError(f"{path}:1", "no column `item`", expected=expected)
            for row in reader:
                # Values beyond the header's columns stand under None; a short row has None for
                # the columns that it lacks.
                row.pop(None, None)  # type: ignore[call-overload]
                yield reader.line_num, {name: value or "" for name, value in row.items()}
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        problem = f"cannot be read ({cause})"
        raise InputError(str(path), problem, expected="a CSV file with a column `item`") from None


def _degrees(path: Path, line: int, row: Mapping[str, str], name: str) -> float:
    """Returns the latitude or longitude in a line. Raises InputError."""
    try:
        if math.isfinite(degrees := float(row[name])):
            return degrees
        raise ValueError
    except ValueError:
        expected = "degrees for every item, or no columns lat and lon"
        problem = f"{name} of '{row['item']}' is '{row[name]}'"
        raise InputError(f"{path}:{line}", problem, expected=expected) from None
