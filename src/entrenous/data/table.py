"""`ColumnTable`: what a reader hands on, columns and where each row came from; and `Reading`: how the user wants a file read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np

from ..core.errors import InputError, did_you_mean

Duplicates = Literal["same", "last", "first", "error"]
DUPLICATES: tuple[Duplicates, ...] = ("same", "last", "first", "error")


@final
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read interactions. Nothing needs saying where a file has a header with usual names.

    user, item, value, time: column names; None = find out; "" (value and time only) = the column is not wanted.
    delimiter: of a text file: one character, or `::`; None = by the file's ending (`.csv`: comma, `.tsv` and `.inter`: tab) or by
        its first line.
    encoding: of a text file. names: the column names of a text file without a header.
    duplicates: what to do where a (user, item) pair is repeated. "same" keeps the last row and refuses rows that disagree on the
        value; "last" and "first" keep one whatever it says; "error" refuses any repeat. Order is time, then place in the file.
    scale: (lowest, highest) value; one outside is refused.
    part: the file is a part of a whole (a test file), so data too small to learn from is no error.

    Raises InputError for an option that cannot be meant.
    """

    user: str | None = None
    item: str | None = None
    value: str | None = None
    time: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    names: tuple[str, ...] | None = None
    duplicates: Duplicates = "same"
    scale: tuple[float, float] | None = None
    part: bool = False

    def __post_init__(self) -> None:
        _check_text_options(self.delimiter, self.encoding)
        if self.duplicates not in DUPLICATES:
            raise InputError(
                "duplicates", f"unknown policy '{self.duplicates}'", fix=did_you_mean(str(self.duplicates), DUPLICATES)
            )
        if self.scale is not None and not (np.all(np.isfinite(self.scale)) and self.scale[0] < self.scale[1]):
            raise InputError("scale", f"got {self.scale}", expected="lowest and highest value, such as 1 5")


def _check_text_options(delimiter: str | None, encoding: str) -> None:
    if delimiter is not None and delimiter != "::" and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r\0'):
        raise InputError("delimiter", f"got {delimiter!r}", expected="one character such as , ; | or a tab, or ::")
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InputError("encoding", f"unknown encoding '{encoding}'", expected="a name such as utf-8, latin-1, utf-16")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnTable:
    """Columns and where their rows came from.

    frame: a polars.DataFrame; all columns are text where the source is a text file.
    source: the file's path or the frame's name. first_line: the physical line of row 0 in a text file, None elsewhere.
    blank: lines at or after `first_line` that were skipped. whole: False if a text file does not end with a line end, as
        one that was cut off does. types: RecBole's column types. notes: what the reader did. parts: the tables that were stacked.
    """

    frame: Any
    source: str
    first_line: int | None = None
    blank: tuple[int, ...] = ()
    whole: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    parts: tuple[ColumnTable, ...] = ()

    def where(self, row: int) -> str:
        """`file:line` of a row, or `file:row n` (counting from 0) where the source has no lines."""
        for part in self.parts:
            if row < part.frame.height:
                return part.where(row)
            row -= part.frame.height
        if self.first_line is None:
            return f"{self.source}:row {row}"
        line = self.first_line + row
        for blank in self.blank:
            line += blank <= line
        return f"{self.source}:{line}"


def stack(tables: Sequence[ColumnTable]) -> ColumnTable:
    """Tables with the same columns, one under the other. Raises InputError if the columns differ."""
    import polars as pl

    first = tables[0]
    try:
        frame = pl.concat([table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        source = next((table.source for table in tables[1:] if table.frame.schema != first.frame.schema), first.source)
        raise InputError(
            source, "its columns differ from those of " + first.source, expected=", ".join(first.frame.columns)
        ) from None
    notes = tuple(note for table in tables for note in table.notes)
    whole, source = all(table.whole for table in tables), " + ".join(table.source for table in tables)
    return ColumnTable(frame=frame, source=source, parts=tuple(tables), whole=whole, types=first.types, notes=notes)
