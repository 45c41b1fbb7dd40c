"""`ColumnTable`: columns and where each row came from; and what becomes of a column: ids to
numbers, values to float32. A bad field is refused with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, final

import numpy as np

from ..core.errors import InputError
from ..core.types import BoolArray, Float32Array, Int32Array
from ..core.vocabulary import Vocabulary

ID_LIMIT = 256  # characters
WHOLE = r"^-?(0|[1-9]\d*)$"
# what a whole number becomes when a program takes it for a float
DECIMAL = r"^[+-]?\d+\.(0*|\d+[eE][+-]?\d+)$"
FORMULA = r"^([=@]|[+\-][^\d.])"
LARGEST = float(np.finfo(np.float32).max)
COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnTable:
    """Columns and where their rows came from.

    frame: a polars.DataFrame; all columns are text where the source is a text file. source: the
    file's path or the frame's name. first_line: the physical line of row 0 in a text file, None
    elsewhere. blank: lines at or after `first_line` that were skipped. whole: False if a text file
    does not end with a line end, as
        one that was cut off does. types: RecBole's column types. notes: what the reader did. parts:
        the tables that were stacked.
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
    """Tables with the same columns, one under the other. Raises InputError if the columns
    differ.
    """
    import polars as pl

    first = tables[0]
    try:
        frame = pl.concat(
            [table.frame.select(first.frame.columns) for table in tables], how="vertical_relaxed"
        )
    except pl.exceptions.PolarsError:
        source = next(
            (table.source for table in tables[1:] if table.frame.schema != first.frame.schema),
            first.source,
        )
        raise InputError(
            source,
            "its columns differ from those of " + first.source,
            expected=", ".join(first.frame.columns),
        ) from None
    notes = tuple(note for table in tables for note in table.notes)
    whole, source = (
        all(table.whole for table in tables),
        " + ".join(table.source for table in tables),
    )
    return ColumnTable(
        frame=frame, source=source, parts=tuple(tables), whole=whole, types=first.types, notes=notes
    )


class IdColumn(NamedTuple):
    """A column of external ids as numbers. code: int32 [rows]; names: the distinct ids in index
    order.
    """

    code: Int32Array
    names: Vocabulary
    notes: tuple[str, ...]


def refuse(
    table: ColumnTable, bad: BoolArray, problem: str, *, expected: str, fix: str = ""
) -> NoReturn:
    """Raise InputError for the first row where `bad`, bool [rows], is true."""
    raise InputError(table.where(int(np.argmax(bad))), problem, expected=expected, fix=fix)


def ids(table: ColumnTable, name: str, kind: str) -> IdColumn:
    """The ids of a column, which are text whatever the source: "007" and "7" are two ids.

    Indices follow the ids' order, as numbers if all are whole numbers, else as text; so the order
    of the rows does not matter. Blanks around an id are removed. Raises InputError for an id that
    is empty, longer than ID_LIMIT, written as a decimal number (`1.0`), or, among whole numbers,
    beyond 64 bits; and for a column that is neither text nor whole numbers.
    """
    import polars as pl

    column = _id_text(table, name, kind)
    distinct = column.unique()
    whole = bool(distinct.str.contains(WHOLE).all())
    notes = _check_ids(table, column, distinct, kind, whole)
    distinct = distinct.gather(distinct.cast(pl.Int64).arg_sort()) if whole else distinct.sort()
    index = column.replace_strict(
        distinct, pl.Series(np.arange(len(distinct), dtype=np.int32)), return_dtype=pl.Int32
    )
    return IdColumn(
        index.to_numpy(), Vocabulary(distinct.to_numpy().astype(np.str_), kind=kind), notes
    )


def _id_text(table: ColumnTable, name: str, kind: str) -> Any:
    """The column as text without blanks around, "" where there is none."""
    import polars as pl

    column = table.frame[name]
    if column.dtype.is_float():
        fix = (
            f"write {kind} ids as whole numbers or text; a missing id turns a column into floats in"
            " some programs"
        )
        where = table.where(0) if table.first_line is None else table.source
        raise InputError(
            where,
            f"the {kind} column '{name}' holds floating-point numbers",
            expected="text or whole numbers",
            fix=fix,
        )
    if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Categorical, pl.Enum)):
        problem = f"the {kind} column '{name}' holds {column.dtype}"
        raise InputError(
            table.source, problem, expected="text or whole numbers", fix="convert the column"
        )
    if column.dtype.is_integer():
        return column.cast(pl.String).fill_null("")
    return column.cast(pl.String).fill_null("").str.strip_chars()


