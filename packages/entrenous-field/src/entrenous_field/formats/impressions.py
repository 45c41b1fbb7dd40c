"""Impressions of MIND (behaviors.tsv): the news that a user had read, and the news that were shown,
each with 1 if it was clicked.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from entrenous.core.errors import InputError
from entrenous.data.files import Format, RawFile
from entrenous.data.formats.delimited import read_text
from entrenous.data.options import LoadOptions
from entrenous.data.table import ColumnTable, refuse

NAMES = ("impression_id", "user_id", "timestamp", "history", "impressions")
# Shown items, each with its click.
SHOWN = r"^\S+-[01]( \S+-[01])*$"
TIME = "%m/%d/%Y %I:%M:%S %p"


def recognises(head: bytes, name: str) -> bool:
    """Returns True if the first line has five columns, the last of shown items."""
    fields = head.splitlines()[0].decode("utf-8", "replace").split("\t")
    return len(fields) == len(NAMES) and re.match(SHOWN, fields[4].strip()) is not None


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns one row for each item of a user's history, without a time, and one for each click.
    Raises InputError with the line of the first defect.
    """
    import polars as pl

    table = _shown(file, options)
    clicks = _clicks(table)
    history = _history(table)
    notes = (
        *table.notes,
        f"impressions with their clicks: {table.frame.height:,} with {clicks.height:,}; what was"
        " shown and not clicked is left out",
        f"items of users' histories, which have no time: {history.height:,}",
    )
    return _with_lines(table, pl.concat([history, clicks]), notes)


def _shown(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns the table of impressions, one row each, with the times as dates."""
    import polars as pl

    reading = LoadOptions(names=NAMES, delimiter="\t", encoding=options.encoding)
    table = read_text(file.content, file.source, reading)
    # A user without a history has a blank or nothing in that column.
    frame = table.frame.with_columns(pl.all().str.strip_chars(" "))
    time = frame["timestamp"].str.to_datetime(TIME, strict=False, time_unit="us")
    bad = time.is_null().to_numpy()
    if bad.any():
        text = frame["timestamp"][int(np.argmax(bad))]
        refuse(
            table,
            bad,
            f"the time is '{text[:40]}'",
            expected="a time such as 11/11/2019 9:05:58 AM",
            fix="mend the line",
        )
    bad = ~frame["impressions"].str.contains(SHOWN).to_numpy()
    if bad.any():
        refuse(
            table,
            bad,
            "the impressions are not items with 1 (clicked) or 0",
            expected="such as N55689-1 N35729-0; the test part of MIND has no clicks",
            fix="mend the line, or use the part train or dev",
        )
    # By which each item finds its line again.
    rows = pl.Series("row", np.arange(frame.height))
    return replace(table, frame=frame.with_columns(time, rows))


def _clicks(table: ColumnTable) -> Any:
    """Returns one row for each click: user_id, item_id, timestamp, row (of its impression)."""
    import polars as pl

    shown = table.frame.select(
        "user_id", pl.col("impressions").str.split(" ").alias("item_id"), "timestamp", "row"
    ).explode("item_id")
    # What was shown and not clicked may not have been seen.
    clicked = shown.filter(pl.col("item_id").str.ends_with("-1"))
    return clicked.with_columns(pl.col("item_id").str.head(-2))


def _history(table: ColumnTable) -> Any:
    """Returns one row for each item that a user had read, as `_clicks`, without a time. Each
    impression of a user repeats the history.
    """
    import polars as pl

    read_before = table.frame.select(
        "user_id",
        pl.col("history").str.split(" ").alias("item_id"),
        pl.lit(None, pl.Datetime("us")).alias("timestamp"),
        "row",
    ).explode("item_id")
    # An empty history divides into one empty text.
    read_before = read_before.filter(pl.col("item_id") != "")
    return read_before.unique(["user_id", "item_id"], keep="first", maintain_order=True)


def _with_lines(table: ColumnTable, rows: Any, notes: tuple[str, ...]) -> ColumnTable:
    if not rows.height:
        raise InputError(table.source, "there is neither a history nor a click", expected="one")
    lines = table.line_numbers()[rows["row"].to_numpy()]
    return ColumnTable(
        frame=rows.drop("row"), source=table.source, lines=lines, whole=table.whole, notes=notes
    )


FORMATS = {
    "impressions": Format(
        "impressions of MIND: the history and the clicks of each user (behaviors.tsv)",
        recognises,
        read,
    ),
}
