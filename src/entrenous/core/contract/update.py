"""Updates, the one type of what leaves a device, and their sum, which does not depend on order.

Everything that limits disclosure (pi, clip, noise, quantise, mask) is a function `Update -> Update`
(privacy/limit.py); everything that measures it (the byte ledger, an audit) reads `Update`s. The
server adds updates as int64 fixed point with a step of 2^-16, which makes a sum independent of
arrival order and of the number of threads; secure aggregation needs the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from ..errors import EntrenousError, NonFiniteError
from ..lanes.simd import LANES, add_fixed, fetch, load
from ..types import Array, Float32Array, Float64Array, Int32Array, Int64Array

STEP = 2.0**-16  # one unit of the fixed-point grid
LIMIT = 2.0**31 * STEP  # a single value of an update must lie within +-32768
NO_GROUPS, NOBODY = np.empty(0, np.int32), np.empty(0, np.int64)
NOTHING: Mapping[str, Float32Array] = MappingProxyType({})
LINE = 8  # int64 in a cache line
PIECE = 1 << 17  # int64: less is not worth handing to another thread
AHEAD = (
    16  # rows: a total is read at random, from memory that answers after about as many additions
)


class Update(NamedTuple):
    """Updates that a cohort of m devices sends; device d owns the row range ptr[d]:ptr[d + 1].

    ptr: int64 [m + 1]. item: int32 [n], the item of each row, no item twice within a device. rows:
    {name: float32 [n, ...]}, one row per (device, item). dense: {name: float32 [m, ...]}, one array
    per device. weight: float32 [m], how much each device counts. group: int32 [m], to which of
    `groups` sums of dense arrays and weights each device adds (empty: to the only one). shown:
    {name: float32 [m, ...]}, what is not added up: the server sees it singly, and from whom.
    sender: int64 [m], who shows.
    """

    ptr: Int64Array
    item: Int32Array
    rows: dict[str, Float32Array]
    dense: dict[str, Float32Array]
    weight: Float32Array
    group: Int32Array = NO_GROUPS
    groups: int = 1
    shown: Mapping[str, Float32Array] = NOTHING
    sender: Int64Array = NOBODY

    @property
    def devices(self) -> int:
        return len(self.ptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: item ids, rows, dense and shown arrays. Framing is the network's
        business.
        """
        arrays = [self.item, *self.rows.values(), *self.dense.values(), *self.shown.values()]
        return sum(array.nbytes for array in arrays)


class ShownArrays(NamedTuple):
    """Arrays of some devices that are not added up: the server sees them singly. sender: int64 [n];
    arrays: {name: float32 [n, ...]}.
    """

    sender: Int64Array
    arrays: Mapping[str, Float32Array]


class Total(NamedTuple):
    """The sum of updates, in fixed point: all that a server (or a secure sum) needs to see.

    rows: {name: int64 [items, ...]}; senders: int64 [items], how many devices sent a row for the
    item; dense: {name: int64 [groups, ...]}; weight: int64 [groups]; devices: how many devices were
    added. shown: what cannot be added up, in the order of arrival; `gathered` puts it in the order
    of the senders. table: int64 [items, w], of which rows and senders are columns, where they lie
    side by side (`tabled`); None where they do not."""

    rows: dict[str, Int64Array]
    senders: Int64Array
    dense: dict[str, Int64Array]
    weight: Int64Array
    devices: int
    shown: tuple[ShownArrays, ...] = ()
    table: Int64Array | None = None


def by_item(update: Update) -> Update:
    """The update with the rows of each device in ascending order of their items, an order that says
    nothing of how they came about. A sum does not depend on it."""
    falls = np.flatnonzero(np.diff(update.item) <= 0) + 1  # where a device may begin
    if np.isin(falls, update.ptr).all():
        return update
    order = np.lexsort((update.item, np.repeat(np.arange(update.devices), np.diff(update.ptr))))
    return update._replace(
        item=update.item[order], rows={name: row[order] for name, row in update.rows.items()}
    )


def empty_total(update: Update, items: int) -> Total:
    """An empty sum with arrays of the shapes that `update` needs."""
    rows = {name: row.shape[1:] for name, row in update.rows.items()}
    return zero_total(
        items, rows, {name: array.shape[1:] for name, array in update.dense.items()}, update.groups
    )


