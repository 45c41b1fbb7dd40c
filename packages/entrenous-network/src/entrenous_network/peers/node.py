"""`PeerNode`: one node of a gossip algorithm, alone on its device, with the functions and keys of
federation/gossip.py. `AgesHeard`: a judgement of the ages that senders claim for their models.

A node has a pool of two models, its own and a received one, and nothing else of other peers. It
opens no socket and reads no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, final

import numpy as np

from entrenous.core.contract.gossip import (
    ACCEPTED,
    NOBODY,
    TOO_AHEAD,
    Arrivals,
    DeviceData,
    Headers,
)
from entrenous.core.contract.protocols import State, arrays_of
from entrenous.core.keys import folded
from entrenous.core.types import Array, Float32Array, Int64Array, UInt64Array
from entrenous.evaluation.metric_kinds import Ranking
from entrenous.evaluation.metrics.defined import hr
from entrenous.evaluation.recommend import tie_places
from entrenous.federation.gossip import (
    base_model,
    carries_noise,
    first_known,
    first_nodes,
    node_keys,
    weighting_keys,
)
from entrenous.kernels.arrays import ranks_among
from entrenous.privacy.push_noise import add_push_noise
from entrenous.systems.gossip_node import OLDEST, most_ageing

from ..agreement.terms import FederationTerms
from ..wire.pushed import digest, pack
from .events import MESSAGE, PUSH, START, PeerEvent

TOO_OLD = -1  # a received model is further behind the own one than the terms allow
RANKED = 20  # n of the HR@n by which a person sees how a node does
# Places in the pool of two models. The node is also place 0 of the one node here.
OWN = np.zeros(1, np.int64)
RECEIVED = np.ones(1, np.int64)
SENDERS = 256  # senders whose newest claims of an age are kept in mind
# Periods by which a model may be ahead of the oldest model that others have claimed: claims and
# the model itself were under way.
PERIODS = 2
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
    """The number of its sender."""
    push: int
    """The number of the push at its sender."""
    headers: Headers
    """The header of this one model."""
    model: Float32Array
    """The model, float32 [width]."""
    digest: bytes
    """The SHA-256 of the body in which it came."""


@final
class AgesHeard:
    """The newest age that each sender claimed for its model. The age of a model is the number of
    its updates.

    A peer cannot know when its federation began, nor how long it was away itself, and no sender can
    prove an age. But models mix, so all models of a network are of about the same age. A peer
    therefore believes a sender up to the age that another sender has claimed, or that its own model
    has, and two periods more. One sender alone does not move that limit, whatever it claims and
    however often; a peer that is new, or was away, soon hears a second sender. Claims are not kept
    on the disk.

    ageing: the most updates that the oldest model gains in a period. peers: their number in the
    federation.
    """

    def __init__(self, ageing: int, peers: int) -> None:
        self._ahead = PERIODS * ageing
        self._peers = peers
        self._claims: OrderedDict[int, int] = OrderedDict()  # by sender, the newest last
        self._refused = 0

    def oldest(self, sender: int, own: int) -> int:
        """Returns the most updates that a model of `sender` may claim, where the peer's own has had
        `own`."""
        # A peer of two has one other, whom nobody can confirm. A peer that was away for long, and
        # whom only one sender reaches, would never catch up otherwise.
        has_no_second = self._peers == 2
        if has_no_second or self._refused >= ALONE:
            return OLDEST
        confirmed = own
        for number, age in self._claims.items():
            if number != sender:
                confirmed = max(confirmed, age)
        return min(confirmed + self._ahead, OLDEST)

    def note(self, sender: int, age: int, believed: bool) -> None:
        """Keeps in mind the age that a sender claimed, and whether it was believed."""
        # Popped first, so that the newest claims come last.
        self._claims.pop(sender, None)
        self._claims[sender] = age
        if len(self._claims) > SENDERS:
            self._claims.popitem(last=False)
        self._refused = 0 if believed else self._refused + 1


@final
class PeerNode:
    """One node of a gossip algorithm, with its own data, before its first event. Must not be called
    from two threads at once.

    number: of the peer. rows: those of its user, leading axis 1. seed: the number that its draws
    follow from."""

    def __init__(self, terms: FederationTerms, number: int, rows: DeviceData, seed: int) -> None:
        self.algorithm = terms.gossip
        self._oldest = terms.oldest
        self.number = number
        self.seed = seed
        me = np.array([number])
        catalogue = terms.catalogue
        self._key: UInt64Array = node_keys(seed, me)
        # The base model is the same at all peers, so it follows from the federation's seed.
        base = base_model(self.algorithm, catalogue, terms.seed)
        known = first_known(me, catalogue.users, self._key, OWN)
        self.data = self.algorithm.weighing(rows, weighting_keys(seed, me))
        self.nodes: State = first_nodes(self.algorithm, me, known, len(base), terms.seed)
        self.pool: Float32Array = np.stack([base, base])
        # Equal scores stand in one order at all peers, as in a simulation.
        self._tie_seed = terms.seed
        self.events = self.pushes = 0
        self.fresh: list[PeerEvent] = []  # events since the state was last saved
        ageing = most_ageing(self.algorithm.view, self.algorithm.exploited, catalogue.users)
        self._ages = AgesHeard(ageing, catalogue.users)

    def start(self) -> None:
        """Trains the base model once on the node's rows, unless that has happened."""
        if self.events:
            return
        self.algorithm.on_start(self.pool, OWN, self.nodes, OWN, self.data, self._next_key())
        self._note(PeerEvent(START, -1, -1, b""))

    def push(self) -> Pushed:
        """Handles the timer: the algorithm chooses receivers, and the node's model is packed for
        them."""
        sent = self.algorithm.on_timer(self.nodes, OWN, self.data, self._next_key())
        # Noise goes on what leaves, and stays out of the model itself.
        model = self.pool[:1].copy()
        if len(carries_noise(self.algorithm, self.nodes, OWN)):
            ages = self.nodes.age  # type: ignore[attr-defined]  # of every PeerState
            add_push_noise(self.algorithm, model, self._key, ages)
        body = pack(model[0])
        receivers = tuple(int(to) for to in sent.to[0] if to != NOBODY)
        pushed = Pushed(self.pushes, receivers, sent.headers, body, digest(body))
        self.pushes += 1
        self._note(PeerEvent(PUSH, self.number, pushed.number, pushed.digest))
        return pushed

    def receive(self, received: ReceivedModel) -> int:
        """Merges a received model and trains, as the algorithm says. Returns ACCEPTED, or the
        reason of a refusal (`core.gossip.REFUSALS` or TOO_OLD), after which nothing has changed."""
        sender = received.sender
        age = int(received.headers.age[0])
        own: int = int(self.nodes.age[0])  # type: ignore[attr-defined]  # of every PeerState
        if self._oldest is not None and age < own - self._oldest:
            return TOO_OLD
        refused = self.merge(received, self._ages.oldest(sender, own))
        # Noted after the judgement: no claim may confirm itself.
        self._ages.note(sender, age, refused != TOO_AHEAD)
        return refused

    def merge(self, received: ReceivedModel, oldest: int = OLDEST) -> int:
        """Merges a received model of at most so many updates, and trains. Returns as `receive`
        does."""
        self.pool[1] = received.model
        headers = received.headers
        key = self._next_key()
        most = np.array([oldest])
        arrivals = Arrivals(self.pool, OWN, OWN, RECEIVED, OWN, headers, key, oldest=most)
        refused = int(self.algorithm.on_message(arrivals, self.nodes, self.data)[0])
        if refused == ACCEPTED:
            self._note(PeerEvent(MESSAGE, received.sender, received.push, received.digest))
        return refused

    def _next_key(self) -> UInt64Array:
        # By the number of the event, so that a replay of the events draws the same.
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
        scores = self.scores()
        user = np.zeros(m, np.int64)  # of each row: the one user
        known = np.ones(len(scores), np.bool_)
        place = tie_places(len(scores), self._tie_seed)
        rank = np.empty(m, np.int64)
        competing = np.empty(m, np.int64)
        ranks_among(scores[None], user, sets.item, sets.candidates, known, place, rank, competing)
        # Each row is a ranking of its own, as in leave-one-out.
        ranking = Ranking(np.arange(m + 1), rank, competing, user)
        return float(hr(ranking, RANKED).mean())

    def known(self) -> list[int]:
        """Returns the numbers of the peers to which the node's algorithm may push next."""
        # of every Peer
        numbers = np.concatenate([self.nodes.view[0], self.nodes.known[0]])  # type: ignore[attr-defined]
        return [int(number) for number in numbers if number != NOBODY]

    # ---- kept, and gone on with ------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Returns copies of all arrays that change during training, by name: the model, the counts
        of events and pushes, and the algorithm's private state."""
        counts: Int64Array = np.array([self.events, self.pushes], np.int64)
        arrays: dict[str, Array] = {"model": self.pool[0].copy(), "counts": counts}
        for name, array in arrays_of(self.nodes).items():
            arrays[f"node.{name}"] = array.copy()
        return arrays

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Sets the node to the state that `arrays` returned earlier."""
        self.pool[0] = arrays["model"]
        # Copied, since arrays that were read from a file cannot be written to.
        state = [arrays[f"node.{name}"].copy() for name in self.nodes._fields]
        self.nodes = type(self.nodes)(*state)
        self.events, self.pushes = (int(count) for count in arrays["counts"])
        self.fresh = []
