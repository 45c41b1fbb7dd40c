"""Tables in memory (pandas, polars, Arrow, columns, tuples, SciPy) to a `ColumnTable`, without
importing pandas or pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from typing_extensions import TypeVar

from ..core.errors import InputError
from .formats.layout import SAMPLE
from .interactions import POLARS
from .table import ColumnTable
from .times import may_be_times

if TYPE_CHECKING:
    import polars as pl

# Kinds of values, in words.
WHOLE = "a whole number"
REAL = "a number with a fraction"
TEXT = "text"
UUID = "UUID"
# Those that may stand in one column: numbers are floats, all else is text.
MIXED = ({WHOLE, REAL}, {WHOLE, TEXT}, {UUID, TEXT})


class CallersFrame(Protocol):
    """A pandas, polars or Arrow table, or another that narwhals knows."""

    @property
    def columns(self) -> object: ...
    @property
    def shape(self) -> tuple[int, int]: ...


class LazyTable(Protocol):
    """A query that gives a table when it is collected, such as a polars LazyFrame."""

    def collect(self) -> object: ...


class SparseMatrix(Protocol):
    """A SciPy sparse matrix, users by items."""

    def tocoo(self) -> object: ...


# The kind of the caller's frame, in which results come back; polars where no frame was given.
FrameT = TypeVar("FrameT", bound=CallersFrame, default="pl.DataFrame")
# Rows in memory in another form than a frame: a query, a sparse matrix, columns, or tuples.
Columns: TypeAlias = Mapping[str, Iterable[object]]
OtherRows: TypeAlias = LazyTable | SparseMatrix | Columns | Sequence[tuple[object, ...]]


def library_of(data: object) -> str:
    """Returns the library of a frame, by narwhals' name; polars for data that is no frame."""
    # Data that is named needs no library of frames, and a query is not asked for its columns.
    if not hasattr(data, "shape"):
        return POLARS
    import narwhals.stable.v2 as nw

    frame = nw.from_native(data, eager_only=True, pass_through=True)
    return frame.implementation.value if isinstance(frame, nw.DataFrame) else POLARS


def from_any(frame: CallersFrame | OtherRows, name: str) -> ColumnTable:
    """Returns a table from a polars frame, anything with the Arrow PyCapsule interface (pyarrow,
    recent pandas), a pandas frame, a mapping of columns, a list of tuples (user, item, value,
    time), or a SciPy sparse matrix, users by items.

    Raises InputError for anything else, for an empty table, and for column names that are no text.
    """
    notes: list[str] = []
    converted = _convert(_as_columns(frame, name, notes), name)
    if converted.height == 0:
        raise InputError(name, "there are no rows", expected="at least one row")
    return ColumnTable(frame=converted, source=name, notes=tuple(notes))


def _as_columns(frame: Any, name: str, notes: list[str]) -> Any:
    """Returns a list of tuples, or a SciPy sparse matrix of users by items, as a mapping of
    columns; anything else as it is.
    """
    if isinstance(frame, list | tuple):
        return _columns_of_tuples(frame, name, notes)
    # Every kind of sparse matrix has it.
    if hasattr(frame, "tocoo"):
        entries = frame.tocoo()
        return {
            "user": entries.row.astype(np.int64),
            "item": entries.col.astype(np.int64),
            "rating": entries.data,
        }
    return frame


def _columns_of_tuples(rows: Sequence[Any], name: str, notes: list[str]) -> dict[str, list[Any]]:
    widths = {len(row) if isinstance(row, list | tuple) else 0 for row in rows}
    if len(widths) != 1 or not 2 <= min(widths) <= 4:
        raise InputError(
            name,
            f"a list of {'other things' if rows else 'nothing'}",
            expected="tuples (user, item), (user, item, value) or (user, item, value, time)",
        )
    names = ["user", "item", "rating", "timestamp"]
    columns = [list(column) for column in zip(*rows, strict=True)]
    # As in a text file without a header.
    if len(columns) == 3 and may_be_times([str(field) for field in columns[2][:SAMPLE]]):
        names.remove("rating")
        notes.append("the third fields of the tuples are times, read as such")
    return dict(zip(names, columns, strict=False))


