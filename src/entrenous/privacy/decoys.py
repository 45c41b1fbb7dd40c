"""Decoys: items that a device pretends to have rated, so that the rows it sends do not list its
rated items (FedRec, FBALF eq. 6).

A device keeps its decoys: they are drawn from the device's key, the same in every round. Drawn anew
in each round, they would give the rated items away, which are then the only ones that always come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field

from ..core.compiling import njit
from ..core.contract.declarations import rows
from ..core.contract.protocols import Catalogue, Histories
from ..core.contract.settings import Settings
from ..core.keys import below, draw, fold, folds, local_key
from ..core.lanes.memory import starts_of
from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array, UInt64Array

# For a sum with noise, in which nobody can count the senders of a row.
COUNTED = rows(
    "count",
    when="each round, the same number for every rated item and every decoy",
    reveals="which rows there are; in a sum, from how many devices",
    only_if="counts",
)


class Mixed(NamedTuple):
    """Rated items and decoys of m devices, ascending by item within a device, so that their order
    tells nothing.
    """

    ptr: Int64Array
    """[m + 1]."""
    item: Int32Array
    """[n]."""
    value: Float32Array
    """[n], the rating; 0 for a decoy."""
    rated: BoolArray
    """[n]."""


class SendsDecoys(Settings):
    """The settings of algorithms whose devices send rows for rated items and for decoys."""

    rho: float = Field(
        1.0,
        ge=0,
        le=1000,
        description="decoys as a multiple of a user's own ratings; 0 hides nothing",
    )
    redraw: bool = Field(
        False,
        description=(
            "draw the decoys anew in every round, as FedRec's authors do: gives the rated items"
            " away, which always come"
        ),
    )

    def mixed(self, keys: UInt64Array, histories: Histories, items: int, key: np.uint64) -> Mixed:
        """Rated items and decoys of m devices in one round. keys: uint64 [m], of the devices; key:
        of the round.
        """
        own = folds(key, keys) if self.redraw else keys
        return with_decoys(histories, self.rho, own, items)

    def mixed_in_turn(
        self, keys: UInt64Array, histories: Histories, items: int, rounds: np.uint64, first: int
    ) -> Mixed:
        """Rated items and decoys of m devices, of which device d answers round first + d. rounds:
        the key from which `local_key` makes those of the rounds.
        """
        own = _redrawn(rounds, first, keys) if self.redraw else keys
        return with_decoys(histories, self.rho, own, items)

    def usual_rows(self, catalogue: Catalogue) -> int:
        """Returns how many rows a device sends as a rule: for its share of the ratings, and as many
        decoys as belong to them.
        """
        share = (1 + self.rho) * catalogue.interactions / max(1, catalogue.users)
        return min(catalogue.items, int(share))


@njit(cache=True, nogil=True)
def _redrawn(rounds: np.uint64, first: int, keys: UInt64Array) -> UInt64Array:
    """The keys of decoys drawn anew, of devices whose turn is in rounds first, first + 1, ..."""
    out = np.empty(len(keys), np.uint64)
    for d in range(len(keys)):
        out[d] = fold(local_key(rounds, first + d), keys[d])
    return out


def with_decoys(histories: Histories, rho: float, keys: UInt64Array, items: int) -> Mixed:
    """The histories with int(rho |I_u|) further items for each device, or all that are left:
    distinct, drawn evenly by its key.

    keys: uint64 [m]. items: how many there are in the catalogue.
    """
    counts = np.diff(histories.ptr)
    extra = np.minimum((rho * counts).astype(np.int64), items - counts)
    ptr = starts_of(counts + extra)
    rows = ptr[-1]
    mixed = Mixed(
        ptr, np.empty(rows, np.int32), np.zeros(rows, np.float32), np.zeros(rows, np.bool_)
    )
    _mix(histories.ptr, histories.item, histories.value, keys, items, mixed)
    return mixed


@njit(cache=True, nogil=True)
def _mix(
    own_ptr: Int64Array,
    own_item: Int32Array,
    own_value: Float32Array,
    keys: UInt64Array,
    items: int,
    mixed: Mixed,
) -> None:
    """Merges each device's rated items with its decoys; decoys are the rows that stay 0."""
    chosen = np.zeros(items, np.bool_)
    for d in range(len(keys)):
        start = own_ptr[d]
        count = own_ptr[d + 1] - own_ptr[d]
        n = mixed.ptr[d]
        free = items - count
        extra = mixed.ptr[d + 1] - n - count
        # Floyd's sampling: `extra` distinct places among the `free` unrated items.
        for c in range(free - extra, free):
            place = below(draw(keys[d], c), c + 1)
            chosen[c if chosen[place] else place] = True
        r = np.int64(0)  # rated items so far
        unrated = 0  # the place of item i among the unrated ones
        for i in range(items):
            if r < count and own_item[start + r] == i:
                mixed.item[n] = i
                mixed.value[n] = own_value[start + r]
                mixed.rated[n] = True
                n += 1
                r += 1
                continue
            if chosen[unrated]:
                mixed.item[n] = i
                n += 1
                chosen[unrated] = False  # all are False again for the next device
            unrated += 1
