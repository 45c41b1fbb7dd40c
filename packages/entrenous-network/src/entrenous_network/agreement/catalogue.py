"""The list of items that all nodes of a federation number alike: the operator has it as a CSV file
with a column `item`, everybody gets it as items.jsonl.

The file has a line for each change, and is never written anew. A line is a JSON object: an item,

    id        the external id
    title     where it is known
    place     [latitude, longitude] in degrees: of all items, or of none
    features  what algorithms may learn from, such as `category` or `year`: a text, "" where not
              known, by the name of a column; all items have the same names

or the number of an item that is recommended to nobody any more, alone, as `retired`. Items are
numbered in the order of their lines, and keep their numbers, so that an old row means the same item
for ever.

Features are the further columns of the CSV file, other than `title`, `lat` and `lon`. Everybody who
takes part reads them. Lines are the leaves of a log, as members are of another one; the terms name
its root at the founding.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self, final

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

from entrenous.core.contract.item_features import ItemFeatures
from entrenous.core.errors import InputError
from entrenous.core.types import Float64Array
from entrenous.data.interactions import SHOWN, Interactions, Vocabulary, text_array

from ..secure_sum.merkle import Count, Hash, MerkleTree
from ..wire.completed import completed
from ..wire.tensors import Buffer
from .files import new_lines, write_lines

ITEMS = "items.jsonl"
LONGEST = 1 << 16  # bytes of a line, at most


@completed
class ItemLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of the list: an item, or the number of one that is retired."""

    id: str = ""
    title: str = ""
    place: tuple[float, float] | UnsetType = UNSET
    features: dict[str, str] = {}
    retired: Count | UnsetType = UNSET


@completed
class FurtherItems(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The lines that a node lacks, as they travel, and the head of the log with them."""

    size: Count
    root: Hash
    lines: bytes


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

    @property
    def lines(self) -> bytes:
        """The items as lines of items.jsonl."""
        places: list[tuple[float, float] | UnsetType] = [UNSET] * len(self.ids)
        if self.places is not None:
            places = [(latitude, longitude) for latitude, longitude in self.places.tolist()]
        told = []
        for number, item in enumerate(self.ids):
            features = {name: texts[number] for name, texts in self.features.items()}
            told.append(ItemLine(item, self.titles[number], places[number], features))
        return msgspec.json.Encoder().encode_lines(told)

    @property
    def log(self) -> ItemLog:
        """The log in which these items come. Raises InputError as `ItemLog.add`."""
        log = ItemLog()
        log.add(self.lines, "--items")
        return log

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


@final
class ItemLog:
    """The list of items, as the log that its lines are. What raises an error leaves it without use:
    it is read again. tree: of its lines. length: their bytes.
    """

    def __init__(self) -> None:
        self.length = 0
        self._items: list[ItemLine] = []
        self._numbers: dict[str, int] = {}  # of items, by id
        self._retired = set[int]()
        self.tree = MerkleTree()
        self._ends = array("q", [0])  # of the lines, in bytes of the file

    @property
    def count(self) -> int:
        """The number of items, retired ones included."""
        return len(self._items)

    @property
    def items(self) -> Items:
        """The items by columns; there is one at least."""
        first = self._items[0]
        places = None
        if first.place is not UNSET:
            places = np.array([item.place for item in self._items], np.float64)
        return Items(
            list(self._numbers),
            [item.title for item in self._items],
            places,
            {name: [item.features[name] for item in self._items] for name in first.features},
            tuple(sorted(self._retired)),
        )

    def follow(self, path: Path, end: int | None = None) -> bool:
        """Takes the lines that came to a file since it was read, up to byte `end`. Returns whether
        there were any. Raises InputError as `add`.
        """
        lines = new_lines(path, self.length, end)
        self.add(lines, str(path))
        return bool(lines)

    def since(self, path: Path, known: int) -> bytes:
        """Returns what somebody lacks who knows the first `known` lines. path: of the file."""
        begin = self._ends[min(known, len(self.tree))]
        lines = new_lines(path, begin, self.length)
        return msgspec.msgpack.encode(FurtherItems(*self.tree.head, lines))

    def take(self, body: Buffer, where: str) -> bytes:
        """Takes the lines that this log lacks, by what `since` made of them, and returns them.
        Raises InputError as `add`, and ValueError where this log with them is not the one that is
        meant.
        """
        said = msgspec.msgpack.decode(body, type=FurtherItems)
        self.add(said.lines, where)
        if self.tree.head != (said.size, said.root):
            raise ValueError("not the list that is known here with more lines")
        return said.lines

    def write(self, path: Path, lines: bytes) -> None:
        """Appends the lines to the file that were taken last."""
        write_lines(path, self.length - len(lines), lines)

    def add(self, lines: bytes, where: str) -> None:
        """Takes whole lines at the end of the log. where: the place that errors name. Raises
        InputError for an item that is on the list, for one of which more or less is told than of
        those before, and for what is no line.
        """
        *whole, rest = lines.split(b"\n")
        if rest:
            raise InputError(where, "the last line is cut short", expected="a line feed at its end")
        for line in whole:
            problem = f"line {1 + len(self.tree)} is no item"
            try:
                change = msgspec.json.decode(line, type=ItemLine)
            except ValueError:
                raise InputError(where, problem, expected="the fields of one, as JSON") from None
            if len(line) > LONGEST:
                raise InputError(where, problem, expected=f"at most {LONGEST} bytes")
            if change.retired is UNSET:
                self._come(change, where)
            else:
                self._retire(change, change.retired, where)
            self.tree.append(line)
            self.length += len(line) + 1
            self._ends.append(self.length)

    def _come(self, item: ItemLine, where: str) -> None:
        """Adds an item. Raises InputError."""
        if item.id in self._numbers or not item.id:
            problem = f"'{item.id}' is on the list, or no id"
            raise InputError(where, problem, expected="new items alone")
        first = self._items[0] if self._items else item
        is_placed = first.place is not UNSET
        if item.features.keys() != first.features.keys() or (item.place is UNSET) == is_placed:
            columns = ["item", "title", *(("lat", "lon") if is_placed else ()), *first.features]
            expected = f"the columns of the first list: {', '.join(columns)}"
            raise InputError(where, "other columns than the first list had", expected=expected)
        self._numbers[item.id] = len(self._items)
        self._items.append(item)

    def _retire(self, change: ItemLine, number: int, where: str) -> None:
        """Retires an item. Raises InputError."""
        is_new = number in range(self.count) and number not in self._retired
        if not is_new or change != ItemLine(retired=number):
            expected = "the number of an item on the list, once and alone"
            raise InputError(where, f"item {number} cannot be retired", expected=expected)
        self._retired.add(number)

    def retiring(self, ids: Collection[str]) -> bytes:
        """Returns the lines that retire some items. Raises InputError for an unknown one."""
        unknown = [item for item in ids if item not in self._numbers]
        if unknown:
            problem = f"'{unknown[0]}' is not on the list"
            fix = self.items.vocabulary.hint(unknown[0])
            raise InputError("--retire", problem, expected="the id of an item on it", fix=fix)
        numbers = {self._numbers[item] for item in ids} - self._retired
        changes = [ItemLine(retired=number) for number in sorted(numbers)]
        return msgspec.json.Encoder().encode_lines(changes)


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
