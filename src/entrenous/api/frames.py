"""Results as frames of the kind that the caller works with: pandas, polars, Arrow, or another that
narwhals knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

POLARS = "polars"


def kind_of(data: object) -> str:
    """The library of a caller's frame, by narwhals' name; polars for data that is no frame."""
    # Data that is named needs no library of frames, and a query is not asked for its columns.
    if not hasattr(data, "shape"):
        return POLARS
    import narwhals.stable.v2 as nw

    frame = nw.from_native(data, eager_only=True, pass_through=True)
    return frame.implementation.value if isinstance(frame, nw.DataFrame) else POLARS


def frame_of(columns: Mapping[str, Sequence[Any]], kind: str) -> Any:
    """A frame of a library. columns: lists or arrays by name; NaN in an array is a missing
    value.
    """
    import narwhals.stable.v2 as nw

    # `kind` is narwhals' own name.
    backend: Any = kind
    return nw.from_dict(
        {name: _with_gaps(columns[name]) for name in columns}, backend=backend
    ).to_native()


def _with_gaps(values: Sequence[Any]) -> Sequence[Any]:
    """The values of a column, with None in place of NaN."""
    # Before there is a frame: an expression of polars needs threads, which a forked process lacks.
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if any(isinstance(value, float) and value != value for value in listed):
        return [None if value != value else value for value in listed]
    return values


def frame_of_records(
    records: Iterable[Mapping[str, Any]], kind: str, names: Sequence[str] = ()
) -> Any:
    """A frame with a row for each record. names: the first columns, which an empty frame has too.
    A column with both texts and numbers is text.
    """
    rows = list(records)
    columns = dict.fromkeys([*names, *(name for row in rows for name in row)])
    listed = {name: [row.get(name) for row in rows] for name in columns}
    for name, values in listed.items():
        kinds = {type(value) for value in values if value is not None}
        if str in kinds and len(kinds) > 1:
            listed[name] = [None if value is None else str(value) for value in values]
    return frame_of(listed, kind)
