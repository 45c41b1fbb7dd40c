"""`Update`, the one type that leaves a device, and `Total`, the sum of updates, which does not
depend on their order.

Everything that limits disclosure (pi, clip, noise, mask) is a function `Update -> Update`
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

from ..compiling import njit
from ..errors import EntrenousError, NonFiniteError
from ..lanes.memory import owners_of, sealed, written_zeros
from ..lanes.simd import LANES, add_fixed, fetch, load
from ..types import Array, Float32Array, Float64Array, Int32Array, Int64Array

# One unit of the fixed-point grid.
STEP = 2.0**-16
# A single value of an update must lie within +-32768.
LIMIT = 2.0**31 * STEP
NO_GROUPS = np.empty(0, np.int32)
NOBODY = np.empty(0, np.int64)
NOTHING: Mapping[str, Float32Array] = MappingProxyType({})
# Numbers of an int64 total in a cache line.
LINE = 8
# Numbers of a total: fewer are not worth handing to another thread.
PIECE = 1 << 17
# Rows: a total is read at random, and memory answers after about as many additions.
AHEAD = 16


class Update(NamedTuple):
    """Updates that a cohort of m devices sends; device d owns the row range ptr[d]:ptr[d + 1]."""

    ptr: Int64Array
    """int64 [m + 1]."""
    item: Int32Array
    """int32 [n], the item of each row, no item twice within a device."""
    rows: dict[str, Float32Array]
    """{name: float32 [n, ...]}, one row for each pair of device and item."""
    dense: dict[str, Float32Array]
    """{name: float32 [m, ...]}, one array for each device."""
    weight: Float32Array
    """float32 [m], how much each device counts."""
    group: Int32Array = NO_GROUPS
    """int32 [m], the sum of dense arrays and weights that each device adds to; empty: the only
    one."""
    groups: int = 1
    """Number of these sums."""
    shown: Mapping[str, Float32Array] = NOTHING
    """{name: float32 [m, ...]}, arrays that are not added up: the server sees each, and its
    sender."""
    sender: Int64Array = NOBODY
    """int64 [m], the user who shows each array."""

    @property
    def devices(self) -> int:
        """The number of devices whose updates are in here."""
        return len(self.ptr) - 1

    @property
    def device(self) -> Int64Array:
        """The device of each row, its place in the cohort, int64 [n]."""
        return owners_of(self.ptr)

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: item ids, rows, dense and shown arrays, without framing."""
        arrays = [self.item, *self.rows.values(), *self.dense.values(), *self.shown.values()]
        return sum(array.nbytes for array in arrays)


class ShownArrays(NamedTuple):
    """Arrays of n devices that are not added up: the server sees each."""

    sender: Int64Array
    """int64 [n]."""
    arrays: Mapping[str, Float32Array]
    """{name: float32 [n, ...]}."""


class Total(NamedTuple):
    """The sum of updates, in fixed point: all that a server (or a secure sum) needs to see."""

    rows: dict[str, Int64Array]
    """{name: int64 [items, ...]}."""
    senders: Int64Array
    """int64 [items], how many devices sent a row for the item."""
    dense: dict[str, Int64Array]
    """{name: int64 [groups, ...]}."""
    weight: Int64Array
    """int64 [groups]."""
    devices: int
    """Number of devices that were added."""
    shown: tuple[ShownArrays, ...] = ()
    """Arrays that cannot be added up, in the order of arrival; `gathered` sorts them by sender."""
    table: Int64Array | None = None
    """int64 [items, w], of which rows and senders are columns (`tabled`); None where they are
    arrays of their own."""


def by_item(update: Update) -> Update:
    """Returns the update with the rows of each device in ascending order of their items, an order
    that says nothing of how they came about. A sum does not depend on it.
    """
    if rises_within(update.ptr, update.item):
        return update
    order = np.lexsort((update.item, update.device))
    rows = {name: row[order] for name, row in update.rows.items()}
    return update._replace(item=update.item[order], rows=rows)


