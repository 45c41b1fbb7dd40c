"""The choice of rows that leave a device: the items of rows, and their number, say something too.

`padded` brings the number of rows to a power of two (at least 64, at most what a device may send)
with rows of zeros for other items. That hides the size of a history from an onlooker that sees the
length of a message, such as the network. A server that opens the message sees zeros: `all` rows,
which noise needs, leave nothing to see.
"""

from __future__ import annotations

import numpy as np

from ..core.compiling import njit
from ..core.contract.update import Update, by_item
from ..core.keys import below, draw, named
from ..core.types import BoolArray, Int32Array, Int64Array, UInt64Array
from .limit import Limit

SMALLEST = 64  # rows of a padded message, at least


def all_rows(items: int) -> Limit:
    """A limit by which a device that sends rows sends one for every item, in the order of the
    items: zeros where it has none.
    """

    def whole(update: Update, keys: UInt64Array) -> Update:
        m = update.devices
        dense = {name: np.array(array, order="C") for name, array in update.dense.items()}
        if not update.rows:
            return update._replace(dense=dense)
        # Device d has the rows d items to (d + 1) items, in the order of the items.
        place = update.device * items + update.item
        rows = {}
        for name, row in update.rows.items():
            rows[name] = np.zeros((m * items, *row.shape[1:]), np.float32)
            rows[name][place] = row
        item = np.tile(np.arange(items, dtype=np.int32), m)
        ptr = np.arange(m + 1) * items
        return update._replace(ptr=ptr, item=item, rows=rows, dense=dense)

    return whole


def padded_rows(items: int, most: int) -> Limit:
    """A limit by which the number of rows of a device becomes a power of two from 64, or `most`:
    with rows of zeros for further items, drawn at random and sorted among its own.
    """

    def padded(update: Update, keys: UInt64Array) -> Update:
        if not update.rows:
            return update
        counts = np.diff(update.ptr)
        wanted = [min(bucket(count), most, items) for count in counts.tolist()]
        extra = (np.array(wanted, np.int64) - counts).clip(0)
        ptr, item, source = _pad(update.ptr, update.item, extra, named(keys, "padding"), items)
        real = source >= 0
        rows = {}
        for name, row in update.rows.items():
            rows[name] = np.zeros((len(item), *row.shape[1:]), np.float32)
            rows[name][real] = row[source[real]]
        return by_item(update._replace(ptr=ptr, item=item, rows=rows))

    return padded


def bucket(rows: int) -> int:
    """The number of rows to which a message of so many rows is padded: the next power of two, at
    least 64.

    >>> [bucket(rows) for rows in (0, 64, 65, 300)]
    [64, 64, 128, 512]
    """
    return max(SMALLEST, 1 << max(0, rows - 1).bit_length())


@njit(cache=True, nogil=True)
def _pad(
    ptr: Int64Array, item: Int32Array, extra: Int64Array, keys: UInt64Array, items: int
) -> tuple[Int64Array, Int32Array, Int64Array]:
    """Adds to the rows of each device `extra` rows of other items. Returns the new ptr, the item
    of each row, and the place that each row had before, -1 for an added one.
    """
    total = len(item) + extra.sum()
    out = np.empty(total, np.int32)
    source = np.full(total, -1, np.int64)
    ends = np.zeros(len(ptr), np.int64)
    there: BoolArray = np.zeros(items, np.bool_)
    n = 0
    for d in range(len(keys)):
        start = n
        # The device's rows.
        for r in range(ptr[d], ptr[d + 1]):
            out[n] = item[r]
            source[n] = r
            there[item[r]] = True
            n += 1
        # Further items, drawn until they are others than those that are there.
        tries = 0
        while n - start < ptr[d + 1] - ptr[d] + extra[d]:
            k = below(draw(keys[d], tries), items)
            tries += 1
            if not there[k]:
                out[n] = k
                there[k] = True
                n += 1
        # The next device begins with an empty table.
        for r in range(start, n):
            there[out[r]] = False
        ends[d + 1] = n
    return ends, out, source
