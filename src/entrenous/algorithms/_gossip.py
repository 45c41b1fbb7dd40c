"""What every gossip algorithm does: know some peers, push to those of a view, and judge, merge and train when a model arrives.

A node begins with the base model, which the bootstrap service hands to all, trained once on its own rows. What differs is how much of a
received model a node takes (`share`), whom it pushes to (`view_of`), and which model it is (the classes of _gossip_gmf.py and
_gossip_prme.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr

from ..core.gossip import ACCEPTED, NOBODY, Arrivals, DeviceData, Letters, Pushes, Weighing
from ..core.keys import folded
from ..core.protocols import Catalogue, Disclosed, State
from ..core.settings import Settings
from ..core.types import BoolArray, Float32Array, Int8Array, Int32Array, Int64Array, UInt64Array
from ..kernels import mixing, peers

HEADER = 24  # bytes of a letter beside the peers it names: sender, age, samples
TRAIN, EXCHANGE, VIEW = (np.uint64(number) for number in (1, 2, 3))  # what the draws of one event are for


class Peer(NamedTuple):
    """The part of a node's private state that every gossip algorithm has.

    me: int64 [n], by what name others know it; age: int64 [n], updates its model has had; pushes: int64 [n], made; known: int32 [n, k],
    whom it knows; view: int32 [n, view], whom it pushes to; heard: int32 [n, l] and performance: float32 [n, l], from whom it has
    received a model, and how well that did (PEPPER's L_N).
    """

    me: Int64Array
    age: Int64Array
    pushes: Int64Array
    known: Int32Array
    view: Int32Array
    heard: Int32Array
    performance: Float32Array


def disclosed(model: str, reveals: str) -> tuple[Disclosed, ...]:
    """What leaves a node with each push."""
    always = "each push, to the peers of the view"
    return (
        Disclosed("model", model, always, reveals),
        Disclosed("age", "int64", always, "how many updates the model has had"),
        Disclosed("samples", "int64", always, "how many rows the node trains on"),
        Disclosed("peers", "[k] int32", always, "some of the nodes it knows, and so with whom it has been in touch"),
    )


class GossipSettings(Settings):
    """How nodes push, whom they know, and what they refuse."""

    view: int = Field(3, ge=1, le=100, description="peers that a node pushes to each time")
    redraw: int = Field(10, ge=1, description="pushes after which a node draws a new view")
    carried: int = Field(5, ge=1, le=100, description="peers that a message names, of those its sender knows")
    largest: float = Field(
        100.0, gt=0, le=1e6, description="a received model with a number beyond this, or none at all, is refused"
    )

    usual_protocols: ClassVar[tuple[str, ...]] = ("pepper-given", "pepper-85-15")  # the first that the data can have
    weighs: ClassVar[bool] = False  # whether nodes need a weighting set
    _items: int = PrivateAttr(0)

    def configured(self, catalogue: Catalogue) -> Any:
        """The same settings for a catalogue and a number of nodes."""
        own = self.model_copy(update={"view": min(self.view, max(1, catalogue.users - 1))})
        own._items = catalogue.items
        return own

    def default_rounds(self, catalogue: Catalogue) -> int:
        """`rounds`, whatever the data."""
        return self.rounds  # type: ignore[attr-defined, no-any-return]  # each model has its own

    def weighing(self, data: DeviceData, keys: UInt64Array) -> DeviceData:
        """As it is: only PEPPER holds rows back to weigh by."""
        return data

    def first_peer(self, users: Int64Array, known: Int32Array) -> Peer:
        """Who has received nothing yet."""
        m, heard = len(users), 2 * self.view * self.redraw if self.weighs else 1
        return Peer(
            users.astype(np.int64),
            np.zeros(m, np.int64), np.zeros(m, np.int64), known, np.full((m, self.view), NOBODY, np.int32),
            np.full((m, heard), NOBODY, np.int32), np.zeros((m, heard), np.float32),
        )  # fmt: skip

    def on_start(
        self, pool: Float32Array, at: Int64Array, nodes: State, who: Int64Array, data: DeviceData, keys: UInt64Array
    ) -> None:
        """Trains the base model once, before any message."""
        self.train(pool, at, nodes, who, data, _for(keys, TRAIN))
        nodes.age[who] += 1

    def on_timer(self, nodes: State, who: Int64Array, data: DeviceData, keys: UInt64Array) -> Pushes:
        """Each node's push, and every `redraw` pushes a new view before it."""
        due = nodes.pushes[who] % self.redraw == 0
        nodes.view[who[due]] = self.view_of(nodes, who[due], _for(keys[due], VIEW))
        nodes.pushes[who] += 1
        samples, width = np.diff(data.histories.ptr)[who], self.width
        named = peers.sample(nodes.known, who, min(self.carried, nodes.known.shape[1]), _for(keys, EXCHANGE))
        return Pushes(nodes.view[who], Letters(nodes.me[who], nodes.age[who], samples, named, np.full(len(who), width)))

    def on_message(self, arrivals: Arrivals, nodes: State, data: DeviceData) -> Int8Array:
        """Refuses, or merges and trains; and takes note of the peers the letter names."""
        refused = mixing.refusals(arrivals.pool, arrivals.received, arrivals.letters.length, self.largest)
        a = arrivals.at(refused == ACCEPTED)
        share, trains = self.share(a, nodes, data)
        mixing.merge(a.pool, a.own, a.received, a.into, share)
        nodes.age[a.who] = np.maximum(nodes.age[a.who], a.letters.age) + trains
        self.train(a.pool, a.into[trains], nodes, a.who[trains], data, _for(a.keys[trains], TRAIN))
        peers.exchange(nodes.known, a.who, nodes.me[a.who], a.letters.sender, a.letters.peers, _for(a.keys, EXCHANGE))
        return refused

    # ---- what an algorithm decides --------------------------------------------------------------------------------------------------

    def share(self, a: Arrivals, nodes: State, data: DeviceData) -> tuple[Float32Array, BoolArray]:
        """How much of each received model is taken, float32 [m] in 0..1, and whether the node trains afterwards, bool [m]."""
        raise NotImplementedError

    def view_of(self, nodes: State, who: Int64Array, keys: UInt64Array) -> Int32Array:
        """New views: random peer sampling."""
        return peers.views(nodes.known, nodes.heard, nodes.performance, who, 0, self.view, keys)

    # ---- what a model decides -------------------------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Numbers in a model."""
        raise NotImplementedError

    def message_bytes(self, catalogue: Catalogue) -> int:
        """The model and its letter."""
        return 4 * self.width + HEADER + 4 * self.carried

    def train(
        self, pool: Float32Array, at: Int64Array, nodes: State, who: Int64Array, data: DeviceData, keys: UInt64Array
    ) -> None:
        """Trains the models pool[at] on the rows of the nodes `who`."""
        raise NotImplementedError

    def score(self, pool: Float32Array, at: Int64Array, nodes: State, who: Int64Array, data: DeviceData) -> Float32Array:
        """Scores of all items for the users of nodes `who` by the models pool[at], float32 [m, items]."""
        raise NotImplementedError


def _for(keys: UInt64Array, purpose: np.uint64) -> UInt64Array:
    return folded(keys, np.full(len(keys), purpose))


def data_of(data: DeviceData, who: Int64Array) -> DeviceData:
    """The data of some nodes alone, in the order of `who`."""
    own, sets = data.histories, data.weighing
    rows, avoided, weighed = (_gathered(ptr, who) for ptr in (own.ptr, own.avoid_ptr, sets.ptr))
    time, row = (None if column is None else column[rows[1]] for column in (own.time, own.row))
    histories = own._replace(
        ptr=rows[0], item=own.item[rows[1]], value=own.value[rows[1]], avoid_ptr=avoided[0], avoid=own.avoid[avoided[1]],
        time=time, row=row,
    )  # fmt: skip
    return DeviceData(histories, Weighing(weighed[0], sets.item[weighed[1]], sets.candidates[weighed[1]]))


def _gathered(ptr: Int64Array, who: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Where the rows of some nodes begin once they are side by side, and which rows these are."""
    counts = np.diff(ptr)[who]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return starts, np.repeat(ptr[who] - starts[:-1], counts) + np.arange(starts[-1])
