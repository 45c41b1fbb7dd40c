"""A federation of peers in memory: nodes of a small shop, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_lab.trials.replayed import Recording, replay
from entrenous_network.agreement.files import public_bytes
from entrenous_network.agreement.invitation import Contact
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.agreement.tickets import RevocationList, Ticket
from entrenous_network.node.node_store import NodeStore
from entrenous_network.peers.events import PeerEvent
from entrenous_network.peers.node import PeerNode
from entrenous_network.peers.peer import Membership, Peer, pace
from entrenous_network.peers.records import PeerIdentity
from entrenous_network.peers.state import StateStore
from memory_transport import EPOCH, Hub, MemoryPeerLink, VirtualHost
from small_gossip import shop

from entrenous.core.contract.gossip import DeviceData, data_of
from entrenous.federation.gossip import device_data

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
    "view": 3,
    "redraw": 2,
    "carried": 3,
    "largest": 50.0,
}
OPERATOR = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
ITEMS = 40
UNTIL = int(EPOCH) + 10**9  # the second in which tickets end


def terms(n: int, algorithm: str = "pepper-gmf", **more: Any) -> FederationTerms:
    return FederationTerms.parse(
        {
            "topology": "peers",
            "algorithm": algorithm,
            "settings": SMALL,
            "users": n,
            "items": ITEMS,
            "items_root": "0" * 64,
            "seed": 3,
            "draws": "public",
            "period": 2.0,
            "operator": public_bytes(OPERATOR).hex(),
            **more,
        },
        "terms",
    )


def rows_of(n: int) -> list[DeviceData]:
    whole = device_data(shop(n, items=ITEMS, each=9), None)
    return [data_of(whole, np.array([u])) for u in range(n)]


def key_of(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number + 1]) * 32)


def public_of(number: int) -> bytes:
    return public_bytes(key_of(number))


def identity_of(
    of: FederationTerms, number: int, key: Ed25519PrivateKey | None = None, until: int = UNTIL
) -> PeerIdentity:
    key = key or key_of(number)
    return PeerIdentity(
        key, of.run_bytes, Ticket.sign(OPERATOR, of.run_bytes, number, public_bytes(key), until)
    )


def revoked(
    of: FederationTerms, serial: int, *numbers: int, operator: Ed25519PrivateKey = OPERATOR
) -> RevocationList:
    return RevocationList.sign(
        operator, of.run_bytes, serial, [public_of(number) for number in numbers]
    )


def store_of(path: Path, n: int, number: int) -> NodeStore:
    """The store of a peer, opened, and made if it is not there."""
    if path.exists():
        return NodeStore(path)
    users = np.array([number])
    return NodeStore.create(path, shop(n, items=ITEMS, each=9).of_users(users), users)


class Street:
    """n peers, of which 0 and 1 are the bootstraps, each at an address of its own. folder: None =
    they keep nothing.
    """

    def __init__(
        self, of: FederationTerms, hub: Hub | None = None, folder: Path | None = None
    ) -> None:
        self.of, self.hub, self.folder, self.rows = of, hub or Hub(), folder, rows_of(of.users)
        self.peers: dict[int, Peer] = {}
        self.links: dict[int, MemoryPeerLink] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.identities: dict[
            int, PeerIdentity
        ] = {}  # of those who have another than at the beginning
        self.revoked: dict[int, RevocationList] = {}  # the lists that peers begin with
        self.started = 0
        self.lines: list[str] = []
        self.old: dict[int, list[PeerEvent]] = {}

    def bootstraps(self) -> list[Contact]:
        return [Contact(n, public_of(n), (f"memory:at-{n}",)) for n in (0, 1)]

    def seed(self, number: int) -> int:
        return self.of.seed if self.of.draws == "public" else 1000 + number

    def node(self, number: int) -> PeerNode:
        """A peer's node before its first event."""
        return PeerNode(self.of, number, self.rows[number], self.seed(number))

    def make(self, number: int) -> Peer:
        """A peer, from what it has kept if it has."""
        self.started += 1
        node = self.node(number)
        state = None
        if self.folder is not None:
            from entrenous_network.wire.tensors import schema_of

            state = StateStore(store_of(self.folder / f"{number}.sqlite", self.of.users, number))
            kept = state.load(schema_of(node.arrays()))
            if kept is not None:
                node.restore(kept)
        me = self.identities.get(number) or identity_of(self.of, number)
        link = self.hub.link(public_bytes(me.key), f"memory:at-{number}")
        membership = Membership(self.of, me, self.bootstraps(), self.revoked.get(number))
        host = VirtualHost(5, 1000 * self.started + number)
        times = pace(self.of.period)
        peer = Peer(membership, node, link, host, times, state, self.lines.append)
        self.peers[number], self.links[number] = peer, link
        if state is None:
            self.old[number] = []
            keep_all(peer.node, self.old[number])
        return peer

    def start(self, *numbers: int) -> None:
        for number in numbers or range(self.of.users):
            self.tasks[number] = asyncio.get_running_loop().create_task(self.make(number).run())

    async def kill(self, number: int) -> None:
        """As SIGKILL: nothing is saved, nobody is told."""
        self.hub.kill(self.links[number])
        peer = self.peers.pop(number)
        peer.state = None
        self.tasks[number].cancel()
        await asyncio.wait([self.tasks[number]])

    async def stop(self) -> None:
        for peer in self.peers.values():
            peer.stop()
        for number in self.peers:
            await self.tasks[number]

    def recordings(self) -> list[Recording]:
        found = []
        for number, peer in sorted(self.peers.items()):
            events = self.old[number] if peer.state is None else peer.state.events()
            found.append(Recording(self.node(number), events))
        return found

    def models(self) -> np.ndarray:
        """The models of all peers, in the order of their numbers."""
        return np.stack([peer.node.arrays()["model"] for _, peer in sorted(self.peers.items())])

    def check_replay(self) -> None:
        """All that peers ended with is what their events lead to, byte for byte."""
        recordings = self.recordings()
        replay(recordings)
        for again in recordings:
            arrays = self.peers[again.node.number].node.arrays()
            for name, array in again.node.arrays().items():
                assert array.tobytes() == arrays[name].tobytes(), name


def keep_all(node: PeerNode, events: list[PeerEvent]) -> None:
    """Notes every event of a node that keeps nothing."""
    note: Callable[[PeerEvent], None] = node._note

    def both(event: PeerEvent) -> None:
        events.append(event)
        note(event)

    node._note = both  # type: ignore[method-assign]


async def run(street: Street, seconds: float) -> Street:
    street.start()
    await asyncio.sleep(seconds)
    await street.stop()
    return street
