"""`VisibleRound`: devices of a server that opens every update of a round, as defences against
poisoning require; a secure sum is therefore impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import State
from ..core.contract.update import LIMIT, Total, Update, add_update
from ..core.types import Array, BoolArray, Int64Array
from .item_rows import of_some
from .shard import Ledger, Shard

Defence = Callable[[Update, State], Update]
"""A server's defence: (updates of the cohort, the model that devices received) -> updates to add.
It may lower or replace an update, and never sees who is honest.
"""
Sending = Callable[[Update, State, Int64Array], Update]
"""An attack by devices: (honest updates of the cohort, the model, users) -> the updates sent."""


def undefended(update: Update, model: State) -> Update:
    """Leaves all updates as they are: the defence of a server without one."""
    return update


def honest(update: Update, model: State, users: Int64Array) -> Update:
    """Leaves all updates as they are: devices that follow the protocol."""
    return update


@final
class VisibleRound:
    """The devices of a federation whose server opens every update: give it to `Rounds` as
    `everybody`.

    shard: the devices of all users; its recorder sees their honest updates. Before the defence, and
    always, the server drops devices whose updates are not finite or exceed the fixed-point range;
    `refused` counts them.
    """

    def __init__(
        self, shard: Shard, *, sending: Sending = honest, defence: Defence = undefended
    ) -> None:
        self._shard = shard
        self._sending = sending
        self._defence = defence
        self.refused = 0

    def init_devices(self, key: np.uint64) -> State:
        """The initial private state of all devices."""
        return self._shard.init_devices(key)

    def work(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        clip: float = 0.0,
    ) -> tuple[Total, Ledger]:
        """Trains the devices of `users`, drops unsound updates, applies the defence, and adds up.
        Arguments as in `Shard.work`; `clip` is not used, since it adapts only with noise on sums.
        """
        shard = self._shard
        contract = shard.contract
        received = contract.delivered(download, users)
        update = shard.update(received, devices, users, key)
        update = self._sending(update, download, users)
        # Unsound updates were sent too.
        sent = Ledger().up(update)
        # Decoys of a protection may fill up to all items.
        most = contract.sizes["items" if shard.protected.wide else "rows"]
        sound = sound_devices(update, contract, most)
        self.refused += int((~sound).sum())
        kept = of_some(update, np.flatnonzero(sound))
        defended = self._defence(kept, download)
        return add_update(contract.empty_total(), defended), sent

    def release(self, total: Total) -> None:
        """Takes back a sum of `work`; its memory is not used again."""


def sound_devices(update: Update, contract: Contract, most: int) -> BoolArray:
    """True for devices with finite numbers in the range of a sum, at most `most` rows, and an
    allowed weight: bool [m]. A wire schema or a simulation checked items and shapes before.
    """
    weight = update.weight
    # A NaN is not below anything.
    sound = (weight >= 0) & (weight < LIMIT)
    if not contract.weighs:
        sound &= weight == 1
    sound &= np.diff(update.ptr) <= most
    device = update.device
    for values in update.rows.values():
        right = _in_range(values, len(device))
        sound &= np.bincount(device, ~right, minlength=update.devices) == 0
    for values in (*update.dense.values(), *update.shown.values()):
        sound &= _in_range(values, update.devices)
    return np.asarray(sound)


def _in_range(values: Array, rows: int) -> BoolArray:
    """True for rows of finite numbers that a sum can hold, bool [rows]."""
    flat = np.abs(values.reshape(rows, -1))
    return np.asarray((flat < LIMIT).all(axis=1))