def zero_total(
    items: int,
    rows: Mapping[str, tuple[int, ...]],
    dense: Mapping[str, tuple[int, ...]],
    groups: int,
) -> Total:
    """An empty sum, of no updates. rows: {name: shape of one item's row}; dense: {name: shape of
    one group's array}.
    """
    return Total(
        {name: _zeros((items, *shape)) for name, shape in rows.items()},
        _zeros((items,)),
        {name: _zeros((groups, *shape)) for name, shape in dense.items()},
        _zeros((groups,)),
        0,
    )


def _zeros(shape: tuple[int, ...]) -> Int64Array:
    """Written zeros that begin where a cache line does. np.zeros would leave them to the system,
    which then hands out small pages; a table read at random wants large ones."""
    memory, size = np.empty(math.prod(shape) + LINE, np.int64), math.prod(shape)
    memory.fill(0)
    start = -memory.ctypes.data % (8 * LINE) // 8
    return memory[start : start + size].reshape(shape)


def tabled(total: Total) -> tuple[Total, Int64Array]:
    """The same sum, and its table, in which all that a device adds for an item lies in as few cache
    lines as can be: rows in their order, then the count of senders."""
    if total.table is not None:
        return total, total.table
    arrays = {**total.rows, "": total.senders}
    widths = [math.prod(array.shape[1:]) for array in arrays.values()]
    table, views, low = (
        _zeros((len(total.senders), -(-sum(widths) // LINE) * LINE)),
        list[Int64Array](),
        0,
    )
    for array, width in zip(arrays.values(), widths, strict=True):
        views.append(table[:, low : low + width].reshape(array.shape))
        views[-1][...] = array
        low += width
    return (
        total._replace(
            rows=dict(zip(total.rows, views, strict=False)), senders=views[-1], table=table
        ),
        table,
    )


def add_update(total: Total, update: Update) -> Total:
    """Adds `update` to the arrays of `total` in place and returns the sum. Raises NonFiniteError
    for a value that is not finite or beyond +-32768."""
    _check_types(update)
    for name, row in update.rows.items():
        width = int(np.prod(row.shape[1:], dtype=np.int64))
        target = total.rows[name].reshape(len(total.senders), width)
        if not add_rows(update.item, row.reshape(len(row), width), target):
            raise NonFiniteError(
                f"update row '{name}': a value is not finite or beyond +-{LIMIT:.0f}; the model is"
                " unchanged"
            )
    count_items(update.item, total.senders)
    return add_devices(total, update)


def _check_types(update: Update) -> None:
    """Compiled sums take float32 alone; another type would end in the compiler's words."""
    for kind, arrays in (("row", update.rows), ("array", update.dense)):
        for name, array in arrays.items():
            if array.dtype != np.float32:
                raise EntrenousError(
                    f"update {kind} '{name}': {array.dtype} numbers; expected float32; the model is"
                    " unchanged"
                )


def add_devices(total: Total, update: Update) -> Total:
    """Adds all of `update` but its rows to the arrays of `total` in place and returns the sum: for
    devices whose rows were added already."""
    group = update.group if len(update.group) else np.zeros(update.devices, np.int32)
    _check_groups(group, update.groups, len(total.weight))
    for name, array in update.dense.items():
        flat, target = array.reshape(len(array), -1), total.dense[name].reshape(update.groups, -1)
        if not add_rows(group, flat, target):
            raise NonFiniteError(
                f"update array '{name}': a value is not finite or beyond +-{LIMIT:.0f}; the model"
                " is unchanged"
            )
    for name, array in update.shown.items():
        if not np.isfinite(array).all():
            raise NonFiniteError(
                f"update array '{name}': a value is not finite; the model is unchanged"
            )
    np.add.at(total.weight, group, fixed(update.weight))
    shown = (
        (*total.shown, ShownArrays(update.sender, update.shown)) if update.shown else total.shown
    )
    return total._replace(devices=total.devices + update.devices, shown=shown)


def _check_groups(group: Int32Array, groups: int, sums: int) -> None:
    """The compiled loops write where they are told: a group that has no sum must not reach them."""
    if groups != sums or (len(group) and not 0 <= int(group.min()) <= int(group.max()) < sums):
        raise EntrenousError(
            f"update: devices in {groups} groups, where there are {sums} sums; the model is"
            " unchanged"
        )


def gathered(total: Total) -> ShownArrays:
    """The arrays shown in a round, by ascending sender: the same whatever arrived first. A total
    without any is an error of the caller.
    """
    sender = np.concatenate([part.sender for part in total.shown])
    order = np.argsort(sender, kind="stable")
    arrays = {
        name: np.concatenate([part.arrays[name] for part in total.shown])[order]
        for name in total.shown[0].arrays
    }
    return ShownArrays(sender[order], arrays)


Each: TypeAlias = Callable[
    [Callable[[Any], object], list[Any]], Iterable[object]
]  # applies a function to pieces of memory, as `map`


def clear_total(total: Total, workers: int = 1, each: Each = map) -> Total:
    """Sets all arrays of a sum to 0, so that a round reuses the memory of the round before. each:
    runs `workers` pieces at once.
    """
    list(each(_clear, _pieces([total], workers)))
    return total._replace(devices=0, shown=())


def merge_totals(left: Total, right: Total, workers: int = 1, each: Each = map) -> Total:
    """Adds two sums in place in `left`. They are integers: the order does not matter. each: runs
    `workers` pieces at once.
    """
    if left.table is None or right.table is None:
        left, right = (total._replace(table=None) for total in (left, right))
    list(each(_add, _pieces([left, right], workers)))
    return left._replace(devices=left.devices + right.devices, shown=(*left.shown, *right.shown))


def _pieces(totals: list[Total], workers: int) -> list[list[tuple[Int64Array, ...]]]:
    """The memory of sums of one shape, for each worker a list of pieces that belong together."""
    every = list(zip(*(_arrays(total) for total in totals), strict=True))
    many = min(workers, 1 + sum(arrays[0].size for arrays in every) // PIECE)
    return [
        [tuple(np.array_split(array, many)[n] for array in arrays) for arrays in every]
        for n in range(many)
    ]


def _clear(piece: list[tuple[Int64Array, ...]]) -> None:
    for (array,) in piece:
        array[...] = 0


def _add(piece: list[tuple[Int64Array, ...]]) -> None:
    for left, right in piece:
        left += right


def _arrays(total: Total) -> list[Int64Array]:
    """All memory of a sum, each piece once."""
    of_items = [*_named(total.rows), total.senders] if total.table is None else [total.table]
    return [*of_items, *_named(total.dense), total.weight]


def _named(arrays: Mapping[str, Int64Array]) -> list[Int64Array]:
    return [arrays[name] for name in sorted(arrays)]


def fixed(values: Array) -> Int64Array:
    """Converts floats to int64 fixed point, rounding to nearest even. Raises NonFiniteError as
    `add_update` does.
    """
    if not bool(np.all(np.abs(values) < LIMIT)):
        raise NonFiniteError(
            f"update: a value is not finite or beyond +-{LIMIT:.0f}; the model is unchanged"
        )
    return np.rint(np.asarray(values, np.float64) / STEP).astype(np.int64)


def real(values: Int64Array) -> Float64Array:
    """Converts int64 fixed point to float64."""
    return values.astype(np.float64) * STEP


@njit(cache=True, nogil=True)
def add_rows(item: Int32Array, rows: Float32Array, total: Int64Array) -> bool:
    """Adds rows to a sum, total[item[r]] += fixed(rows[r]). Returns False if a value is not finite
    or out of range (total is then spoiled).

    rows: float32 [n or more, w]; total: int64 [items, width]. With w > width a row ends in zeros
    that are not added."""
    ok, w, width, last = True, rows.shape[1], total.shape[1], len(item) - 1
    for r in range(len(item)):
        soon = np.int64(item[min(r + AHEAD, last)]) * width
        for f in range(0, width, LINE):
            fetch(total, soon + f)
        start = np.int64(item[r]) * width
        for f in range(0, width, LANES):
            ok &= add_fixed(total, start + f, load(rows, r * w + f, width - f), width - f)
    return ok


@njit(cache=True, nogil=True)
def count_items(item: Int32Array, count: Int64Array) -> None:
    """Counts the senders of each item: count[item[r]] += 1."""
    for r in range(len(item)):
        count[item[r]] += 1
