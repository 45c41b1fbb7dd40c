"""Results as frames of the kind that the caller works with: pandas, polars, Arrow, or another that
narwhals knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    frame = nw.from_dict(columns, backend=backend)
    numbers = [name for name, dtype in frame.schema.items() if dtype.is_float()]
    filled = [nw.when(~nw.col(name).is_nan()).then(nw.col(name)) for name in numbers]
    return frame.with_columns(*filled).to_native()


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
