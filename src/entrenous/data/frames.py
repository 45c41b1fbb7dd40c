"""Tables in memory (pandas, polars, Arrow, columns, tuples, SciPy) to a `ColumnTable`, without
importing pandas or pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..core.errors import InputError
from .table import ColumnTable


def from_any(frame: Any, name: str) -> ColumnTable:
    """Returns a table from a polars frame, anything with the Arrow PyCapsule interface (pyarrow,
    recent pandas), a pandas frame, a mapping of columns, a list of tuples (user, item, value,
    time), or a SciPy sparse matrix, users by items.

    Raises InputError for anything else, for an empty table, and for column names that are no text.
    """
    converted = _convert(_as_columns(frame, name), name)
    if converted.height == 0:
        raise InputError(name, "there are no rows", expected="at least one row")
    return ColumnTable(frame=converted, source=name)


def _as_columns(frame: Any, name: str) -> Any:
    """Returns a list of tuples, or a SciPy sparse matrix of users by items, as a mapping of
    columns; anything else as it is.
    """
    if isinstance(frame, list | tuple):
        return _columns_of_tuples(frame, name)
    # Every kind of sparse matrix has it.
    if hasattr(frame, "tocoo"):
        entries = frame.tocoo()
        return {
            "user_id": entries.row.astype(np.int64),
            "item_id": entries.col.astype(np.int64),
            "rating": entries.data,
        }
    return frame


def _columns_of_tuples(rows: Sequence[Any], name: str) -> dict[str, list[Any]]:
    widths = {len(row) if isinstance(row, list | tuple) else 0 for row in rows}
    if len(widths) != 1 or not 2 <= min(widths) <= 4:
        raise InputError(
            name,
            f"a list of {'other things' if rows else 'nothing'}",
            expected="tuples (user, item), (user, item, value) or (user, item, value, time)",
        )
    names = ("user_id", "item_id", "rating", "timestamp")
    columns = zip(*rows, strict=True)
    return {column_name: list(column) for column_name, column in zip(names, columns, strict=False)}


def _convert(frame: Any, name: str) -> Any:
    """Returns the table as a polars frame."""
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pl.Series):
        # Fails for pandas without pyarrow and for a column of mixed types, which are read column by
        # column below.
        with suppress(Exception):
            return pl.DataFrame(frame)
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
        return pl.DataFrame({label: _column(frame[label]) for label in labels})
    except Exception as wrong:
        raise InputError(
            name,
            f"cannot be read as a table: {wrong}",
            expected="columns of one type and one length",
        ) from None


def _column(column: Any) -> Any:
    """Returns a column in a form that polars reads: None for every kind of missing value."""
    if isinstance(column, (list, tuple)):
        return column
    array = np.asarray(column)
    # Polars knows no seconds.
    if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in ("ms", "us", "ns", "D"):
        return array.astype("datetime64[us]")
    if array.dtype != object:
        return array
    # Only NaN and its kin differ from themselves.
    return [None if value is None or value != value else value for value in array]