def _convert(frame: Any, name: str) -> Any:
    """Returns the table as a polars frame."""
    import polars as pl

    if isinstance(frame, pl.DataFrame):
        return frame
    # Queries of polars, DuckDB, Dask and others.
    if not isinstance(frame, Mapping):
        import narwhals.stable.v2 as nw

        query = nw.from_native(frame, pass_through=True)
        if isinstance(query, nw.LazyFrame):
            return query.collect(backend="polars").to_native()
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pl.Series):
        # Fails for pandas without pyarrow and for a column of mixed types, which are read column by
        # column below.
        with suppress(Exception):
            converted = pl.DataFrame(frame)
            # Objects such as a UUID come as their bytes, and are read as text below.
            if pl.Binary not in converted.dtypes or not hasattr(frame, "__getitem__"):
                return converted
    if isinstance(frame, Mapping) or (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        return _by_columns(frame, name)
    raise InputError(
        name,
        f"got {type(frame).__name__}",
        expected=(
            "a pandas, polars or Arrow table, a mapping of columns, a list of tuples or a sparse"
            " matrix"
        ),
    )


def _by_columns(frame: Any, name: str) -> Any:
    import polars as pl

    labels = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    if not labels or not all(isinstance(label, str) for label in labels):
        raise InputError(
            name,
            f"columns are {', '.join(map(repr, labels[:8]))}",
            expected="columns with names",
            fix="name them user_id, item_id, ...",
        )
    try:
        columns = {label: _column(frame[label], f"'{label}'", name) for label in labels}
        return pl.DataFrame(columns)
    except InputError:
        raise
    except Exception as wrong:
        raise InputError(
            name,
            f"cannot be read as a table: {wrong}",
            expected="columns of one type and one length",
        ) from None


def _column(column: Any, label: str, name: str) -> Any:
    """Returns a column in a form that polars reads: None for every kind of missing value, and one
    kind of value. label, name: the column and the frame, for errors.
    """
    if isinstance(column, (list, tuple)):
        values = list(column)
    else:
        array = np.asarray(column)
        # Polars knows no seconds.
        units = ("ms", "us", "ns", "D")
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in units:
            return array.astype("datetime64[us]")
        if array.dtype != object:
            return array
        values = array.tolist()
    # Only NaN and its kin differ from themselves.
    known = [None if value is None or _is_nan(value) else value for value in values]
    return _of_one_kind(known, label, name)


def _is_nan(value: Any) -> bool:
    differs = value != value
    # The missing value of pandas stands for the answer too; arrays have many answers.
    if isinstance(differs, bool | np.bool_):
        return bool(differs)
    return differs is value


def _of_one_kind(values: list[Any], label: str, name: str) -> list[Any]:
    """Returns the values of a column as one kind: whole numbers among texts are text,
    among other numbers floats, and a UUID is text. Raises InputError at the first row of another
    kind.
    """
    # The first row of each kind.
    first: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None:
            first.setdefault(_kind(value), row)
    kinds = list(first)
    for number in range(2, len(kinds) + 1):
        if set(kinds[:number]) not in MIXED:
            other = kinds[number - 1]
            raise InputError(
                f"{name}:row {first[other]}",
                f"column {label} holds {other} here and {kinds[0]} before",
                expected="one kind of value in a column",
                fix="convert the column",
            )
    if set(kinds) == {WHOLE, REAL}:
        return [None if value is None else float(value) for value in values]
    if set(kinds) == {WHOLE, TEXT}:
        _refuse_twins(values, label, name)
    if UUID in kinds or len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def _kind(value: Any) -> str:
    """Returns the kind of a value in words, or the name of its class."""
    # A bool is an int in Python.
    if isinstance(value, bool | np.bool_):
        return "true or false"
    if isinstance(value, int | np.integer):
        return WHOLE
    if isinstance(value, float | np.floating):
        return REAL
    if isinstance(value, str):
        return TEXT
    return type(value).__name__


def _refuse_twins(values: list[Any], label: str, name: str) -> None:
    """Raises InputError if a column has a whole number and the same number as text."""
    texts = {value for value in values if isinstance(value, str)}
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, str) and str(value) in texts:
            raise InputError(
                f"{name}:row {row}",
                f"column {label} holds {value} as a number and elsewhere as text",
                expected="one kind of value in a column",
                fix="convert the column to text, which makes them one",
            )
