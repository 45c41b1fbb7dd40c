"""Large plain files of numbers to a table, without a text for each field. A file that is plain in
all its rows gives the same data as `formats.delimited`, which reads every other file.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core.types import Array
from .encoding import plain_text
from .files import RawFile
from .formats.layout import LINE_LIMIT, layout_of, start_of
from .options import LoadOptions
from .reading import Guess
from .table import ColumnTable

# More columns are read as text.
MOST_COLUMNS = 8
# Where lines are looked at before all are read.
HEAD = 2 * LINE_LIMIT


def read_plain(
    file: RawFile, options: LoadOptions, delimiter: str | None, typed: bool
) -> ColumnTable | None:
    """Returns the table in a file of which every field is a plain number; None for another file.
    delimiter, typed: as in `formats.delimited.read_text`.
    """
    import polars as pl

    content = file.content
    if not content.endswith(b"\n") or options.encoding != "utf-8":
        return None
    end = content.rfind(b"\n", 0, HEAD) + 1
    # A quoted header takes the careful reader too.
    if b'"' in content[:end]:
        return None
    notes: list[str] = []
    guesses: list[Guess] = []
    head = plain_text(content[:end], file.source, options.encoding, notes)
    start = start_of(head, options, file.source, notes)
    where = f"{file.source}:{start.line}"
    layout = layout_of(start, where, options, delimiter, typed, notes, guesses)
    if layout.spare or len(layout.names) > MOST_COLUMNS or layout.may_be_lists:
        return None
    first = start.line + layout.header
    lines = _Lines(
        np.frombuffer(content, np.uint8),
        _place_of_line(content, first),
        (ord(layout.delimiter[0]), len(layout.delimiter)),
        b"\r\n" in content[:end],
    )
    columns = _columns(lines, layout.width)
    if columns is None:
        return None
    frame = pl.DataFrame(dict(zip(layout.names, columns, strict=True)))
    return ColumnTable(
        frame=frame,
        source=file.source,
        first_line=first,
        types=layout.types,
        compact=True,
        guesses=tuple(guesses),
        notes=tuple(notes),
    )


class _Lines(NamedTuple):
    """The lines of a text with rows alone."""

    content: Array
    """uint8 [bytes], of which the last is a line feed."""
    begin: int
    """The place of the first row."""
    separator: tuple[int, int]
    """The byte between two fields, and how often it stands there."""
    crlf: bool
    """True if lines end in CR LF."""


def _place_of_line(content: bytes, line: int) -> int:
    """Returns the place of the first byte of a line, counted from 1."""
    place = 0
    for _ in range(line - 1):
        place = content.index(b"\n", place) + 1
    return place


def _columns(lines: _Lines, width: int) -> list[Array] | None:
    """Returns the columns, int64 or float64 [rows]; None if a field is no plain number."""
    from . import compiled

    spans = _spans(lines)
    with ThreadPoolExecutor(len(spans)) as threads:
        counts = list(threads.map(lambda span: compiled.count_lines(lines.content, *span), spans))
        rows = sum(counts)
        first = np.cumsum([0, *counts])
        # Memory that is not written to is never taken.
        whole = np.empty((width, rows), np.int64)
        decimals = np.empty((width, rows))
        real = np.zeros(width, np.bool_)

        def parse(number: int) -> int:
            row = int(first[number])
            return compiled.parse_rows(
                lines.content,
                spans[number],
                lines.separator,
                lines.crlf,
                real,
                whole,
                decimals,
                row,
            )

        # A column turns out to be one of decimals at most once.
        for _ in range(width + 1):
            parsed = list(threads.map(parse, range(len(spans))))
            worst = min(parsed)
            if worst >= 0:
                return [decimals[c] if real[c] else whole[c] for c in range(width)]
            if compiled.OTHER in parsed:
                return None
            real[compiled.OTHER - 1 - worst] = True
    return None


def _spans(lines: _Lines) -> list[tuple[int, int]]:
    """Returns where the lines of each thread begin and end."""
    import polars as pl

    end = len(lines.content)
    threads = pl.thread_pool_size()
    # Each thread begins behind a line feed.
    edges = [lines.begin]
    for part in range(1, threads):
        at = lines.begin + (end - lines.begin) * part // threads
        feeds = np.flatnonzero(lines.content[at : at + LINE_LIMIT] == ord("\n"))
        if len(feeds):
            edges.append(at + int(feeds[0]) + 1)
    # Lines may be so long, or threads so many, that two edges are one.
    edges = sorted({*edges, end})
    return list(pairwise(edges))
