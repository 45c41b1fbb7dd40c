"""Tables that live in memory (pandas, polars, Arrow, a mapping of columns) to a Table, without importing pandas or pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from .table import ColumnTable


def from_any(frame: Any, name: str) -> ColumnTable:
    """A Table from a polars frame, anything with the Arrow PyCapsule interface (pyarrow, recent pandas), a pandas frame, or a
    mapping of columns.

    Raises InputError for anything else, for an empty one, and for column names that are no text.
    """
    converted = _convert(frame, name)
    if converted.height == 0:
        raise InputError(name, "there are no rows", expected="at least one row")
    return ColumnTable(frame=converted, source=name)


def _convert(frame: Any, name: str) -> Any:
    import polars as pl

    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pl.Series):
        try:
            return pl.DataFrame(frame)
        except Exception:  # pandas without pyarrow, or a column of mixed types: column by column below
            pass
    if isinstance(frame, Mapping) or (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        return _by_columns(frame, name)
    raise InputError(name, f"got {type(frame).__name__}", expected="a pandas, polars or Arrow table, or a mapping of columns")


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
        raise InputError(name, f"cannot be read as a table: {wrong}", expected="columns of one type and one length") from None


def _column(column: Any) -> Any:
    if isinstance(column, (list, tuple)):
        return column
    array = np.asarray(column)
    if array.dtype != object:
        return array
    missing = [value is None or value != value for value in array]
    return [None if gone else value for gone, value in zip(missing, array, strict=True)]
