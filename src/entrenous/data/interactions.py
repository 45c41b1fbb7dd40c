"""`Interactions`: who consumed what, how much and when: a compressed sparse row table by user."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from ..core.contract.protocols import Catalogue, Histories
from ..core.errors import InputError
from ..core.types import Array, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from ..core.visits import Moments, Visits, some_visits
from ..core.vocabulary import Vocabulary

# The time of a row whose time is not known.
NO_TIME = np.iinfo(np.int64).min
# In the note on an unread column.
UNREAD_TIMES = "looks like a column of times and is not read"
WITHOUT_TIMES = "use random-80-20, or ncf-99 for a data set of which NCF published test rows"


def rows_in(ptr: Int64Array, users: Int64Array) -> Int64Array:
    """The positions of the rows of `users`, user by user, int64. Those of user u are ptr[u] to
    ptr[u + 1].
    """
    counts = ptr[users + 1] - ptr[users]
    starts = np.repeat(ptr[users] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return starts + np.arange(int(counts.sum()))


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Interactions:
    """The rows of a data set. User u consumed item[ptr[u]:ptr[u + 1]], ascending and without
    repeats.
    """

    ptr: Int64Array
    """int64 [users + 1]."""
    item: Int32Array
    """int32 [n]."""
    value: Float32Array
    """float32 [n]; 1 if the data has no ratings."""
    time: Int64Array | None
    """int64 [n] in seconds, `NO_TIME` for a row without a time; None if the data has no times."""
    row: Int64Array | None
    """int64 [n]: the position in the source, which breaks ties in time; None if the source has no
    order.
    """
    users: Vocabulary
    items: Vocabulary
    features: Mapping[str, Array] = field(default_factory=dict)
    """Item columns by name (`title`, `category`, ...), text [items]; "" = not known, "|" separates
    categories.
    """
    name: str = "data"
    notes: tuple[str, ...] = ()
    """What loading and filtering did, one sentence each."""
    scale: tuple[float, float] | None = None
    """(lowest, highest) possible rating; None = those of the rows."""
    visits: Visits | None = None
    """All visits if a row stands for several visits of its item, the last of them at `time`; None
    if each row is one visit.
    """

    def __post_init__(self) -> None:
        if self.visits is not None and len(self.visits.ptr) != len(self.item) + 1:
            raise ValueError("the visits are of other rows")

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        return (
            f"Interactions({self.name}: {len(self.users)} users x {len(self.items)} items,"
            f" {len(self)} rows)"
        )

    @property
    def catalogue(self) -> Catalogue:
        """The sizes that an algorithm may know."""
        return Catalogue(len(self.users), len(self.items), len(self), self.rating_scale)

    @property
    def rating_scale(self) -> tuple[float, float]:
        """(lowest, highest) rating: the declared scale, or that of the rows; (1, 1) without any."""
        if self.scale is not None or not len(self):
            return self.scale or (1.0, 1.0)
        return float(self.value.min()), float(self.value.max())

    @property
    def user(self) -> Int32Array:
        """The user number of each row, int32 [n]."""
        return np.repeat(np.arange(len(self.users), dtype=np.int32), np.diff(self.ptr))

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
        """Latitude and longitude of every item in degrees, float64 [items, 2], from the features
        `lat` and `lon`; NaN where they are no place on Earth. None without these features.
        """
        if not {"lat", "lon"} <= self.features.keys():
            return None
        latitude = _degrees(self.features["lat"], 90)
        longitude = _degrees(self.features["lon"], 180)
        places = np.stack([latitude, longitude], axis=1)
        return np.where(np.isnan(places).any(axis=1, keepdims=True), np.nan, places)

    def histories(self, users: Int64Array, avoid: Interactions | None = None) -> Histories:
        """The private rows of some users, in their order; views of the rows if the users are
        consecutive.

        avoid: rows of the same users and items that are never drawn as negatives; None = these
        rows, the honest choice.
        """
        ptr, rows = self._extent(users)
        item = self.item[rows]
        avoid_ptr, avoided = ptr, item
        if avoid is not None:
            avoid_ptr, others = avoid._extent(users)
            avoided = avoid.item[others]
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
        )

    def _extent(self, users: Int64Array) -> tuple[Int64Array, slice | Int64Array]:
        """The starts of the rows of `users` among their rows, int64 [len(users) + 1], and the
        positions of these rows: a slice if the users are consecutive.
        """
        if len(users) and users[-1] - users[0] + 1 == len(users) and np.all(np.diff(users) == 1):
            low = self.ptr[users[0]]
            high = self.ptr[users[-1] + 1]
            return self.ptr[users[0] : users[-1] + 2] - low, slice(low, high)
        ptr = np.concatenate([[0], np.cumsum(self.counts[users])]).astype(np.int64)
        return ptr, self.rows_of(users)

    def rows_of(self, users: Int64Array) -> Int64Array:
        """The positions of the rows of `users`, user by user, int64."""
        return rows_in(self.ptr, users)

    def of_users(self, users: Int64Array) -> Interactions:
        """The rows of some users over the same items, as a data set of these users alone: its user
        r is users[r].
        """
        ptr, rows = self._extent(users)
        return replace(
            self,
            ptr=ptr,
            item=self.item[rows],
            value=self.value[rows],
            time=None if self.time is None else self.time[rows],
            row=None if self.row is None else self.row[rows],
            visits=some_visits(self.visits, rows),
            users=Vocabulary(self.users.ids[users], kind=self.users.kind),
            scale=self.scale or self.rating_scale,
        )

    def select(self, keep: BoolArray, note: str = "") -> Interactions:
        """The Interactions of the rows where `keep`, bool [n], is true, over the same users and
        items. note: added to the notes."""
        ptr = np.concatenate(
            [[0], np.cumsum(np.bincount(self.user[keep], minlength=len(self.users)))]
        )
        return replace(
            self,
            ptr=ptr.astype(np.int64),
            item=self.item[keep],
            value=self.value[keep],
            time=None if self.time is None else self.time[keep],
            row=None if self.row is None else self.row[keep],
            visits=some_visits(self.visits, np.flatnonzero(keep)),
            notes=(*self.notes, note) if note else self.notes,
            scale=(
                self.rating_scale if len(self) else self.scale
            ),  # a part is rated on the scale of the whole
        )

    def of_items(self, keep: BoolArray) -> Interactions:
        """The Interactions over the items where `keep`, bool [items], is true, in the same order,
        without the rows of the others.
        """
        rows = self.select(keep[self.item])
        number = (np.cumsum(keep) - 1).astype(np.int32)
        features = {name: values[keep] for name, values in self.features.items()}
        return replace(
            rows,
            item=number[rows.item],
            items=Vocabulary(self.items.ids[keep], kind=self.items.kind),
            features=features,
        )

    def sha256(self) -> str:
        """The hash of the rows: users, items, values, times and visits with their external ids, in
        hexadecimal.
        """
        digest = hashlib.sha256()
        for vocabulary in (self.users, self.items):
            digest.update(f"{vocabulary.kind} {len(vocabulary)} ".encode())
            if not vocabulary.is_range:
                digest.update("\n".join(vocabulary.ids.tolist()).encode())
        for array in (
            self.ptr,
            self.item,
            self.value,
            self.time,
            *(() if self.visits is None else self.visits[:2]),
        ):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def time_order(self) -> Int64Array:
        """Row positions sorted by user, then time, then place in the source: the one meaning of
        "latest" in Entrenous.

        Raises InputError if the data has no times or a row lacks one.
        """
        if self.time is None:
            unread = [note for note in self.notes if UNREAD_TIMES in note]
            fix = "; or ".join([*unread, WITHOUT_TIMES])
            raise InputError(self.name, "the data has no times", expected="a time column", fix=fix)
        missing = int((self.time == NO_TIME).sum())
        if missing:
            raise InputError(
                self.name,
                f"{missing} of {len(self)} rows have no time",
                expected="a time on every row",
                fix=WITHOUT_TIMES,
            )
        row = np.arange(len(self)) if self.row is None else self.row
        return np.lexsort((row, self.time, self.user))


def pairs_of(rows: Interactions) -> Int64Array:
    """One number for each (user, item), int64 [n], ascending."""
    return rows.user.astype(np.int64) * len(rows.items) + rows.item


def _degrees(texts: Array, most: float) -> Float64Array:
    """Numbers from -most to most, NaN for any other text."""
    out = np.full(len(texts), np.nan)
    for k, text in enumerate(texts.tolist()):
        try:
            out[k] = float(text)
        except ValueError:
            continue
    return np.where(np.abs(out) <= most, out, np.nan)


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
    notes: tuple[str, ...] = (),
    scale: tuple[float, float] | None = None,
) -> Interactions:
    """Interactions from parallel columns of dense user and item indices, in source order. A
    repeated (user, item) is an error: the readers apply the policy for duplicates (`keep` first or
    last) before.
    """
    user = np.asarray(user, np.int64)
    item = np.asarray(item, np.int32)
    order = np.lexsort((item, user))
    counts = np.bincount(user, minlength=len(users))
    u, i = user[order], item[order]
    if np.any((u[1:] == u[:-1]) & (i[1:] == i[:-1])):
        raise InputError(
            name,
            "a (user, item) pair occurs twice",
            expected="one row per pair",
            fix="choose duplicates='first' or 'last'",
        )
    ones = np.broadcast_to(np.float32(1), len(user))
    return Interactions(
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        item=i,
        value=ones if value is None else np.asarray(value, np.float32)[order],
        time=None if time is None else np.asarray(time, np.int64)[order],
        row=order,
        users=users,
        items=items,
        features=dict(features or {}),
        name=name,
        notes=notes,
        scale=scale,
    )
