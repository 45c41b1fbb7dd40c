"""A table of the models of nodes and of messages in transit. A node that pushes to three peers
stores its model once, and copies it only when it trains on."""

from __future__ import annotations

from typing import final

import numpy as np

from ..core.contract.gossip import UNSEEN
from ..core.lanes.simd import zeros
from ..core.types import Float32Array, Int8Array, Int64Array


@final
class Pool:
    """A table of model slots, float32 [width] each, with reference counts; a slot whose count is
    zero is reused.

    A node's model is a slot. A message refers to that slot; only when the node's model changes
    while a message still needs the old one does the node move to another slot. So there are at most
    as many slots as nodes and messages in transit, and mostly far fewer."""

    def __init__(self, width: int, capacity: int) -> None:
        self.values: Float32Array = zeros(capacity, width)
        self.needed: Int64Array = np.zeros(capacity, np.int64)
        self.numbers: Int8Array = np.full(
            capacity, UNSEEN, np.int8
        )  # as in `Arrivals`: nobody changes a model in transit
        self.kept = 0  # slots, the first, that are for good
        self._free = list(
            range(capacity - 1, -1, -1)
        )  # the lowest first: memory that was never touched is not there yet
        self.most = 0  # slots in use at once, so far

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return len(self.needed) - len(self._free)

    def take(self, m: int) -> Int64Array:
        """Take m slots with a count of one each, int64 [m]; the table grows by half when it is
        full. The values in them are undefined."""
        if m > len(self._free):
            self._grow(max(m - len(self._free), len(self.needed) // 2))
        taken = [self._free.pop() for _ in range(m)]
        slots = np.array(taken, np.int64)
        self.needed[slots] = 1
        self.most = max(self.most, self.used)
        return slots

    def share(self, slots: Int64Array) -> None:
        """Increment the reference count of each slot, which may have changed since it was last in
        transit.
        """
        np.add.at(self.needed, slots, 1)
        self.numbers[slots] = UNSEEN

    def drop(self, slots: Int64Array) -> None:
        """Decrement the reference count of each slot, and free those that reach zero."""
        np.subtract.at(self.needed, slots, 1)
        self._free.extend(
            slot for slot in np.unique(slots)[::-1].tolist() if self.needed[slot] == 0
        )

    def compact(self, first: Int64Array) -> Int64Array:
        """Move the slots `first` to the front, in that order, after the permanent ones, and then
        all others in use.

        Returns the new place of each slot, int64 [slots]. Works in place, since a thousand models
        are gigabytes.
        """
        kept, slots = np.arange(self.kept), np.arange(len(self.needed))
        order = np.concatenate(
            [kept, first, np.setdiff1d(np.flatnonzero(self.needed), np.concatenate([kept, first]))]
        )
        where, at = slots.copy(), slots.copy()  # where each slot is, and which one is at each place
        for place in np.flatnonzero(order != slots[: len(order)]).tolist():
            slot, other = int(order[place]), int(at[place])
            old = int(where[slot])
            if old == place:
                continue
            moved = self.values[place].copy() if self.needed[other] else 0
            self.values[place] = self.values[old]
            self.values[old] = moved
            where[slot], where[other], at[place], at[old] = place, old, slot, other
        self.needed, self.numbers = self.needed[at], np.full(len(slots), UNSEEN, np.int8)
        self._free = list(range(len(slots) - 1, len(order) - 1, -1))
        return where

    def _grow(self, more: int) -> None:
        old, had = self.values, len(self.needed)
        self.values = zeros(had + more, old.shape[1])
        self.values[:had] = old
        self.needed = np.concatenate([self.needed, np.zeros(more, np.int64)])
        self.numbers = np.concatenate([self.numbers, np.full(more, UNSEEN, np.int8)])
        self._free = [*range(had + more - 1, had - 1, -1), *self._free]
