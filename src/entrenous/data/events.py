"""Everything that happens to a federation, in order: people join and leave, rows arrive and are
forgotten, items appear and are retired, devices are present or away.

An event has a time, in seconds since 1970 in files and microseconds here. A file is a table:

    time,event,user,item,value,title
    874724710,join,259,,,
    874724710,item,,255,,My Best Friend's Wedding (1997)
    874724710,row,259,255,4,

Further columns are features of items, said when an item appears. Numbers of users and items count
up in the order in which they first come, so that events only ever add numbers: an algorithm that
draws the state of a new user or item from its number keeps all others as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from .files import read_without_options
from .interactions import SECOND, Interactions, Vocabulary, build
from .table import ColumnTable

Kind = Literal["join", "leave", "present", "away", "item", "retire", "row", "forget"]
KINDS: tuple[Kind, ...] = (
    "join",
    "leave",
    "present",
    "away",
    "item",
    "retire",
    "row",
    "forget",
)
NUMBER = {kind: number for number, kind in enumerate(KINDS)}
# The events of items alone. A `row` has a user too, and a `forget` may have both.
OF_ITEMS = {"item", "retire"}
COLUMNS = ("time", "event", "user", "item", "value")
# The latest time, in microseconds: a whole number that float64 holds.
LATEST = 1 << 53
# The largest value: float32 cannot hold much larger ones.
LARGEST = 1e30
LONGEST_ID = 1000
EXPECTED = "a table with the columns time, event, user, item, value"


class Event(NamedTuple):
    """One thing that happens to a federation."""

    at: int
    """Its time in microseconds since 1970."""
    kind: str
    """One of KINDS. A user or an item that joins or appears again is an error, but a user who left
    may join again, without any rows. `forget` without an item forgets all rows of its user."""
    user: str = ""
    item: str = ""
    value: float = 1.0
    """The rating or count of a row."""
    features: Mapping[str, str] = {}  # nobody writes to it
    """Features of an item that appears, such as {"title": "Fargo"}."""


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Events:
    """n events in order, checked to be possible one after the other."""

    at: Int64Array
    """Microseconds since 1970, int64 [n], not descending."""
    kind: Int32Array
    """int32 [n], a place in KINDS."""
    user: Int32Array
    """int32 [n], -1 for none."""
    item: Int32Array
    """int32 [n], -1 for none."""
    value: Float32Array
    """float32 [n]."""
    users: Vocabulary
    """The ids of the users, in the order in which they join."""
    items: Vocabulary
    """The ids of the items, in the order in which they appear."""
    features: Mapping[str, Array] = field(default_factory=dict)
    """Item columns by name, text [items], as in `Interactions`."""
    name: str = "events"

    def __len__(self) -> int:
        return len(self.at)

    def __repr__(self) -> str:
        return (
            f"Events({self.name}: {len(self)}, {len(self.users)} users x {len(self.items)} items)"
        )

    def __iter__(self) -> Iterator[Event]:
        for at, kind, user, item, value in self._columns():
            # Features go with the event in which the item appears.
            about = {}
            if KINDS[kind] == "item":
                about = {name: str(texts[item]) for name, texts in self.features.items()}
            who = "" if user < 0 else self.users[user]
            which = "" if item < 0 else self.items[item]
            yield Event(at, KINDS[kind], who, which, value, about)

    def numbers(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[str, int, int]]:
        """Yields the kind, the user and the item of events, for `Standing.take`."""
        part = slice(start, stop)
        columns = [column[part].tolist() for column in (self.kind, self.user, self.item)]
        for kind, user, item in zip(*columns, strict=True):
            yield KINDS[kind], user, item

    def _columns(self) -> Iterator[tuple[Any, ...]]:
        columns = (self.at, self.kind, self.user, self.item, self.value)
        return zip(*(column.tolist() for column in columns), strict=True)

    @classmethod
    def of(cls, events: Iterable[Event], *, name: str = "events") -> Self:
        """Checks events and numbers their users and items. Raises InputError for the first one that
        cannot be, by its place, counted from 1.
        """
        return cls(**_Checked(name, lambda row: f"{name}: event {row + 1}").all(events))

    @classmethod
    def of_rows(cls, data: Interactions) -> Self:
        """The events of a data set in global time: users join and items appear with their first
        row. Rows of one time are in the order of the source. Raises InputError for rows without
        times.
        """
        return cls.of(_of_rows(data), name=data.name)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Reads a file of events. Raises InputError for the first bad line, by file and line."""
        table = read_without_options(Path(path), EXPECTED)
        checked = _Checked(str(path), table.where)
        return cls(**checked.all(_of_table(table, checked)))

    def windows(self, size: int, *, seconds: bool = False) -> Windows:
        """The events in windows of `size` rows each, or of `size` seconds from the first event on;
        the last one may be shorter. A window without events is left out.
        """
        if seconds:
            number = (self.at - self.at[:1]) // (size * SECOND)
        else:
            rows = self.kind == NUMBER["row"]
            # An event before a row belongs to the window of that row.
            number = (np.cumsum(rows) - rows) // size
        # A window begins where its number does; numbers that are left out have none.
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        return Windows(self, np.append(starts, len(self)).astype(np.int64))


