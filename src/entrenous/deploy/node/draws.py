"""What a node's devices draw from where draws are secret: one key for each round and user, each a
keyed BLAKE2b of the node's secret.

The keys of a simulation come from one another by functions that can be turned round (core/keys.py):
whoever finds one finds the seed, and all users and rounds with it. A server may find one, from what
a device sends. These keys give nothing of any other.
"""

from __future__ import annotations

import hashlib
from typing import final

import numpy as np

from ...core.contract.protocols import State
from ...core.contract.trial import of_devices
from ...core.contract.update import Total, Update, add_update
from ...core.types import Int64Array
from ...federation.shard import Shard

BITS = 256  # of a node's secret
TOGETHER = 64  # devices whose updates are in memory at once
PERSON = b"entrenous draws"


@final
class SecretDraws:
    """The devices of a node, each training with keys of its own that follow from `secret`."""

    def __init__(self, shard: Shard, secret: int) -> None:
        self._shard, self._secret = shard, secret.to_bytes(BITS // 8, "little")

    def key(self, purpose: str, number: int, user: int) -> np.uint64:
        """The key of one purpose, round and user."""
        said = f"{purpose} {number} {user}".encode()
        return np.uint64(
            int.from_bytes(
                hashlib.blake2b(said, digest_size=8, key=self._secret, person=PERSON).digest(),
                "little",
            )
        )

    def init_devices(self) -> State:
        """The initial private state of all devices of the node."""
        each = [
            self._shard.algorithm.init_devices(np.array([user]), self.key("first", 0, user))
            for user in self._shard.users.tolist()
        ]
        return type(each[0])(*(np.concatenate(arrays) for arrays in zip(*each, strict=True)))

    def update(
        self, download: State, devices: State, users: Int64Array, place: int, number: int
    ) -> Update:
        """What the device of users[place] sends in a round; its row of `devices` is overwritten.
        download: delivered for `users`.
        """
        own = users[place : place + 1]
        received = of_devices(self._shard.contract, download, np.array([place]))
        return self._shard.update(received, devices, own, self.key("round", number, int(own[0])))

    def total(self, download: State, devices: State, users: Int64Array, number: int) -> Total:
        """The sum of what the devices of `users` send in a round, one trained by itself after the
        other. To be given back to the shard.
        """
        total = self._shard.take()
        for low in range(0, len(users), TOGETHER):
            places = np.arange(low, min(low + TOGETHER, len(users)))
            train = lambda place: self.update(download, devices, users, int(place[0]), number)  # noqa: E731
            for update in self._shard.executor.map(train, np.split(places, len(places))):
                total = add_update(total, update)
        return total
