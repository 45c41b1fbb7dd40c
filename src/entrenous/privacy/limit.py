"""`Limit`, what a device does to its message before it leaves, and `chain`, which puts limits one
after the other.

Clip, quantise, noise and the choice of rows are functions of this one shape, so they compose and
run alike in a simulation, over workers, on a node and in a peer. A limit works device by device:
what it does to one device's message depends on that message and that device's key alone, so that a
cohort may be cut into blocks anywhere.
"""

from __future__ import annotations

from typing import Protocol

from ..core.contract.update import Update
from ..core.types import UInt64Array


class Limit(Protocol):
    """A transformation of the updates of m devices.

    keys: uint64 [m], one a device and round, from which a limit may draw. Two limits that draw fold
    names of their own into them."""

    def __call__(self, update: Update, keys: UInt64Array) -> Update: ...


def chain(*limits: Limit) -> Limit:
    """One limit that applies several in order. Without any it changes nothing."""

    def chained(update: Update, keys: UInt64Array) -> Update:
        for limit in limits:
            update = limit(update, keys)
        return update

    return chained
