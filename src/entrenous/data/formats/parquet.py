"""Parquet files to a table, by polars."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.errors import InputError
from ..files import Format, RawFile
from ..options import LoadOptions
from ..table import ColumnTable, NoRows

# The first and the last bytes of such a file.
MARK = b"PAR1"


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the table in a Parquet file, whose columns have their own types and names. Raises
    InputError for a damaged or empty file.
    """
    import polars as pl

    if not file.content.endswith(MARK):
        raise InputError(
            file.source, "the Parquet file is cut off", expected="a whole file", fix="get it again"
        )
    try:
        with _quiet_stderr():
            frame: Any = pl.read_parquet(io.BytesIO(file.content))
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    # polars panics on some damaged files, and a panic is no Exception.
    except BaseException as wrong:
        raise InputError(
            file.source,
            f"the Parquet file is damaged ({wrong})"[:200],
            expected="a whole file",
            fix="get it again",
        ) from None
    if frame.height == 0:
        raise NoRows(file.source, "there are no rows", expected="at least one row")
    return ColumnTable(frame=frame, source=file.source)


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discards file descriptor 2 for a while: a panic inside polars prints a backtrace there before
    Python learns of it.
    """
    try:
        kept = os.dup(2)
    except OSError:
        # There is no standard error.
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


FORMATS = {
    "parquet": Format(
        "Parquet with one row per interaction",
        lambda head, name: head.startswith(MARK),
        read,
    )
}