class Windows(NamedTuple):
    """Events in parts, one after the other."""

    events: Events
    ptr: Int64Array
    """int64 [windows + 1]: window w has the events ptr[w]:ptr[w + 1]."""

    @property
    def half(self) -> int:
        """The number of windows with at least half of the rows: on these settings may be chosen."""
        is_row = self.events.kind == KINDS.index("row")
        so_far = np.concatenate([[0], np.cumsum(is_row)])[self.ptr]
        return int(np.searchsorted(2 * so_far, so_far[-1]))


@final
class Standing:
    """The state after some of the events: members, items, and the rows that are not
    forgotten.
    """

    def __init__(self) -> None:
        self.done = 0
        """The number of events so far."""
        self.members: set[int] = set()
        self.away: set[int] = set()
        self.items: set[int] = set()
        """Those that have appeared and are not retired."""
        self.retired: set[int] = set()
        self.rows: dict[int, dict[int, int]] = {}
        """By user and item, the number of the event that brought the row."""
        self._there = bytearray()
        """Of each event so far, 1 if it brought a row that is there, else 0."""

    def take(self, kind: str, user: int, item: int) -> str:
        """Takes the next event. Returns the reason why it cannot be, or "". user, item: numbers, -1
        for one that never came.
        """
        # An event that cannot be changes nothing.
        problem = self._problem(kind, user, item)
        if problem:
            return problem
        if kind == "join":
            self.members.add(user)
            self.rows[user] = {}
        elif kind == "leave":
            # The device takes its rows along.
            self.members.discard(user)
            self.away.discard(user)
            self._without(user, list(self.rows[user]))
        elif kind == "present":
            self.away.discard(user)
        elif kind == "away":
            self.away.add(user)
        elif kind == "item":
            self.items.add(item)
        elif kind == "retire":
            self.items.discard(item)
            self.retired.add(item)
        elif kind == "row":
            # A row that comes again replaces the one before.
            self._without(user, [item])
            self.rows[user][item] = self.done
        else:
            self._without(user, list(self.rows[user]) if item == ALL else [item])
        self._there.append(kind == "row")
        self.done += 1
        return ""

    def _without(self, user: int, items: list[int]) -> None:
        for item in items:
            event = self.rows[user].pop(item, None)
            if event is not None:
                self._there[event] = 0

    def _problem(self, kind: str, user: int, item: int) -> str:
        """Returns the reason why an event cannot be, in words for its user and item; or ""."""
        if kind == "join":
            return "user {user} has joined already" if user in self.members else ""
        if kind == "item":
            # An id is never used again, so that no row of before can mean another item.
            there = item in self.items or item in self.retired
            return "item {item} has appeared already" if there else ""
        if kind not in OF_ITEMS and user not in self.members:
            return "user {user} is not a member: no join is before it"
        if item in self.retired:
            # A row of a retired item may still be forgotten.
            return "" if kind == "forget" and item in self.rows[user] else "item {item} is retired"
        if kind in ("retire", "row") and item not in self.items:
            return "item {item} has not appeared"
        if kind == "forget" and item != ALL and item not in self.rows[user]:
            return "user {user} has no row of item {item}"
        return ""

    def interactions(self, events: Events, users: int, items: int) -> Interactions:
        """The rows that are there, without those of retired items, over the first `users` users and
        `items` items.
        """
        # Rows in the order in which they came.
        kept = np.flatnonzero(np.frombuffer(self._there, np.bool_))
        kept = kept[~np.isin(events.item[kept], list(self.retired))]
        return build(
            events.user[kept],
            events.item[kept],
            value=events.value[kept],
            time=events.at[kept],
            users=events.users.some(np.arange(users)),
            items=events.items.some(np.arange(items)),
            features={name: texts[:items] for name, texts in events.features.items()},
            name=events.name,
        )

    def training(self, users: int) -> BoolArray:
        """Marks the users who can take part in a round, bool [users]: members who are present and
        have rows.
        """
        able = np.zeros(users, np.bool_)
        for user in self.members - self.away:
            able[user] = bool(self.rows[user])
        return able


