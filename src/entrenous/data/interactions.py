"""`Interactions`: the rows of a data set, who consumed what, how much and when, as a compressed
sparse row table by user. `Vocabulary`: the external ids behind the numbers of users and items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Self, final

import numpy as np
from typing_extensions import TypeVar

from ..core.contract.item_features import ItemFeatures
from ..core.contract.protocols import Catalogue, Histories, Moments, Visits, some_visits
from ..core.errors import InputError, did_you_mean
from ..core.lanes.memory import rows_of, starts_of
from ..core.types import Array, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from .reading import Reading, unread

# The time of a row whose time is not known.
NO_TIME = np.iinfo(np.int64).min
# The report on rows that were made.
NOT_READ = Reading()
# The microseconds of a second: times are whole microseconds.
SECOND = 1_000_000
# The item columns that are shown to people or say where an item is, and are no features to learn
# from.
SHOWN = ("title", "lat", "lon")
# Stands in the note on bad times, by which `known_times` finds it again.
BAD_TIMES = "times that cannot be used, taken as missing"
WITHOUT_TIMES = "use random-80-20, or ncf-99 for a data set of which NCF published test rows"


# The kind of the frame that rows came in, for type checkers.
KindT = TypeVar("KindT", default=Any)
# The kind of the results for rows that came in no frame, by narwhals' name.
POLARS = "polars"


def text_array(texts: Iterable[object]) -> Array:
    """Returns texts as strings of Python, object [n]. In an array of NumPy's own text type, one
    text of 250 characters makes each of the others as wide.
    """
    listed = [str(text) for text in texts]
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


@final
class Vocabulary:
    """A two-way map between n external ids, as text, and the numbers 0..n - 1. Without explicit ids
    (synthetic data) the id of number 7 is "7" and costs no memory.
    """

    def __init__(
        self,
        ids: Array | Sequence[object] | None = None,
        *,
        size: int | None = None,
        kind: str = "id",
        whole: str = "",
    ) -> None:
        self._ids = None if ids is None else text_array(ids)
        self.size = int(size) if self._ids is None and size is not None else len(self.ids)
        self.kind = kind
        self.whole = whole
        """The NumPy type, such as int32, of ids that were whole numbers; "" = they were text."""

    @property
    def is_range(self) -> bool:
        """Tells whether the ids are just the numbers 0..n - 1 as text."""
        return self._ids is None

    def __len__(self) -> int:
        return self.size

    @cached_property
    def ids(self) -> Array:
        """All external ids in index order, text [n] (see `text_array`)."""
        if self._ids is None:
            return text_array(np.arange(self.size))
        return self._ids

    @cached_property
    def given(self) -> Array:
        """All ids in index order in the type in which they came: int [n] or text [n]."""
        return self.typed(self.ids)

    def typed(self, names: Array | Sequence[str]) -> Array:
        """Returns ids, known or not, in the type in which these came; all as text where one is no
        whole number.
        """
        texts = np.array(names, dtype=object)
        try:
            return texts.astype(self.whole or object)
        except (ValueError, OverflowError):
            return texts

    def some(self, chosen: Array) -> Vocabulary:
        """Returns the vocabulary of some ids, by their numbers or by a mask, in that order."""
        return Vocabulary(self.ids[chosen], kind=self.kind, whole=self.whole)

    def same(self, other: Vocabulary) -> bool:
        """Tells whether both give the same ids the same numbers."""
        if self is other:
            return True
        if self.is_range and other.is_range:
            return len(self) == len(other)
        return np.array_equal(self.ids, other.ids)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {str(name): number for number, name in enumerate(self.ids)}

    def __getitem__(self, index: int) -> str:
        if self._ids is None:
            return str(index)
        return str(self._ids[index])

    def __contains__(self, name: object) -> bool:
        return str(name) in self._index

    def index(self, name: object) -> int:
        """Returns the index of an external id. Raises InputError that names the nearest one."""
        number = self._index.get(str(name))
        if number is None:
            raise InputError(
                self.kind,
                f"unknown {self.kind} '{name}'",
                expected=f"one of {len(self)} ids",
                fix=self.hint(name),
            )
        return number

    def hint(self, name: object) -> str:
        """Returns what may have been meant by an unknown id: the nearest one, or an example."""
        # Of a short text, nearly any id is near.
        if len(str(name)) <= 2 and self.size:
            return f"for example '{self[0]}'"[:200]
        # To compare with every id of a large vocabulary would take seconds.
        compared = self._index if len(self) <= 100_000 else list(self._index)[:1000]
        return did_you_mean(str(name), compared)[:200]

    def indices(self, names: Sequence[object]) -> Int32Array:
        """Returns the indices of many external ids; an unknown one is -1."""
        return np.array([self._index.get(str(name), -1) for name in names], np.int32)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Interactions(Generic[KindT]):
    """The n rows of a data set. User u consumed item[ptr[u]:ptr[u + 1]], ascending and without
    repeats.
    """

    ptr: Int64Array
    """Where the rows of each user begin, int64 [users + 1]."""
    item: Int32Array
    """The item of each row, int32 [n]."""
    value: Float32Array
    """The rating or count of each row, float32 [n]; 1 if the data has none."""
    time: Int64Array | None
    """Microseconds since 1970 (UTC), int64 [n], `NO_TIME` for a row without a time; None if the
    data has no times.
    """
    row: Int64Array | None
    """The place of each row in the source, int64 [n], which breaks ties in time; None if the source
    has no order.
    """
    users: Vocabulary
    """The external ids of the users."""
    items: Vocabulary
    """The external ids of the items."""
    features: Mapping[str, Array] = field(default_factory=dict)
    """Item columns by name (`title`, `category`, ...), text [items]; "" stands for not known, and
    "|" separates categories.
    """
    name: str = "data"
    """The name of the data set, for errors and reports."""
    reading: Reading = NOT_READ
    """The report of loading and filtering; empty for rows that were made."""
    scale: tuple[float, float] | None = None
    """(lowest, highest) possible rating; None stands for those of the rows."""
    visits: Visits | None = None
    """All visits of each row, if a row stands for several visits of its item; the last of them is
    at `time`. None if each row is one visit.
    """
    frames: str = POLARS
    """The library of the frame that the rows came in, of whose kind results are."""

    def __post_init__(self) -> None:
        # Compiled code reads memory by these starts.
        if self.visits is not None and len(self.visits.ptr) != len(self.item) + 1:
            raise ValueError("the visits are of other rows")

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        size = f"{len(self.users)} users x {len(self.items)} items, {len(self)} rows"
        return f"Interactions({self.name}: {size})"

    @property
    def notes(self) -> tuple[str, ...]:
        """The report of loading and filtering, one sentence each."""
        return self.reading.sentences

    def noted(self, *sentences: str) -> Self:
        """Returns the same rows with further notes in their report."""
        return replace(self, reading=self.reading.noted(*sentences))

    @property
    def catalogue(self) -> Catalogue:
        """The sizes that an algorithm may know."""
        return Catalogue(
            len(self.users), len(self.items), len(self), self.rating_scale, self.item_features
        )

    @cached_property
    def item_features(self) -> ItemFeatures | None:
        """The features of the items that an algorithm may learn from: their categories, and the
        columns that `features=` named. None without any.
        """
        texts = {name: texts for name, texts in self.features.items() if name not in SHOWN}
        return ItemFeatures(texts) if texts else None

    @property
    def rating_scale(self) -> tuple[float, float]:
        """(lowest, highest) rating: the declared scale, or that of the rows; (1, 1) without any."""
        if self.scale is not None:
            return self.scale
        if not len(self):
            return 1.0, 1.0
        return float(self.value.min()), float(self.value.max())

    @property
    def user(self) -> Int32Array:
        """The user number of each row, int32 [n]."""
        numbers = np.arange(len(self.users), dtype=np.int32)
        return np.repeat(numbers, self.counts)

    @property
    def moments(self) -> Moments | None:
        """The times and places in the source of all rows and visits; None for data without times
        or without an order.
        """
        if self.time is None or self.row is None:
            return None
        return Moments(self.time, self.row, self.visits)

    @property
    def counts(self) -> Int64Array:
        """The number of rows of each user, int64 [users]."""
        return np.diff(self.ptr)

    @property
    def popularity(self) -> Int64Array:
        """The number of rows of each item, int64 [items]."""
        return np.bincount(self.item, minlength=len(self.items))

    @cached_property
    def places(self) -> Float64Array | None:
        """The latitude and longitude of every item in degrees, float64 [items, 2], from the
        features `lat` and `lon`. Both are NaN where they are no place on Earth. None without these
        features.
        """
        if not {"lat", "lon"} <= self.features.keys():
            return None
        latitude = _degrees(self.features["lat"], 90)
        longitude = _degrees(self.features["lon"], 180)
        places = np.stack([latitude, longitude], axis=1)
        # Half a place is none.
        places[np.isnan(latitude) | np.isnan(longitude)] = np.nan
        return places

    def histories(self, users: Int64Array, avoid: Interactions | None = None) -> Histories:
        """Returns the private rows of some users, in the order of `users`; views of the rows if the
        users are consecutive.

        avoid: rows of the same users and items that are never drawn as negatives; None stands for
        these rows, the honest choice.
        """
        ptr, rows = self._extent(users)
        item = self.item[rows]
        avoid_ptr = ptr
        avoided = item
        if avoid is not None:
            avoid_ptr, avoided_rows = avoid._extent(users)
            avoided = avoid.item[avoided_rows]
        return Histories(
            ptr,
            item,
            self.value[rows],
            avoid_ptr,
            avoided,
            None if self.time is None else self.time[rows],
            None if self.row is None else self.row[rows],
            self.places,
            None if self.visits is None else some_visits(self.visits, rows),
            self.item_features,
        )

    def _extent(self, users: Int64Array) -> tuple[Int64Array, slice | Int64Array]:
        """Returns where the rows of each of `users` begin among the rows of all of them, int64
        [len(users) + 1], and the positions of these rows: a slice if the users are consecutive.
        """
        # A slice makes views, and so costs no copy of the rows of a whole data set.
        if len(users) and np.all(np.diff(users) == 1):
            starts = self.ptr[users[0] : users[-1] + 2]
            low = starts[0]
            return starts - low, slice(low, starts[-1])
        return rows_of(self.ptr, users)

    def rows_of(self, users: Int64Array) -> Int64Array:
        """Returns the positions of the rows of `users`, user by user, int64."""
        return rows_of(self.ptr, users)[1]

    def _columns(self, rows: slice | Int64Array) -> dict[str, Any]:
        """Returns the columns of some rows, for `replace`."""
        return {
            "item": self.item[rows],
            "value": self.value[rows],
            "time": None if self.time is None else self.time[rows],
            "row": None if self.row is None else self.row[rows],
            "visits": some_visits(self.visits, rows),
        }

    def of_users(self, users: Int64Array) -> Self:
        """Returns the rows of some users over the same items, as a data set of these users alone:
        its user r is users[r].
        """
        ptr, rows = self._extent(users)
        return replace(
            self,
            ptr=ptr,
            users=self.users.some(users),
            # A part is rated on the scale of the whole.
            scale=self.rating_scale,
            **self._columns(rows),
        )

    def select(self, keep: BoolArray) -> Self:
        """Returns the rows where `keep`, bool [n], is true, over the same users and items."""
        counts = np.bincount(self.user[keep], minlength=len(self.users))
        return replace(
            self,
            ptr=starts_of(counts),
            # A part is rated on the scale of the whole.
            scale=self.rating_scale if len(self) else self.scale,
            **self._columns(np.flatnonzero(keep)),
        )

    def of_items(self, keep: BoolArray) -> Self:
        """Returns the rows of some items, as a data set that has no other items. keep: bool
        [items], True for an item that stays. Items keep their order.
        """
        rows = self.select(keep[self.item])
        # Of an item that stays: the number of those that stay before it.
        new_number = (np.cumsum(keep) - 1).astype(np.int32)
        features = {name: values[keep] for name, values in self.features.items()}
        return replace(
            rows,
            item=new_number[rows.item],
            items=self.items.some(keep),
            features=features,
        )

    def sha256(self) -> str:
        """Returns the hash of the rows in hexadecimal: of users, items, values, times and visits,
        with their external ids. Whole seconds are hashed as seconds, as in versions that had no
        other times.
        """
        digest = hashlib.sha256()
        for vocabulary in (self.users, self.items):
            # The length goes first, so that no id moves from the users to the items.
            digest.update(f"{vocabulary.kind} {len(vocabulary)} ".encode())
            if not vocabulary.is_range:
                digest.update("\n".join(vocabulary.ids.tolist()).encode())
        time = self.time
        visits = self.visits
        if whole_seconds(time) and (visits is None or whole_seconds(visits.time)):
            time = None if time is None else in_seconds(time)
            visits = None if visits is None else visits._replace(time=in_seconds(visits.time))
        else:
            # Set apart, so that no microseconds are taken for seconds.
            digest.update(b"microseconds ")
        columns = [self.ptr, self.item, self.value, time]
        if visits is not None:
            columns += [visits.ptr, visits.time]
        for column in columns:
            digest.update(b"none" if column is None else np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def time_order(self) -> Int64Array:
        """Returns the positions of the rows sorted by user, then time, then place in the source,
        int64 [n]: the one meaning of "latest" in Entrenous. Raises InputError as `known_times`
        does.
        """
        time = self.known_times()
        place = np.arange(len(self)) if self.row is None else self.row
        return np.lexsort((place, time, self.user))

    def known_times(self) -> Int64Array:
        """Returns the times, int64 [n]. Raises InputError if the data has no times or a row lacks
        one.
        """
        if self.time is None:
            # A column that was not read may hold them: loading said so.
            # The remedy depends on whether there is a column to read.
            missed = unread("times")
            columns = [
                f"'{use.name}' {use.why}" for use in self.reading.columns if missed in use.why
            ]
            fix = "; or ".join([*columns, WITHOUT_TIMES])
            raise InputError(self.name, "the data has no times", expected="a time column", fix=fix)
        missing = int((self.time == NO_TIME).sum())
        if missing:
            fix = WITHOUT_TIMES
            if any(BAD_TIMES in note for note in self.notes):
                drop = "bad_rows='drop' (--load bad_rows=drop)"
                fix = f"leave out rows with bad times by {drop} in place of bad_times; or {fix}"
            raise InputError(
                self.name,
                f"{missing} of {len(self)} rows have no time",
                expected="a time on every row",
                fix=fix,
            )
        return self.time


def whole_seconds(time: Int64Array | None) -> bool:
    """Returns True if every time that is known is a whole number of seconds."""
    return time is None or not (time[time != NO_TIME] % SECOND).any()


def in_seconds(time: Int64Array) -> Int64Array:
    """Returns times in seconds, fractions cut, int64 [n]; NO_TIME stays."""
    return np.where(time == NO_TIME, NO_TIME, time // SECOND)


def from_seconds(time: Int64Array) -> Int64Array:
    """Returns times in seconds as microseconds, int64 [n]; NO_TIME stays."""
    return np.where(time == NO_TIME, NO_TIME, time * SECOND)


def pairs_of(rows: Interactions) -> Int64Array:
    """Returns one number for each (user, item), user * items + item, int64 [n], ascending."""
    return pair_numbers(rows.user, rows.item, len(rows.items))


def pair_numbers(user: Array, item: Array, items: int) -> Int64Array:
    """Returns user * items + item, int64: one number for each pair. items: the number of items."""
    # In 64 bits: a million users times a million items do not fit in 32.
    return user.astype(np.int64) * items + item


def find_rows(data: Interactions, user: Array, item: Array) -> Int64Array:
    """Returns the position of the row of each (user, item) in `data`, int64 [m]; -1 where there is
    none. user, item: numbers, int [m], -1 for one that is not known.
    """
    pairs = pairs_of(data)
    sought = pair_numbers(user, item, len(data.items))
    row = np.searchsorted(pairs, sought)
    # A pair beyond all rows is compared with -1, which is no pair.
    known = np.append(pairs, -1)[row] == sought
    known &= (user >= 0) & (item >= 0)
    return np.where(known, row, -1)


def pair_name(data: Interactions, user: int, item: int) -> str:
    """Returns a user and an item by their external ids, for errors."""
    return f"user '{data.users[user]}', item '{data.items[item]}'"


def _degrees(texts: Array, most: float) -> Float64Array:
    """Returns numbers from -most to most, float64; NaN for any other text."""
    degrees = np.full(len(texts), np.nan)
    for place, text in enumerate(texts.tolist()):
        try:
            degrees[place] = float(text)
        except ValueError:
            continue
    return np.where(np.abs(degrees) <= most, degrees, np.nan)


class PairOrder(NamedTuple):
    """The order of rows by user and item."""

    rows: Int64Array
    """The positions of the rows by user, then item, then place, int64 [n]."""
    repeats: bool
    """True if two rows have the same user and item."""


def pair_order(pairs: Int64Array) -> PairOrder:
    """Returns the order of rows. pairs: `pair_numbers` of each, int64 [n]."""
    rows = np.argsort(pairs, kind="stable")
    ascending = pairs[rows]
    return PairOrder(rows, bool((ascending[1:] == ascending[:-1]).any()))


def build(
    user: Any,
    item: Any,
    *,
    value: Any = None,
    time: Any = None,
    users: Vocabulary,
    items: Vocabulary,
    features: Mapping[str, Array] | None = None,
    name: str = "data",
    reading: Reading = NOT_READ,
    scale: tuple[float, float] | None = None,
    order: PairOrder | None = None,
) -> Interactions:
    """Returns Interactions from parallel columns of user and item numbers, in the order of the
    source.

    order: that of the rows, if it is known. Raises InputError for a repeated (user, item): readers
    apply the policy for duplicates before.
    """
    user = np.asarray(user)
    item = np.asarray(item, np.int32)
    if order is None:
        order = pair_order(pair_numbers(user, item, len(items)))
    if order.repeats:
        raise InputError(
            name,
            "a (user, item) pair occurs twice",
            expected="one row per pair",
            fix="choose duplicates='first' or 'last'",
        )
    # One number that is seen n times: ratings that all are 1 need no memory.
    ones = np.broadcast_to(np.float32(1), len(user))

    def ordered(column: Array) -> Array:
        return column[order.rows]

    return Interactions(
        ptr=starts_of(np.bincount(user, minlength=len(users))),
        item=ordered(item),
        value=ones if value is None else ordered(np.asarray(value, np.float32)),
        time=None if time is None else ordered(np.asarray(time, np.int64)),
        row=order.rows,
        users=users,
        items=items,
        features=dict(features or {}),
        name=name,
        reading=reading,
        scale=scale,
    )
