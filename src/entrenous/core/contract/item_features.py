"""`ItemFeatures`: what is known of every item, as numbers that an algorithm can
learn from. They are public: the same for the server and all devices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, NoReturn, final

import numpy as np

from ..errors import InputError
from ..types import Array, Float32Array

# Between the categories, or the numbers, of an item.
BAR = "|"
# The feature that holds categories even if they look like numbers.
CATEGORY = "category"
# Columns of numbers that the features of a catalogue may have together.
WIDEST = 4096
# How programs write a number that is none.
NO_NUMBERS = ("nan", "inf", "-inf", "+inf", "infinity", "-infinity", "null", "none")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class _Encoded(NamedTuple):
    """A feature as columns of numbers."""

    names: list[str]
    """The name of each column."""
    values: Float32Array
    """float32 [items, columns]."""


@final
class ItemFeatures:
    """The features of the items of a catalogue, made into numbers when they are asked for.

    A feature of categories is a column of 0 and 1 for each category, ascending. A number is one
    column with mean 0 and standard deviation 1, in which 0 also stands for a missing one. A vector
    is as many columns as it has numbers, 0 where an item has none.
    """

    def __init__(self, texts: Mapping[str, Array]) -> None:
        """texts: for each feature a text for each item, "" = not known, with "|" between the
        categories or numbers of an item.
        """
        self.texts = dict(texts)

    @cached_property
    def _encoded(self) -> _Encoded:
        parts = [_encode(name, texts) for name, texts in sorted(self.texts.items())]
        names = [name for part in parts for name in part.names]
        if len(names) > WIDEST:
            widest = max(zip(self.texts, parts, strict=False), key=lambda pair: len(pair[1].names))
            raise InputError(
                "item features",
                f"they make {len(names):,} columns of numbers, most of them those of '{widest[0]}'",
                expected=f"at most {WIDEST:,}",
                fix="leave that column out of the file of items, or separate the categories of an"
                " item by |",
            )
        return _Encoded(names, np.concatenate([part.values for part in parts], axis=1))

    @property
    def names(self) -> list[str]:
        """The name of each column, such as `category=Drama`, `year` or `vector[0]`."""
        return self._encoded.names

    @property
    def values(self) -> Float32Array:
        """The features of every item, float32 [items, columns], finite."""
        return self._encoded.values


def _encode(name: str, texts: Array) -> _Encoded:
    cells = [str(text).split(BAR) if text else [] for text in texts.tolist()]
    known = [cell for cell in cells if cell]
    lengths = {len(cell) for cell in known}
    odd = {part for cell in known for part in cell if not NUMBER.fullmatch(part)}
    # A number that is none does not make categories of all others.
    numbers = all(part.lower() in NO_NUMBERS for part in odd)
    if not known or name == CATEGORY or len(lengths) != 1 or not numbers:
        return _categories(name, cells)
    for part in odd:
        _refuse(name, next(item for item, cell in enumerate(cells) if part in cell), part)
    return _numbers(name, cells, lengths.pop())


def _refuse(name: str, item: int, text: str) -> NoReturn:
    raise InputError(
        "item features",
        f"'{name}' of item number {item} is {text[:60]}",
        expected="finite numbers",
        fix="correct the file of items",
    )


def _categories(name: str, cells: Sequence[Sequence[str]]) -> _Encoded:
    found = sorted({part for cell in cells for part in cell if part})
    names = [f"{name}={part}" for part in found]
    # Refused by the whole before any array of that size is made.
    if len(found) > WIDEST:
        nothing = np.empty((len(cells), 0), np.float32)
        return _Encoded(names, nothing)
    place = {part: number for number, part in enumerate(found)}
    values = np.zeros((len(cells), len(found)), np.float32)
    for item, cell in enumerate(cells):
        for part in cell:
            if part:
                values[item, place[part]] = 1
    return _Encoded(names, values)


def _numbers(name: str, cells: Sequence[Sequence[str]], width: int) -> _Encoded:
    values = np.zeros((len(cells), width), np.float64)
    for item, cell in enumerate(cells):
        values[item, : len(cell)] = [float(part) for part in cell]
    limit = float(np.finfo(np.float32).max)
    beyond = np.abs(values).max(axis=1) > limit
    if beyond.any():
        item = int(np.argmax(beyond))
        _refuse(name, item, BAR.join(cells[item]))
    names = [f"{name}[{number}]" for number in range(width)]
    if width == 1:
        names = [name]
        values[:, 0] = _standard([cell[0] if cell else "" for cell in cells])
    return _Encoded(names, values.astype(np.float32))


def _standard(cells: Sequence[str]) -> list[float]:
    """Returns numbers with mean 0 and standard deviation 1, and 0 for a missing one."""
    known = [float(cell) for cell in cells if cell]
    # Exact sums, so that every machine has the same bits.
    mean = math.fsum(known) / len(known)
    squares = [(number - mean) ** 2 for number in known]
    variance = math.fsum(squares) / len(known)
    # Equal numbers say nothing: all of them become 0.
    spread = math.sqrt(variance) or 1.0
    return [(float(cell) - mean) / spread if cell else 0.0 for cell in cells]
