"""`VisibleRound`: devices of a server that opens every update of a round, which defences against
poisoning need; so no secure sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, final

import numpy as np

from ..core.contract.declared import Contract
from ..core.contract.protocols import State
from ..core.contract.update import LIMIT, Total, Update, add_update
from ..core.types import BoolArray, Int64Array
from .ledger import Ledger
from .shard import Shard

Defence = Callable[[Update, State], Update]
"""What a server that sees all updates of a round does to them before they are added: (updates of
the cohort, the model that the devices received) -> updates. It may lower or replace what a device
sent; it never sees who is honest.
"""
Sending = Callable[[Update, State, Int64Array], Update]
"""What some devices send in the place of what their own training gives: (updates of the cohort, the
model, users) -> updates.
"""


def undefended(update: Update, model: State) -> Update:
    """Leave all updates as they are: the defence of a server that has none."""
    return update


def honest(update: Update, model: State, users: Int64Array) -> Update:
    """Leave all updates as they are: what devices send that keep to the protocol."""
    return update


@final
class VisibleRound:
    """The devices of a federation whose server opens every update: give it to `Rounds` as
    `everybody`.

    shard: everybody's devices; its recorder takes down what they themselves send. sending: what
    some of them send instead. defence: what the server does to the updates of the round. Before
    that, and always, updates that are not finite or beyond the fixed-point range are dropped with
    all that their device sent. `refused` counts them."""

    def __init__(
        self, shard: Shard, *, sending: Sending = honest, defence: Defence = undefended
    ) -> None:
        self._shard, self._sending, self._defence, self.refused = shard, sending, defence, 0

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
        """Trains the devices of `users`, and adds up what they send once it is checked and defended
        against. As `Shard.work`; no clip moves, since that goes with noise, and noise not with a
        server that opens updates.
        """
        shard = self._shard
        update = shard.update(shard.contract.delivered(download, users), devices, users, key)
        update = self._sending(update, download, users)
        sent = Ledger().up(update)
        most = shard.contract.sizes["items" if shard.protected.wide else "rows"]
        sound = sound_devices(update, shard.contract, most)
        self.refused += int((~sound).sum())
        total = shard.contract.empty_total()
        return (
            add_update(total, self._defence(of_some(update, np.flatnonzero(sound)), download)),
            sent,
        )

    def release(self, total: Total) -> None:
        """Takes back a sum that `work` gave; its memory is not used again."""


def defended_sum(
    updates: Sequence[Update], contract: Contract, defence: Defence, model: State
) -> Total:
    """The sum of the updates of a round under a defence, as a server in a network takes it, which
    has checked each as it came. updates: in the order of the users; model: what they received."""
    total = contract.empty_total()
    return add_update(total, defence(reduce(side_by_side, updates), model)) if updates else total


def sound_devices(update: Update, contract: Contract, most: int) -> BoolArray:
    """Which devices sent only finite numbers that can be added, at most `most` rows, and a weight
    that they may have: bool [m]. Items and shapes are taken as read: a wire schema or a simulation
    has seen to them.
    """
    weight = update.weight
    sound = (
        np.isfinite(weight) & (weight >= 0) & (weight < LIMIT) & (contract.weighs | (weight == 1))
    )
    sound &= np.diff(update.ptr) <= most
    device = np.repeat(np.arange(update.devices), np.diff(update.ptr))
    for values in update.rows.values():
        wrong = ~(np.abs(values.reshape(len(values), -1)) < LIMIT).all(axis=1)
        sound &= np.bincount(device, wrong, minlength=update.devices) == 0
    for values in (*update.dense.values(), *update.shown.values()):
        sound &= (np.abs(values.reshape(update.devices, -1)) < LIMIT).all(axis=1)
    return sound


def of_some(update: Update, devices: Int64Array) -> Update:
    """The updates of some devices of a cohort, in their order; devices: int64, their places in the
    cohort.
    """
    if len(devices) == update.devices:
        return update
    counts = np.diff(update.ptr)[devices]
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.repeat(update.ptr[devices] - ptr[:-1], counts) + np.arange(ptr[-1])
    return update._replace(
        ptr=ptr,
        item=update.item[rows],
        rows={name: values[rows] for name, values in update.rows.items()},
        dense={name: values[devices] for name, values in update.dense.items()},
        weight=update.weight[devices],
        group=update.group[devices] if len(update.group) else update.group,
        shown={name: values[devices] for name, values in update.shown.items()},
        sender=update.sender[devices] if len(update.sender) else update.sender,
    )


def side_by_side(left: Update, right: Update) -> Update:
    """The updates of two cohorts as those of one."""
    ptr = np.concatenate([left.ptr, right.ptr[1:] + left.ptr[-1]])

    def both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.concatenate([one[name], other[name]]) for name in one}

    return left._replace(
        ptr=ptr,
        item=np.concatenate([left.item, right.item]),
        rows=both(left.rows, right.rows),
        dense=both(left.dense, right.dense),
        weight=np.concatenate([left.weight, right.weight]),
        group=np.concatenate([left.group, right.group]),
        shown=both(left.shown, right.shown),
        sender=np.concatenate([left.sender, right.sender]),
    )
