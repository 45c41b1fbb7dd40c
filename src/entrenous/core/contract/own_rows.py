"""`OwnRows`, the rows of a table of items that each device keeps as its own, where a whole table
for each device would be too large.

A device of PFedRec or FedRAP has private item vectors and touches few of them in a round. It
keeps these rows alone, in memory, in a stored run and on a node; the others are those of a table
that all devices share.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self, final

import numpy as np

from ..lanes.memory import divides, starts_of, view_only
from ..types import Array, Float32Array, Int32Array, Int64Array
from .update import rises_within

# The arrays that an `OwnRows` is stored as, behind its name and a dot, which no field's name has.
PTR = ".ptr"
ITEM = ".item"
ROW = ".row"


@final
class OwnRows:
    """The own rows of m devices, a field of `keeps`: Annotated[OwnRows, axes("items", "factors")].

    ptr, item, row: the layout of an `Update`. Device d has row[ptr[d]:ptr[d + 1]], float32, for the
    items item[ptr[d]:ptr[d + 1]], int32 ascending. Rows cannot be written to. Devices are picked
    and replaced as in an array: `own[users]`, `own[users] = others`.

    >>> own = OwnRows(np.array([0, 2, 2]), np.array([1, 3], np.int32), np.eye(2, dtype=np.float32))
    >>> own.of(0)[0].tolist(), len(own), len(own[1:])
    ([1, 3], 2, 1)
    """

    __slots__ = ("_items", "_rows", "_shape")

    def __init__(self, ptr: Int64Array, item: Int32Array, row: Float32Array) -> None:
        if not len(ptr) or not divides(ptr, len(item)) or len(item) != len(row):
            raise ValueError("ptr does not divide the rows among devices")
        item = view_only(item)
        row = view_only(row)
        cuts = ptr.tolist()
        ranges = list(pairwise(cuts))
        # Views of the two arrays: replacing a device copies no rows.
        self._items = [item[low:high] for low, high in ranges]
        self._rows = [row[low:high] for low, high in ranges]
        self._shape = row.shape[1:]

    @classmethod
    def none(cls, devices: int, *shape: int) -> Self:
        """Returns the own rows of devices that have none yet. shape: of a row."""
        return cls(
            np.zeros(devices + 1, np.int64),
            np.zeros(0, np.int32),
            np.zeros((0, *shape), np.float32),
        )

    @classmethod
    def joined(cls, parts: Iterable[OwnRows]) -> OwnRows:
        """Returns the own rows of the devices of several parts, one part behind the other."""
        first, *others = parts
        whole = first.copy()
        for part in others:
            whole._items += part._items
            whole._rows += part._rows
        return whole

    @property
    def rows(self) -> int:
        """The number of rows of all devices together."""
        return sum(map(len, self._items))

    def of(self, device: int) -> tuple[Int32Array, Float32Array]:
        """Returns the items of which a device has own rows, int32 [n], and these rows."""
        return self._items[device], self._rows[device]

    def over(self, table: Float32Array, device: int) -> Float32Array:
        """Returns a copy of a table of all items in which a device's own rows stand."""
        whole = table.copy()
        item, row = self.of(device)
        whole[item] = row
        return whole

    def flat(self) -> tuple[Int64Array, Int32Array, Float32Array]:
        """Returns (ptr, item, row) of all devices, newly made."""
        counts = [len(item) for item in self._items]
        item = np.concatenate([np.zeros(0, np.int32), *self._items])
        row = np.concatenate([np.zeros((0, *self._shape), np.float32), *self._rows])
        return starts_of(counts), item, row

    def copy(self) -> OwnRows:
        """Returns the same devices in another object. Rows are shared, since nobody writes to
        them."""
        return self[:]

    def misfit(self, devices: int, items: int, shape: tuple[int, ...]) -> str:
        """Returns the first difference from own rows of `devices` devices in a table [items,
        *shape], in words; "" if there is none."""
        if len(self) != devices:
            return f"rows of {len(self)} devices, not of {devices}"
        ptr, item, row = self.flat()
        if self._shape != shape or row.dtype != np.float32:
            return f"rows of {row.dtype} {self._shape}, not of float32 {shape}"
        if item.dtype != np.int32 or bool(((item < 0) | (item >= items)).any()):
            return f"a row of no item from 0 to {items - 1}, int32"
        if not rises_within(ptr, item):
            return "items of a device that are not ascending, each once"
        return ""

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, devices: slice | Array) -> OwnRows:
        picked = OwnRows.none(0, *self._shape)
        if isinstance(devices, slice):
            picked._items = self._items[devices]
            picked._rows = self._rows[devices]
            return picked
        places = np.arange(len(self))[devices].tolist()
        picked._items = [self._items[place] for place in places]
        picked._rows = [self._rows[place] for place in places]
        return picked

    def __setitem__(self, devices: slice | Array, others: OwnRows) -> None:
        places = np.arange(len(self))[devices].tolist()
        for place, item, row in zip(places, others._items, others._rows, strict=True):
            self._items[place] = item
            self._rows[place] = row

    def __reduce__(self) -> tuple[Any, ...]:
        # Three arrays travel to a worker faster than two for each device.
        return OwnRows, self.flat()


def named_arrays(name: str, own: OwnRows) -> dict[str, Array]:
    """Returns the three arrays that own rows are stored as, by name."""
    ptr, item, row = own.flat()
    return {name + PTR: ptr, name + ITEM: item, name + ROW: row}