def rises_within(ptr: Int64Array, item: Int32Array) -> bool:
    """Tells whether the items of each device are in ascending order, each once."""
    falls = np.flatnonzero(item[1:] <= item[:-1]) + 1
    # Where items do not rise, another device must begin.
    return bool(np.isin(falls, ptr).all())


def empty_total(update: Update, items: int) -> Total:
    """Returns an empty sum with arrays of the shapes that `update` needs."""
    rows = {name: row.shape[1:] for name, row in update.rows.items()}
    dense = {name: array.shape[1:] for name, array in update.dense.items()}
    return zero_total(items, rows, dense, update.groups)


def zero_total(
    items: int,
    rows: Mapping[str, tuple[int, ...]],
    dense: Mapping[str, tuple[int, ...]],
    groups: int,
) -> Total:
    """Returns an empty sum, of no updates. rows: {name: shape of one item's row}; dense: {name:
    shape of one group's array}.
    """
    return Total(
        rows={name: written_zeros((items, *shape)) for name, shape in rows.items()},
        senders=written_zeros((items,)),
        dense={name: written_zeros((groups, *shape)) for name, shape in dense.items()},
        weight=written_zeros((groups,)),
        devices=0,
    )


def tabled(total: Total) -> tuple[Total, Int64Array]:
    """Returns the same sum, and its table, in which all that a device adds for an item lies in as
    few cache lines as possible: rows in their order, then the count of senders.
    """
    if total.table is not None:
        return total, total.table
    arrays = [*total.rows.values(), total.senders]
    widths = [math.prod(array.shape[1:]) for array in arrays]
    # Each item begins a cache line, so that it lies in no more of them than it must.
    lines = -(-sum(widths) // LINE)
    table = written_zeros((len(total.senders), lines * LINE))
    views: list[Int64Array] = []
    low = 0
    for array, width in zip(arrays, widths, strict=True):
        view = table[:, low : low + width].reshape(array.shape)
        view[...] = array
        views.append(view)
        low += width
    *rows, senders = views
    named = dict(zip(total.rows, rows, strict=True))
    return total._replace(rows=named, senders=senders, table=table), table


def add_update(total: Total, update: Update) -> Total:
    """Adds `update` to the arrays of `total` in place and returns the sum. Raises NonFiniteError
    for a value that is not finite or beyond +-32768.
    """
    _check_types(update)
    item = sealed(update.item)
    for name, row in update.rows.items():
        _add_or_raise(f"row '{name}'", item, row, total.rows[name])
    count_items(item, total.senders)
    return add_devices(total, update)


def _add_or_raise(name: str, place: Int32Array, values: Float32Array, total: Int64Array) -> None:
    """Adds values[r] to total[place[r]]."""
    width = math.prod(values.shape[1:])
    flat = sealed(values.reshape(len(values), width))
    if not add_rows(place, flat, total.reshape(len(total), width)):
        raise NonFiniteError(
            f"update {name}: a value is not finite or beyond +-{LIMIT:.0f}; the model is unchanged"
        )


def _check_types(update: Update) -> None:
    """Raises EntrenousError for other numbers than float32, which compiled sums would refuse in the
    compiler's words.
    """
    for kind, arrays in (("row", update.rows), ("array", update.dense)):
        for name, array in arrays.items():
            if array.dtype != np.float32:
                raise EntrenousError(
                    f"update {kind} '{name}': {array.dtype} numbers; expected float32; the model is"
                    " unchanged"
                )


def add_devices(total: Total, update: Update) -> Total:
    """Adds all of `update` but its rows to the arrays of `total` in place and returns the sum: for
    devices whose rows were added already.
    """
    group = update.group
    # Without numbers, all devices add to the only sum.
    if not len(group):
        group = np.zeros(update.devices, np.int32)
    group = sealed(group)
    _check_groups(group, update.groups, len(total.weight))
    for name, array in update.dense.items():
        _add_or_raise(f"array '{name}'", group, array, total.dense[name])
    for name, array in update.shown.items():
        if not np.isfinite(array).all():
            raise NonFiniteError(
                f"update array '{name}': a value is not finite; the model is unchanged"
            )
    np.add.at(total.weight, group, fixed(update.weight))
    shown = total.shown
    if update.shown:
        shown = (*shown, ShownArrays(update.sender, update.shown))
    return total._replace(devices=total.devices + update.devices, shown=shown)


def _check_groups(group: Int32Array, groups: int, sums: int) -> None:
    """Raises EntrenousError for a group that has no sum, where a compiled loop would write."""
    outside = len(group) and not 0 <= int(group.min()) <= int(group.max()) < sums
    if groups != sums or outside:
        raise EntrenousError(
            f"update: devices in {groups} groups, where there are {sums} sums; the model is"
            " unchanged"
        )


def gathered(total: Total) -> ShownArrays:
    """Returns the arrays shown in a round by ascending sender, whatever arrived first. The total
    must have some.
    """
    parts = total.shown
    sender = np.concatenate([part.sender for part in parts])
    order = np.argsort(sender, kind="stable")
    arrays = {}
    for name in parts[0].arrays:
        arrived = np.concatenate([part.arrays[name] for part in parts])
        arrays[name] = arrived[order]
    return ShownArrays(sender[order], arrays)


# Applies a function to pieces of memory, as `map` does.
Each: TypeAlias = Callable[[Callable[[Any], object], list[Any]], Iterable[object]]


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
    # Memory of the same layout is added; a table beside single arrays is read through its columns.
    if left.table is None or right.table is None:
        left = left._replace(table=None)
        right = right._replace(table=None)
    list(each(_add, _pieces([left, right], workers)))
    return left._replace(devices=left.devices + right.devices, shown=(*left.shown, *right.shown))


def _pieces(totals: list[Total], workers: int) -> list[list[tuple[Int64Array, ...]]]:
    """Splits the memory of sums of one shape: for each worker a list of pieces that belong
    together.
    """
    matching = list(zip(*map(_arrays, totals), strict=True))
    size = sum(arrays[0].size for arrays in matching)
    many = min(workers, 1 + size // PIECE)
    pieces: list[list[tuple[Int64Array, ...]]] = [[] for _ in range(many)]
    for arrays in matching:
        # One array of each sum, cut at the same places.
        cut = [np.array_split(array, many) for array in arrays]
        for piece, parts in zip(pieces, zip(*cut, strict=True), strict=True):
            piece.append(parts)
    return pieces


def _clear(piece: list[tuple[Int64Array, ...]]) -> None:
    for (array,) in piece:
        array[...] = 0


def _add(piece: list[tuple[Int64Array, ...]]) -> None:
    for left, right in piece:
        left += right


def _arrays(total: Total) -> list[Int64Array]:
    """Returns all memory of a sum, each piece once."""
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
    that are not added.
    """
    w = rows.shape[1]
    width = total.shape[1]
    last = len(item) - 1
    ok = True
    for r in range(len(item)):
        # The processor waits for memory that nobody has asked for: ask for the row that comes
        # AHEAD rows later.
        soon = np.int64(item[min(r + AHEAD, last)]) * width
        for f in range(0, width, LINE):
            fetch(total, soon + f)
        # Sixteen numbers at a time; the last have fewer.
        start = np.int64(item[r]) * width
        for f in range(0, width, LANES):
            left = width - f
            numbers = load(rows, r * w + f, left)
            ok &= add_fixed(total, start + f, numbers, left)
    return ok


@njit(cache=True, nogil=True)
def count_items(item: Int32Array, count: Int64Array) -> None:
    """Counts the senders of each item: count[item[r]] += 1."""
    for r in range(len(item)):
        count[item[r]] += 1