# The item of an event that is about all rows of its user.
ALL = -1
# A user or item that never came.
UNKNOWN = -2


def _of_rows(data: Interactions) -> Iterator[Event]:
    time = data.known_times()
    # By time, and within one time by line of the source: the same events on every machine.
    order = np.lexsort((time,)) if data.row is None else np.lexsort((data.row, time))
    user = data.user[order].tolist()
    item = data.item[order].tolist()
    users: set[int] = set()
    items: set[int] = set()
    for at, u, i, value in zip(
        time[order].tolist(), user, item, data.value[order].tolist(), strict=True
    ):
        if u not in users:
            users.add(u)
            yield Event(at, "join", data.users[u])
        if i not in items:
            items.add(i)
            about = {name: str(texts[i]) for name, texts in data.features.items()}
            yield Event(at, "item", "", data.items[i], 1.0, about)
        yield Event(at, "row", data.users[u], data.items[i], value)


# ---- checks --------------------------------------------------------------------------------------


class _Checked:
    """Events that are checked one after the other. where: names an event by its place, from 0."""

    def __init__(self, name: str, where: Callable[[int], str]) -> None:
        self.name = name
        self._where = where
        self._standing = Standing()
        self._users: dict[str, int] = {}
        self._items: dict[str, int] = {}
        self._features: dict[str, dict[int, str]] = {}
        self._last = -LATEST

    def error(self, row: int, problem: str, expected: str = "") -> InputError:
        """The error of one event."""
        return InputError(self._where(row), problem, expected=expected)

    def all(self, events: Iterable[Event]) -> dict[str, Any]:
        """Returns the fields of `Events`."""
        # at, kind, user, item and value of each event.
        columns: tuple[list[Any], ...] = ([], [], [], [], [])
        for row, event in enumerate(events):
            # Checks and numbers the event, or ends with its place.
            cells = self._numbers(row, event)
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
        if not columns[0]:
            raise InputError(self.name, "there are no events", expected="at least one row")
        at, kind, user, item, value = columns
        return {
            "at": np.array(at, np.int64),
            "kind": np.array(kind, np.int32),
            "user": np.array(user, np.int32),
            "item": np.array(item, np.int32),
            "value": np.array(value, np.float32),
            "users": Vocabulary(list(self._users), kind="user"),
            "items": Vocabulary(list(self._items), kind="item"),
            "features": {name: self._texts(of) for name, of in self._features.items()},
            "name": self.name,
        }

    def _texts(self, of_item: dict[int, str]) -> Array:
        texts = np.full(len(self._items), "", dtype=object)
        for item, text in of_item.items():
            texts[item] = text
        return texts

    def _numbers(self, row: int, event: Event) -> tuple[int, int, int, int, float]:
        """Returns an event in numbers. Raises InputError for one that cannot be."""
        kind = event.kind
        if kind not in NUMBER:
            raise self.error(row, f"unknown event {kind!r:.60}", ", ".join(KINDS))
        # What can be said of the event alone, before what was there before it.
        self._check_ids(row, event)
        self._check_numbers(row, event)
        if kind == "join":
            # A join gives the next number; who comes back keeps the number of before.
            user = self._users.setdefault(event.user, len(self._users))
        else:
            user = self._users.get(event.user, UNKNOWN) if event.user else ALL
        if kind == "item":
            item = self._items.setdefault(event.item, len(self._items))
        else:
            item = self._items.get(event.item, UNKNOWN) if event.item else ALL
        problem = self._standing.take(kind, user, item)
        if problem:
            said = problem.format(user=f"'{event.user}'", item=f"'{event.item}'")
            raise self.error(row, said, "events that can follow each other")
        if kind == "item":
            for name, text in event.features.items():
                self._features.setdefault(name, {})[item] = text
        self._last = event.at
        return event.at, NUMBER[kind], user, item, event.value

    def _check_ids(self, row: int, event: Event) -> None:
        """Raises InputError for an event without its user or item, or with one too many."""
        # Which ids a kind must have; it may have no others, but `forget` may name an item.
        needed = {
            "user": event.kind not in OF_ITEMS,
            "item": event.kind in OF_ITEMS or event.kind == "row",
        }
        for name, text in {"user": event.user, "item": event.item}.items():
            if len(text) > LONGEST_ID:
                raise self.error(row, f"{name} has more than {LONGEST_ID} characters")
            wanted = needed[name]
            if wanted and not text:
                raise self.error(row, f"a {event.kind} without its {name}", f"{name}: an id")
            if text and not wanted and not (event.kind == "forget" and name == "item"):
                raise self.error(row, f"a {event.kind} has no {name}", "an empty cell")

    def _check_numbers(self, row: int, event: Event) -> None:
        """Raises InputError for a time that goes back or is none, and for a value that is none."""
        at = event.at
        if abs(at) >= LATEST:
            raise self.error(row, f"time is {at!r:.40}", "a time within 200 years of 1970")
        # Equal times are fine: a file may have days only.
        if at < self._last:
            raise self.error(row, "time goes back", "events in the order of time")
        if not abs(event.value) < LARGEST:
            raise self.error(row, f"value is {event.value!r:.40}", "a finite number")


