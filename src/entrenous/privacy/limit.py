"""`Limit`: a step that changes a device's message before it leaves the device.

Clip, noise and the choice of rows are functions of this one shape, so they apply one
after the other, and alike in a simulation, over workers, on a node and in a peer. A limit works
device by device: its result for a device depends on that device's message and key alone, so that a
cohort may be cut into blocks anywhere.
"""

from __future__ import annotations

from typing import Protocol

from ..core.contract.update import Update
from ..core.types import UInt64Array


class Limit(Protocol):
    """A transformation of the updates of m devices.

    keys: uint64 [m], one for each device and round, from which a limit may draw. Limits that draw
    fold their own names into the keys, so that no two of them share draws.
    """

    def __call__(self, update: Update, keys: UInt64Array) -> Update: ...