def _check_ids(
    table: ColumnTable, column: Any, distinct: Any, kind: str, whole: bool
) -> tuple[str, ...]:
    def first(bad: Any) -> str | None:
        return distinct.filter(bad)[0] if bad.any() else None

    def stop(bad: str, problem: str, expected: str, fix: str) -> NoReturn:
        refuse(table, (column == bad).to_numpy(), problem, expected=expected, fix=fix)

    if first(distinct == "") is not None:
        stop("", f"the {kind} id is empty", "an id on every row", "fill it in or remove the row")
    if (bad := first(distinct.str.len_chars() > ID_LIMIT)) is not None:
        stop(
            bad,
            f"the {kind} id is {len(bad):,} characters long",
            f"at most {ID_LIMIT}",
            "check the columns and the delimiter",
        )
    if (bad := first(distinct.str.contains(DECIMAL))) is not None:
        stop(
            bad,
            f"{kind} id '{bad}' is written as a decimal number",
            "a whole number or text",
            f"write {bad.split('.')[0]}, or quote it as it is meant",
        )
    if whole and bool((distinct.str.len_chars() > 18).any()):
        _check_large(table, column, distinct, kind)
    formulas = int(distinct.str.contains(FORMULA).sum())
    return (
        (f"{kind} ids that start like a formula, kept as text: {formulas:,}",) if formulas else ()
    )


def _check_large(table: ColumnTable, column: Any, distinct: Any, kind: str) -> None:
    """Among whole numbers, one beyond 64 bits is an overflow or has been rounded; among texts it is
    a text like any other.
    """
    import polars as pl

    beyond = distinct.cast(pl.Int64, strict=False).is_null()
    if beyond.any():
        bad = distinct.filter(beyond)[0]
        problem = f"{kind} id {bad} is beyond 64 bits"
        refuse(
            table,
            (column == bad).to_numpy(),
            problem,
            expected=f"at most {2**63 - 1}",
            fix="other programs round such a number: write ids as text",
        )


def values(table: ColumnTable, name: str, scale: tuple[float, float] | None) -> Float32Array:
    """Ratings or counts, float32 [rows]. Raises InputError for one that is missing, no number, not
    finite or outside `scale`.
    """
    import polars as pl

    column = table.frame[name]
    text = column.str.strip_chars() if column.dtype == pl.String else column
    if not (column.dtype == pl.String or column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise InputError(
            table.source,
            f"the value column '{name}' holds {column.dtype}",
            expected="numbers",
            fix="convert the column",
        )
    number = text.cast(pl.Float64, strict=False)
    missing = number.is_null()
    if missing.any():
        refuse_number(table, missing.to_numpy(), text.filter(missing)[0], "value")
    out = number.to_numpy()
    bad = ~(np.abs(out) <= LARGEST)
    if bad.any():
        refuse(
            table,
            bad,
            f"the value is {shown(text, bad)}",
            expected=f"a finite number up to {LARGEST:.3g}",
            fix="remove the row or correct it",
        )
    if scale is not None and (bad := (out < scale[0]) | (out > scale[1])).any():
        refuse(
            table,
            bad,
            f"the value {shown(text, bad)} is outside the scale",
            expected=f"{scale[0]:g} to {scale[1]:g}",
            fix="correct it or the scale",
        )
    return out.astype(np.float32)


def shown(text: Any, bad: BoolArray) -> str:
    """The first bad field of a polars column, for a message."""
    return str(text[int(np.argmax(bad))])[:40]


def refuse_number(table: ColumnTable, bad: BoolArray, text: object, what: str) -> NoReturn:
    """Raise InputError that says how the first bad field fails to be a number."""
    field = "" if text is None else str(text)[:40]
    if field == "":
        fix = (
            "the last line has no line end: the file seems cut off"
            if is_cut(table, bad)
            else "fill it in or remove the row"
        )
        refuse(table, bad, f"the {what} is empty", expected="a number", fix=fix)
    if THOUSANDS.fullmatch(field):
        fix = "write it without separators between the thousands"
    elif COMMA_DECIMAL.fullmatch(field):
        fix = f"write {field.replace(',', '.')} with a decimal point"
    else:
        fix = "correct it, check which column it is, or remove the row"
    refuse(
        table,
        bad,
        f"the {what} '{field}' is not a number",
        expected="a number such as 4 or 3.5",
        fix=fix,
    )


def is_cut(table: ColumnTable, bad: BoolArray) -> bool:
    """Whether the first bad row is the last one of a file that does not end with a line end."""
    return not table.whole and int(np.argmax(bad)) == len(bad) - 1
