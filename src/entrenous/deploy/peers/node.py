"""`PeerNode`: one node of a gossip algorithm on a device of its own. The functions and the keys are
those of federation/gossip.py.

It has a pool of two models, its own and a received one, and nothing of anybody else's. It opens no
socket and reads no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

import numpy as np

from ...algorithms.gossip_node import most_ageing
from ...core.contract.gossip import ACCEPTED, NOBODY, TOO_AHEAD, Arrivals, DeviceData, Headers
from ...core.contract.protocols import State, arrays_of
from ...core.keys import folded
from ...core.types import Array, Float32Array, Int64Array, UInt64Array
from ...evaluate.metric_kinds import Ranking
from ...evaluate.metrics.hr import hr
from ...evaluate.recommend import tie_places
from ...federation.gossip import base_model, first_known, first_nodes, node_keys, weighting_keys
from ...federation.push_noise import add_push_noise, carries_noise
from ...kernels.arrays import ranks_among
from ..agreement.terms import FederationTerms
from ..wire.pushed import digest, pack
from .ages import AgesHeard
from .replay import MESSAGE, PUSH, START, PeerEvent

TOO_OLD = -1  # a received model is further behind the own one than the terms allow
RANKED = 20  # n of the HR@n by which a person sees how a node does
OWN, RECEIVED = (
    np.zeros(1, np.int64),
    np.ones(1, np.int64),
)  # places in the pool; the node itself is place 0 of one


class Pushed(NamedTuple):
    """A model that a node sends when its timer fires. number: counts its pushes; to: numbers of the
    receivers; headers: the header, of one model; body: the model as `wire.pushed` packs it; digest:
    SHA-256 of the body.
    """

    number: int
    to: tuple[int, ...]
    headers: Headers
    body: bytes
    digest: bytes


class ReceivedModel(NamedTuple):
    """A model from another peer, verified and well-formed. model: float32 [width]."""

    sender: int
    push: int
    headers: Headers
    model: Float32Array
    digest: bytes


@final
class PeerNode:
    """One node of a gossip algorithm, with its own data. `fresh` collects the events since its
    state was last saved. Not to be called from two threads at once."""

    def __init__(self, terms: FederationTerms, number: int, rows: DeviceData, seed: int) -> None:
        """A node that has not begun. rows: its own, leading axis 1; seed: what names its draws."""
        self.algorithm, self.number, self.seed, self._oldest = (
            terms.gossip,
            number,
            seed,
            terms.oldest,
        )
        me, catalogue = np.array([number]), terms.catalogue
        self._key: UInt64Array = node_keys(seed, me)
        base = base_model(self.algorithm, catalogue, terms.seed)
        known = first_known(me, catalogue.users, self._key, OWN)
        self.data = self.algorithm.weighing(rows, weighting_keys(seed, me))
        self.nodes: State = first_nodes(self.algorithm, me, known, len(base), terms.seed)
        self.pool: Float32Array = np.stack([base, base])
        self._tie_seed = (
            terms.seed
        )  # equal scores stand in one order at all peers, as in a simulation
        self.events = self.pushes = 0
        self.fresh: list[PeerEvent] = []
        ageing = most_ageing(self.algorithm.view, self.algorithm.exploited, catalogue.users)
        self._ages = AgesHeard(ageing, catalogue.users)

    def start(self) -> None:
        """Train the base model once on the node's rows, unless that has happened."""
        if self.events == 0:
            self.algorithm.on_start(self.pool, OWN, self.nodes, OWN, self.data, self._next_key())
            self._note(PeerEvent(START, -1, -1, b""))

    def push(self) -> Pushed:
        """Handle a timer: choose receivers by the algorithm and pack the node's model for them."""
        sent = self.algorithm.on_timer(self.nodes, OWN, self.data, self._next_key())
        model, number = self.pool[:1].copy(), self.pushes
        if len(carries_noise(self.algorithm, self.nodes, OWN)):
            # of every PeerState
            add_push_noise(self.algorithm, model, self._key, self.nodes.age)  # type: ignore[attr-defined]
        body = pack(model[0])
        self.pushes += 1
        found = Pushed(
            number,
            tuple(int(to) for to in sent.to[0] if to != NOBODY),
            sent.headers,
            body,
            digest(body),
        )
        self._note(PeerEvent(PUSH, self.number, number, found.digest))
        return found

    def receive(self, one: ReceivedModel) -> int:
        """Merge a received model and train, as the algorithm does. Returns ACCEPTED, or why not
        (`core.gossip.REFUSALS`, or TOO_OLD), in which case nothing has changed."""
        if (
            self._oldest is not None
            and int(one.headers.age[0]) < int(self.nodes.age[0]) - self._oldest
        ):  # type: ignore[attr-defined]
            return TOO_OLD
        self.pool[1] = one.model
        key = folded(self._key, np.array([self.events]))
        own: int = int(self.nodes.age[0])  # type: ignore[attr-defined]  # of every PeerState
        oldest = np.array([self._ages.oldest(one.sender, own)])
        arrivals = Arrivals(self.pool, OWN, OWN, RECEIVED, OWN, one.headers, key, oldest=oldest)
        refused = int(self.algorithm.on_message(arrivals, self.nodes, self.data)[0])
        self._ages.note(one.sender, int(one.headers.age[0]), refused != TOO_AHEAD)
        if refused == ACCEPTED:
            self._note(PeerEvent(MESSAGE, one.sender, one.push, one.digest))
        return refused

    def _next_key(self) -> UInt64Array:
        return folded(self._key, np.array([self.events]))

    def _note(self, event: PeerEvent) -> None:
        self.events += 1
        self.fresh.append(event)

    # ---- what a person sees ----------------------------------------------------------------------

    def scores(self) -> Float32Array:
        """The scores of all items for the node's user, float32 [items]."""
        return self.algorithm.score(self.pool, OWN, self.nodes, OWN, self.data)[0]

    def hit_rate(self) -> float | None:
        """HR@20 of the node's weighting set, each row ranked among its own candidates; None without
        such rows.
        """
        sets = self.data.weighing
        if not len(sets.item):
            return None
        scores, m = self.scores(), len(sets.item)
        rank, competing = np.empty(m, np.int64), np.empty(m, np.int64)
        known, place = np.ones(len(scores), np.bool_), tie_places(len(scores), self._tie_seed)
        ranks_among(
            scores[None],
            np.zeros(m, np.int64),
            sets.item,
            sets.candidates,
            known,
            place,
            rank,
            competing,
        )
        return float(
            hr(Ranking(np.arange(m + 1), rank, competing, np.zeros(m, np.int64)), RANKED).mean()
        )

    def known(self) -> list[int]:
        """The numbers of the peers to which the node's algorithm may push next."""
        # of every Peer
        numbers = np.concatenate([self.nodes.view[0], self.nodes.known[0]])  # type: ignore[attr-defined]
        return [int(number) for number in numbers if number != NOBODY]

    # ---- kept, and gone on with ------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Copies of all arrays that change during training, by name: the model, event counts, and
        the algorithm's private state."""
        counts: Int64Array = np.array([self.events, self.pushes], np.int64)
        state = {f"node.{name}": array.copy() for name, array in arrays_of(self.nodes).items()}
        return {"model": self.pool[0].copy(), "counts": counts, **state}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Set the node to the state that `arrays` returned earlier."""
        self.pool[0] = arrays["model"]
        self.nodes = type(self.nodes)(
            *(arrays[f"node.{name}"].copy() for name in self.nodes._fields)
        )
        self.events, self.pushes = (int(count) for count in arrays["counts"])
        self.fresh = []
