"""A stream: nothing is held out beforehand. Each row is first predicted and then learnt, in global
time; users and items are there from their first row on.

`stream` learns once a day, `stream-week` once a week, and `stream-1000` after every 1,000 rows: the
rows of such a window are predicted by the model before it. The algorithm meets users and items as
it would in service, and no row is predicted with a later one, so that the figure is a curve over
time (A. P. Dawid, "Present position and potential developments: some personal views: statistical
theory: the prequential approach", 1984; J. Vinagre, A. M. Jorge, J. Gama, "Evaluation of
recommender systems in streaming environments", 2014).

The events are those of the rows, or of a file (`--given events.csv`), which may say more: who
leaves, which item is retired, which row is forgotten (`data/events.py`).
"""

from __future__ import annotations

import numpy as np

from ...core.errors import InputError
from ..describe import iso
from ..events import KINDS, Events, Standing, Windows
from ..interactions import Interactions
from .types import Held, Split

DAY = 86_400
STREAM = "stream"


def by_day(data: Interactions, *, seed: int) -> list[Split]:
    """Streams the rows in windows of a day, the protocol `stream`. Nothing is drawn. Raises
    InputError for data without times.
    """
    return [stream(Events.of_rows(data), STREAM)]


def by_weeks(data: Interactions, *, seed: int) -> list[Split]:
    """Streams the rows in windows of seven days from the first row on, the protocol `stream-week`.
    Raises InputError as `by_day` does.
    """
    return [stream(Events.of_rows(data), "stream-week")]


def by_rows(data: Interactions, rows: int, *, seed: int) -> list[Split]:
    """Streams the rows in windows of N rows, the protocol `stream-N`. Raises InputError for N = 0,
    and as `by_day` does.
    """
    return [stream(Events.of_rows(data), f"stream-{rows}")]


PROTOCOLS = {
    "stream": by_day,
    "stream-week": by_weeks,
    "stream-1000": by_rows,
}


def stream(events: Events, protocol: str = STREAM) -> Split:
    """Returns the split of a stream. Its training rows are those that are there at the end.

    protocol: its name, which says the windows. Raises InputError for windows that are none.
    """
    windows = _windows(events, protocol)
    standing = Standing()
    # Taken to the end once: the rows that are then there are the training rows of reports.
    for event in events.numbers():
        standing.take(*event)
    rows = standing.interactions(events, len(events.users), len(events.items))
    nothing = Held(rows.select(np.zeros(len(rows), np.bool_)))
    notes = _about(events, windows, protocol)
    return Split(protocol, rows, None, nothing, refit=False, notes=notes, windows=windows)


def first_half(split: Split) -> Split:
    """Returns a stream without the windows after its first half. Raises InputError for a stream of
    which no window is left for a test.
    """
    assert split.windows is not None
    events, ptr = split.windows
    half = split.windows.half
    if half + 1 >= len(ptr):
        raise InputError(
            f"protocol {split.name}",
            f"of {len(ptr) - 1} windows none comes after the first half of the rows",
            fix="use smaller windows, as in stream-1000",
        )
    stop = int(ptr[half])
    standing = Standing()
    for event in events.numbers(0, stop):
        standing.take(*event)
    users = int(events.user[:stop].max()) + 1
    items = int(events.item[:stop].max()) + 1
    rows = standing.interactions(events, users, items)
    return split._replace(train=rows, windows=Windows(events, ptr[: half + 1]))


def _windows(events: Events, protocol: str) -> Windows:
    # `stream`, `stream-week` or `stream-N`.
    size = protocol.removeprefix("stream").removeprefix("-")
    if size.isdigit():
        if not int(size):
            raise InputError(
                "protocol", f"'{protocol}' has windows without rows", fix="use stream-1000"
            )
        return events.windows(int(size))
    return events.windows(7 * DAY if size == "week" else DAY, seconds=True)


def _about(events: Events, windows: Windows, protocol: str) -> tuple[str, ...]:
    """Returns notes on the events by kind, and on the windows."""
    # Kinds that did not occur are not named.
    counts = np.bincount(events.kind, minlength=len(KINDS)).tolist()
    number = dict(zip(KINDS, counts, strict=True))
    parts = [f"{number['row']:,} rows of {len(events.users):,} users, {len(events.items):,} items"]
    others = [kind for kind in KINDS if kind not in ("row", "join", "item") and number[kind]]
    parts += [f"{kind} {number[kind]:,}" for kind in others]
    first, last = (iso(at) for at in events.at[[0, -1]].tolist())
    return (
        f"a stream from {first} to {last} in {len(windows.ptr) - 1:,} windows ({protocol}):"
        f" {'; '.join(parts)}",
    )
