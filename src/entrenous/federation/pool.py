"""A table of the models of nodes and of messages in transit. A node that pushes to three peers
stores its model once, and copies it only when it trains again.
"""

from __future__ import annotations

from typing import final

import numpy as np

from ..core.contract.gossip import UNSEEN
from ..core.lanes.memory import zeros
from ..core.types import Float32Array, Int8Array, Int64Array


@final
class Pool:
    """A table of model slots, float32 [width] each, with reference counts; a slot with a count of
    zero is reused.

    A node's model is a slot, and a message refers to that slot. The node moves to another slot only
    if its model changes while a message needs the old one. There are therefore at most as many
    slots as nodes and messages in transit, and mostly far fewer.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self.values: Float32Array = zeros(capacity, width)
        # The reference count of each slot.
        self.needed: Int64Array = np.zeros(capacity, np.int64)
        # As in `Arrivals`: a model in transit does not change.
        self.numbers: Int8Array = np.full(capacity, UNSEEN, np.int8)
        # The number of permanent slots, which are the first.
        self.kept = 0
        # The lowest is taken first: memory that was never touched costs nothing.
        self._free = list(range(capacity - 1, -1, -1))
        # The most slots that were in use at once.
        self.most = 0

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return len(self.needed) - len(self._free)

    def take(self, m: int) -> Int64Array:
        """Takes m slots with a count of one each, int64 [m]; a full table grows by half. Their
        values are undefined.
        """
        missing = m - len(self._free)
        if missing > 0:
            self._grow(max(missing, len(self.needed) // 2))
        slots = np.array([self._free.pop() for _ in range(m)], np.int64)
        self.needed[slots] = 1
        self.most = max(self.most, self.used)
        return slots

    def share(self, slots: Int64Array) -> None:
        """Increments the reference count of each slot. Its model may have changed since it was last
        in transit.
        """
        np.add.at(self.needed, slots, 1)
        self.numbers[slots] = UNSEEN

    def drop(self, slots: Int64Array) -> None:
        """Decrements the reference count of each slot, and frees those that reach zero."""
        np.subtract.at(self.needed, slots, 1)
        # The lowest last, which is taken first.
        dropped = np.unique(slots)[::-1]
        free = dropped[self.needed[dropped] == 0]
        self._free.extend(free.tolist())

    def compact(self, first: Int64Array) -> Int64Array:
        """Moves the permanent slots to the front, then the slots `first` in that order, then all
        others in use.

        Returns the new place of each slot, int64 [slots]. Works in place, since a thousand models
        are gigabytes.
        """
        slots = np.arange(len(self.needed))
        front = np.concatenate([slots[: self.kept], first])
        behind = np.setdiff1d(np.flatnonzero(self.needed), front)
        used = np.concatenate([front, behind])
        many = len(used)
        # The slot that comes to each place. Free ones go where used ones leave.
        order = slots.copy()
        order[:many] = used
        order[used[used >= many]] = np.setdiff1d(slots[:many], used)
        done = order == slots
        for start in np.flatnonzero(~done).tolist():
            # Each place takes the model of the next, around a circle of places.
            place = start
            model = self.values[start].copy()
            while not done[place]:
                done[place] = True
                source = int(order[place])
                self.values[place] = model if source == start else self.values[source]
                place = source
        place_of = np.empty_like(order)
        place_of[order] = slots
        self.needed = self.needed[order]
        self.numbers = np.full(len(slots), UNSEEN, np.int8)
        self._free = slots[many:][::-1].tolist()
        return place_of

    def _grow(self, more: int) -> None:
        old = self.values
        had = len(old)
        size = had + more
        self.values = zeros(size, old.shape[1])
        self.values[:had] = old
        needed = np.zeros(more, np.int64)
        numbers = np.full(more, UNSEEN, np.int8)
        self.needed = np.concatenate([self.needed, needed])
        self.numbers = np.concatenate([self.numbers, numbers])
        # New slots are taken after all free old ones.
        self._free = [*range(size - 1, had - 1, -1), *self._free]