# ---- files ---------------------------------------------------------------------------------------


def _of_table(table: ColumnTable, checked: _Checked) -> Iterator[Event]:
    """Yields the events of a table."""
    import polars as pl

    names = table.frame.columns
    if not {"time", "event"} <= {*names}:
        problem = f"its columns are {','.join(names)!r:.80}"
        raise InputError(table.source, problem, expected=EXPECTED)
    frame = table.frame.cast(pl.String).fill_null("")
    for row, cells in enumerate(frame.iter_rows(named=True)):
        yield _event(cells, row, checked)


def _event(cells: Mapping[str, str], row: int, checked: _Checked) -> Event:
    """Returns the event of the cells of a row. Raises InputError for a cell that is none."""
    about = {name: text for name, text in cells.items() if name not in COLUMNS and text}
    at = _number(cells["time"], "time", row, checked)
    # Without a value a row counts 1.
    value = _number(cells.get("value") or "1", "value", row, checked)
    event, user, item = (cells.get(name, "") for name in COLUMNS[1:4])
    if about and event != "item":
        raise checked.error(row, f"{min(about)} is said here", "features where an item appears")
    return Event(round(at * SECOND), event, user, item, value, about)


def _number(cell: str, name: str, row: int, checked: _Checked) -> float:
    """Returns a finite number from a cell."""
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not abs(number) < LATEST:
        raise checked.error(row, f"{name} is {cell!r:.40}", "a finite number")
    return number
