"""A peer's folder, which is the whole peer: whoever has the folder is that peer. Only models,
records and headers ever leave it.

The files are those of every node: node.json, terms.json, items.jsonl, identity.key, store.sqlite;
and for a peer also

    invitation.json  its number, the operator's ticket, and peers to begin with
    revoked.json     the newest list of keys that the operator has shut out, if there is one
    lock             the id of the process that runs it
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np

from entrenous.core.contract.gossip import DeviceData
from entrenous.core.errors import InputError
from entrenous.core.lock import is_held
from entrenous.core.types import Float32Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.gossip import device_data

from ..agreement.catalogue import Items
from ..agreement.files import IDENTITY, public_bytes, read_identity, read_json
from ..agreement.growth import current_items
from ..agreement.invitation import Contact, read_peer_invitation
from ..agreement.terms import TERMS, FederationTerms
from ..agreement.tickets import REVOKED, RevocationList
from ..node.node_store import NODE, STORE, NodeStore
from ..wire.tensors import schema_of
from .node import PeerNode
from .records import PeerIdentity
from .state import StateStore

SEED_BITS = 63  # of the store's secret: the seed of a peer's own draws


@final
class PeerFolder:
    """The open folder of a peer; `close` closes its store. Rows and items are read on first use.
    Raises InputError for a file that is missing or malformed."""

    def __init__(self, folder: Path) -> None:
        about = read_json(folder / NODE)
        self.folder = folder
        self.name = str(about["name"])
        self.terms = FederationTerms.read(folder / TERMS)
        if self.terms.has_server:
            problem = "is the folder of a node with a server"
            raise InputError(str(folder), problem, expected="a peer's")
        self.listen = str(about["listen"])
        self.advertise = [str(address) for address in about["advertise"]]
        invitation = read_peer_invitation(folder)
        key = read_identity(folder / IDENTITY)
        self.me = PeerIdentity(key, self.terms.run_bytes, invitation.signed())
        self.bootstraps: list[Contact] = [peer.contact() for peer in invitation.bootstraps]
        self.store = NodeStore(folder / STORE)
        self.state = StateStore(self.store)

    def unrecommended(self) -> list[int]:
        """Returns the numbers of the items that are in no list: none, between peers."""
        return []

    def close(self) -> None:
        """Closes the store; everything saved is on the disk already."""
        self.store.close()

    def check_ticket(self, wall: float) -> None:
        """Raises InputError for a ticket that is another key's or has ended at wall-clock time
        `wall`, and for a key that was revoked.
        """
        ticket = self.me.ticket
        key = public_bytes(self.me.key)
        operator = bytes.fromhex(self.terms.operator)
        fix = (
            "ask the operator for another: entrenous federation renew, then entrenous federation"
            " join --invitation"
        )
        # Other peers refuse every message of a peer whose ticket is not valid, and give no reason.
        if not ticket.is_for(key, operator, self.terms.run_bytes):
            raise InputError(str(self.folder), "its ticket is not for this key and number", fix=fix)
        if wall >= ticket.until:
            end = datetime.fromtimestamp(ticket.until, UTC)
            raise InputError(str(self.folder), f"its ticket ended on {end:%Y-%m-%d}", fix=fix)
        revoked = self.revoked
        if revoked is not None and key in revoked.keys:
            raise InputError(
                str(self.folder), "its key was shut out by the operator", fix="ask the operator why"
            )

    @property
    def revoked(self) -> RevocationList | None:
        """The newest known list of revoked keys. Raises InputError for a list that the operator has
        not signed.
        """
        revoked = RevocationList.read(self.folder)
        operator = bytes.fromhex(self.terms.operator)
        if revoked is not None and not revoked.is_of(operator, self.terms.run_bytes):
            problem = "is not signed by this federation's operator"
            fix = "remove it, or get the one of the federation's operator"
            raise InputError(str(self.folder / REVOKED), problem, fix=fix)
        return revoked

    @cached_property
    def items(self) -> Items:
        """The items of the federation. Raises InputError if they are not those of the terms."""
        return current_items(self.folder, self.terms).items

    @cached_property
    def rows(self) -> Interactions:
        """The rows of the peer's one user."""
        return self.store.rows(self.items)

    @property
    def data(self) -> DeviceData:
        """The rows as the data of one device; the weighting set is left empty, for the algorithm to
        draw.
        """
        return device_data(self.rows, None)

    @property
    def seed(self) -> int:
        """The number that this peer's random draws follow from: the federation's seed if draws are
        public, else a secret number of the peer. Whoever knows a peer's draws can tell its
        negatives from its messages, and so its rows.
        """
        if self.terms.draws == "public":
            return self.terms.seed
        return self.store.secret % (1 << SEED_BITS)

    def new_node(self) -> PeerNode:
        """Returns a node with this peer's settings and rows, before its first event."""
        return PeerNode(self.terms, self.me.number, self.data, self.seed)

    def node(self) -> PeerNode:
        """Returns the peer's node in its last saved state if there is one. Raises EntrenousError if
        that state is damaged."""
        node = self.new_node()
        kept = self.state.load(schema_of(node.arrays()))
        if kept is not None:
            node.restore(kept)
        return node

    def trained(self) -> PeerNode:
        """Returns the node as `node` does. Raises InputError if it has not begun."""
        node = self.node()
        if node.events == 0:
            fix = f"run it: entrenous node {self.folder}"
            raise InputError(str(self.folder), "has not learnt anything yet", fix=fix)
        return node

    def recommender(self) -> tuple[int, OwnModel]:
        """Returns the number of the peer's pushes so far, and a recommender by its newest model.
        Raises InputError before its first training.
        """
        node = self.trained()
        return node.pushes, OwnModel(node)

    def is_running(self) -> bool:
        """Returns whether a process is running this peer now."""
        return is_held(self.folder / "lock")


@final
class OwnModel:
    """A recommender of a peer's one user."""

    def __init__(self, node: PeerNode) -> None:
        self._node = node

    def scores(self, users: Int64Array) -> Float32Array:
        """Returns scores of every item, float32 [len(users), items]; `users` are all 0."""
        return np.tile(self._node.scores(), (len(users), 1))
