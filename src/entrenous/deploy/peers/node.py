"""`PeerNode`: one node of a gossip algorithm on a device of its own, with the functions and keys of
federation/gossip.py; and `AgesHeard`, which ages of models it believes.

A node has a pool of two models, its own and a received one, and nothing else of other peers. It
opens no socket and reads no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, final

import numpy as np

from ...algorithms.gossip_node import OLDEST, most_ageing
from ...core.contract.gossip import ACCEPTED, NOBODY, TOO_AHEAD, Arrivals, DeviceData, Headers
from ...core.contract.protocols import State, arrays_of
from ...core.keys import folded
from ...core.types import Array, Float32Array, Int64Array, UInt64Array
from ...evaluate.metric_kinds import Ranking
from ...evaluate.metrics.accuracy import hr
from ...evaluate.recommend import tie_places
from ...federation.gossip import base_model, first_known, first_nodes, node_keys, weighting_keys
from ...federation.push_noise import add_push_noise, carries_noise
from ...kernels.arrays import ranks_among
from ..agreement.terms import FederationTerms
from ..wire.pushed import digest, pack
from .replay import MESSAGE, PUSH, START, PeerEvent

TOO_OLD = -1  # a received model is further behind the own one than the terms allow
RANKED = 20  # n of the HR@n by which a person sees how a node does
# Places in the pool; the node itself is place 0 of one.
OWN, RECEIVED = np.zeros(1, np.int64), np.ones(1, np.int64)
SENDERS = 256  # senders whose newest claims of an age are kept in mind
PERIODS = 2  # by which a model may be ahead of what others have claimed up to so long ago
# Claims refused in a row, after which a peer that hears only from one sender believes it.
ALONE = 100


class Pushed(NamedTuple):
    """A model that a node sends when its timer fires."""

    number: int
    """The number of this push at its sender."""
    to: tuple[int, ...]
    """The numbers of the receivers."""
    headers: Headers
    """The header of this one model."""
    body: bytes
    """The model as `wire.pushed` packs it."""
    digest: bytes
    """The SHA-256 of the body."""


class ReceivedModel(NamedTuple):
    """A model from another peer, verified and well-formed."""

    sender: int
    push: int
    headers: Headers
    model: Float32Array
    """float32 [width]."""
    digest: bytes


@final
class AgesHeard:
    """The newest age that each sender claimed for its model: how many updates it has had.

    A peer cannot know when its federation began, nor how long it was away itself, and no sender can
    prove an age. But ages go round: all models of a network are about as old as each other. So a
    peer believes of a sender what another sender has claimed, or what its own model has had, and
    two periods more. One sender alone moves that by nothing, whatever it claims and however often;
    and a peer that is new, or was away, soon hears a second sender. Nothing of this is kept on the
    disk.

    ageing: updates by which the oldest model gains in a period, at most. peers: in the federation.
    """

    def __init__(self, ageing: int, peers: int) -> None:
        self._ahead, self._peers = PERIODS * ageing, peers
        self._claims: OrderedDict[int, int] = OrderedDict()  # by sender, the newest last
        self._refused = 0

    def oldest(self, sender: int, own: int) -> int:
        """Returns the most updates that a model of `sender` may claim, where the peer's own has had
        `own`."""
        no_second = self._peers == 2  # a peer of two has one other, whom nobody can confirm
        if no_second or self._refused >= ALONE:
            return OLDEST
        others = [age for number, age in self._claims.items() if number != sender]
        return min(max([own, *others]) + self._ahead, OLDEST)

    def note(self, sender: int, age: int, believed: bool) -> None:
        """Keeps in mind what a sender claimed, and whether it was believed."""
        self._claims.pop(sender, None)
        self._claims[sender] = age
        if len(self._claims) > SENDERS:
            self._claims.popitem(last=False)
        self._refused = 0 if believed else self._refused + 1


@final
class PeerNode:
    """One node of a gossip algorithm, with its own data, which has not begun. `fresh` collects the
    events since its state was last saved. Not to be called from two threads at once.

    rows: of its user, leading axis 1. seed: the number that its draws follow from."""

    def __init__(self, terms: FederationTerms, number: int, rows: DeviceData, seed: int) -> None:
        self.algorithm, self._oldest = terms.gossip, terms.oldest
        self.number, self.seed = number, seed
        me, catalogue = np.array([number]), terms.catalogue
        self._key: UInt64Array = node_keys(seed, me)
        base = base_model(self.algorithm, catalogue, terms.seed)
        known = first_known(me, catalogue.users, self._key, OWN)
        self.data = self.algorithm.weighing(rows, weighting_keys(seed, me))
        self.nodes: State = first_nodes(self.algorithm, me, known, len(base), terms.seed)
        self.pool: Float32Array = np.stack([base, base])
        # Equal scores stand in one order at all peers, as in a simulation.
        self._tie_seed = terms.seed
        self.events = self.pushes = 0
        self.fresh: list[PeerEvent] = []
        ageing = most_ageing(self.algorithm.view, self.algorithm.exploited, catalogue.users)
        self._ages = AgesHeard(ageing, catalogue.users)

    def start(self) -> None:
        """Trains the base model once on the node's rows, unless that has happened."""
        if self.events == 0:
            self.algorithm.on_start(self.pool, OWN, self.nodes, OWN, self.data, self._next_key())
            self._note(PeerEvent(START, -1, -1, b""))

    def push(self) -> Pushed:
        """Handles a timer: chooses receivers by the algorithm and packs the node's model for
        them."""
        sent = self.algorithm.on_timer(self.nodes, OWN, self.data, self._next_key())
        model, number = self.pool[:1].copy(), self.pushes
        if len(carries_noise(self.algorithm, self.nodes, OWN)):
            # of every PeerState
            add_push_noise(self.algorithm, model, self._key, self.nodes.age)  # type: ignore[attr-defined]
        body = pack(model[0])
        self.pushes += 1
        receivers = tuple(int(to) for to in sent.to[0] if to != NOBODY)
        pushed = Pushed(number, receivers, sent.headers, body, digest(body))
        self._note(PeerEvent(PUSH, self.number, number, pushed.digest))
        return pushed

    def receive(self, received: ReceivedModel) -> int:
        """Merges a received model and trains, as the algorithm does. Returns ACCEPTED, or why the
        model was refused (`core.gossip.REFUSALS`, or TOO_OLD), in which case nothing has
        changed."""
        sender, headers = received.sender, received.headers
        age = int(headers.age[0])
        own: int = int(self.nodes.age[0])  # type: ignore[attr-defined]  # of every PeerState
        if self._oldest is not None and age < own - self._oldest:
            return TOO_OLD
        self.pool[1] = received.model
        key = self._next_key()
        oldest = np.array([self._ages.oldest(sender, own)])
        arrivals = Arrivals(self.pool, OWN, OWN, RECEIVED, OWN, headers, key, oldest=oldest)
        refused = int(self.algorithm.on_message(arrivals, self.nodes, self.data)[0])
        self._ages.note(sender, age, refused != TOO_AHEAD)
        if refused == ACCEPTED:
            self._note(PeerEvent(MESSAGE, sender, received.push, received.digest))
        return refused

    def _next_key(self) -> UInt64Array:
        return folded(self._key, np.array([self.events]))

    def _note(self, event: PeerEvent) -> None:
        self.events += 1
        self.fresh.append(event)

    # ---- what a person sees ----------------------------------------------------------------------

    def scores(self) -> Float32Array:
        """Returns the scores of all items for the node's user, float32 [items]."""
        return self.algorithm.score(self.pool, OWN, self.nodes, OWN, self.data)[0]

    def hit_rate(self) -> float | None:
        """Returns HR@20 of the node's weighting set, each row ranked among its own candidates; None
        without such rows.
        """
        sets = self.data.weighing
        m = len(sets.item)
        if not m:
            return None
        scores, nobody = self.scores(), np.zeros(m, np.int64)
        known = np.ones(len(scores), np.bool_)
        place = tie_places(len(scores), self._tie_seed)
        rank, competing = np.empty(m, np.int64), np.empty(m, np.int64)
        ranks_among(scores[None], nobody, sets.item, sets.candidates, known, place, rank, competing)
        return float(hr(Ranking(np.arange(m + 1), rank, competing, nobody), RANKED).mean())

    def known(self) -> list[int]:
        """Returns the numbers of the peers to which the node's algorithm may push next."""
        # of every Peer
        numbers = np.concatenate([self.nodes.view[0], self.nodes.known[0]])  # type: ignore[attr-defined]
        return [int(number) for number in numbers if number != NOBODY]

    # ---- kept, and gone on with ------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Returns copies of all arrays that change during training, by name: the model, event
        counts, and the algorithm's private state."""
        counts: Int64Array = np.array([self.events, self.pushes], np.int64)
        state = {f"node.{name}": array.copy() for name, array in arrays_of(self.nodes).items()}
        return {"model": self.pool[0].copy(), "counts": counts, **state}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Sets the node to the state that `arrays` returned earlier."""
        self.pool[0] = arrays["model"]
        state = [arrays[f"node.{name}"].copy() for name in self.nodes._fields]
        self.nodes = type(self.nodes)(*state)
        self.events, self.pushes = (int(count) for count in arrays["counts"])
        self.fresh = []
