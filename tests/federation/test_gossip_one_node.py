"""A node is the same on a device of its own: nodes that share nothing and hand each other messages
end with the bytes of the simulation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from small_gossip import shop

from entrenous.core.contract.gossip import NOBODY, Arrivals, DeviceData, Headers, data_of
from entrenous.core.keys import fold_name, folded
from entrenous.federation.gossip import Gossip, first_known
from entrenous.systems.pepper import GossipAgeGMF, GossipAverageGMF, PepperGMF

N, ROUNDS = 10, 7
SMALL: dict[str, Any] = {
    "factors": 4,
    "learning_rate": 0.05,
    "learning_rate_user": 0.05,
    "learning_rate_output": 0.01,
    "reg": 0.1,
    "local_epochs": 1,
    "negatives": 2,
    "init_std": 0.1,
    "init_user": 0.3,
    "rounds": 10,
    "view": 3,
    "redraw": 2,
    "carried": 3,
    "largest": 50.0,
}


class Message(NamedTuple):
    """What goes over a wire."""

    headers: Headers
    values: bytes


class Device:
    """One node with a place for its own model and one for a received one: all it has is its own."""

    def __init__(self, gossip: Gossip, u: int) -> None:
        self.algorithm, self.me, self.events = gossip.algorithm, u, 0
        self.key = gossip._node_keys[u]
        self.data: DeviceData = data_of(gossip.private, np.array([u]))
        self.pool = np.stack([gossip._base, gossip._base])
        who, users = np.array([u]), gossip.catalogue.users
        peers = first_known(who, users, gossip._node_keys[who], np.zeros(1, np.int64))
        self.nodes = self.algorithm.init_nodes(
            np.array([u]), peers, len(gossip._base), fold_name(gossip._key, "private")
        )
        self.algorithm.on_start(
            self.pool, self.here, self.nodes, self.here, self.data, self._keys()
        )

    here = np.zeros(1, np.int64)

    def _keys(self) -> np.ndarray:
        self.events += 1
        return folded(np.array([self.key]), np.array([self.events - 1]))

    def on_timer(self) -> list[tuple[int, Message]]:
        pushes = self.algorithm.on_timer(self.nodes, self.here, self.data, self._keys())
        message = Message(pushes.headers, self.pool[0].tobytes())
        return [(int(to), message) for to in pushes.to[0] if to != NOBODY]

    def on_message(self, message: Message) -> None:
        self.pool[1] = np.frombuffer(message.values, np.float32)
        a = Arrivals(
            self.pool, self.here, self.here, self.here + 1, self.here, message.headers, self._keys()
        )
        assert self.algorithm.on_message(a, self.nodes, self.data).tolist() == [0]


@pytest.mark.parametrize("kind", [PepperGMF, GossipAverageGMF, GossipAgeGMF])
def test_devices_that_share_nothing_end_with_the_bytes_of_the_simulation(kind: Any) -> None:
    gossip = Gossip(kind(**SMALL), shop(N, items=40, each=9), seed=3)
    swarm = gossip.advance(gossip.start(), ROUNDS)
    devices = [Device(gossip, u) for u in range(N)]
    for number in range(ROUNDS):
        inbox: list[list[tuple[int, Message]]] = [[] for _ in devices]
        for device in devices:
            order = gossip._draws.order(np.array([device.me]), np.array([number]))
            for to, message in device.on_timer():
                inbox[to].append((int(folded(order, np.array([to]))[0]), message))
        for device, messages in zip(devices, inbox, strict=True):
            for _, message in sorted(messages, key=lambda one: one[0]):
                device.on_message(message)
    assert np.stack([device.pool[0] for device in devices]).tobytes() == swarm.models.tobytes()
    for name, array in swarm.nodes._asdict().items():
        assert (
            np.concatenate([getattr(device.nodes, name) for device in devices]).tobytes()
            == array.tobytes()
        ), name
