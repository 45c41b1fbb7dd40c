"""Learning without a server: the data of a node, the content of a message, and the state machine
that every gossip algorithm is.

A node does three things: it begins (`on_start`), its timer fires (`on_timer`: push to the peers of
its view), a model arrives (`on_message`: judge, merge, train). None of them opens a socket or reads
a clock, so that one node of a simulation of a million and one device on a network run the same
functions: there, m = 1 and the pool holds two models.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..rows import rows_of
from ..types import Array, Float32Array, Int8Array, Int32Array, Int64Array, UInt64Array
from .declarations import SentArray
from .protocols import Catalogue, Histories, State, some_visits

# In lists of peers: no peer.
NOBODY = np.int32(-1)
# The outcome of a received model.
ACCEPTED, NOT_FINITE, TOO_LARGE, WRONG_LENGTH, TOO_AHEAD = range(5)
# A model that nobody has looked at.
UNSEEN = -1
AHEAD = "more updates than any model can have had"
REFUSALS = ("", "not finite", "too large", "wrong length", AHEAD)


class Weighing(NamedTuple):
    """Weighting sets of n devices (PEPPER, algorithm 2): rows of their user that are not trained
    on, and the candidates that each is ranked among.

    ptr: int64 [n + 1] from 0; device d weighs by item[ptr[d]:ptr[d + 1]], int32, each among
    `candidates` int32 [ptr[n], k] (-1 where it has fewer).
    """

    ptr: Int64Array
    item: Int32Array
    candidates: Int32Array


class DeviceData(NamedTuple):
    """Private data of n devices: the rows they train on, and their weighting sets."""

    histories: Histories
    weighing: Weighing


def data_of(data: DeviceData, who: Int64Array) -> DeviceData:
    """Returns the data of some devices, in the order of `who`: int64 [m], places in `data`."""
    own, sets = data.histories, data.weighing
    ptr, rows = rows_of(own.ptr, who)
    avoid_ptr, avoided = rows_of(own.avoid_ptr, who)
    histories = own._replace(
        ptr=ptr,
        item=own.item[rows],
        value=own.value[rows],
        avoid_ptr=avoid_ptr,
        avoid=own.avoid[avoided],
        time=None if own.time is None else own.time[rows],
        row=None if own.row is None else own.row[rows],
        visits=some_visits(own.visits, rows),
    )
    sets_ptr, weighed = rows_of(sets.ptr, who)
    return DeviceData(histories, Weighing(sets_ptr, sets.item[weighed], sets.candidates[weighed]))


class Headers(NamedTuple):
    """Headers of m messages, which travel with the models."""

    sender: Int64Array
    """int64 [m]."""
    age: Int64Array
    """int64 [m], updates that the model has had."""
    samples: Int64Array
    """int64 [m], rows that its sender trains on."""
    peers: Int32Array
    """int32 [m, k], nodes that its sender knows, NOBODY where fewer."""
    length: Int64Array
    """int64 [m], numbers in the model."""

    def at(self, rows: Array) -> Headers:
        """Headers of some of the models; rows: places or a mask."""
        return Headers(
            self.sender[rows],
            self.age[rows],
            self.samples[rows],
            self.peers[rows],
            self.length[rows],
        )


class Pushes(NamedTuple):
    """Messages that m nodes send when their timers fire: each its model, with its header, to the
    nodes `to`, int32 [m, view], NOBODY where fewer."""

    to: Int32Array
    headers: Headers


class Arrivals(NamedTuple):
    """Models that arrive, one for each of m different nodes. Node who[d] has the model
    pool[own[d]], received pool[received[d]] and writes its new one to pool[into[d]], which is
    own[d] unless somebody else still needs that.

    pool: float32 [slots, width]; who, own, received, into: int64 [m]. `who` indexes nodes and data.
    keys: uint64 [m], from which each draws, another one for each event of a node. numbers: int8
    [slots], for the numbers of each model in the pool ACCEPTED, why not, or UNSEEN: a simulation
    looks once at a model that was pushed to several nodes. None: nobody has looked. oldest: int64
    [m], updates that a received model can have had by now, at most. None: who runs the node does
    not know."""

    pool: Float32Array
    who: Int64Array
    own: Int64Array
    received: Int64Array
    into: Int64Array
    headers: Headers
    keys: UInt64Array
    numbers: Int8Array | None = None
    oldest: Int64Array | None = None

    def at(self, rows: Array) -> Arrivals:
        """Some of the arrivals; rows: places or a mask."""
        slots = self.who[rows], self.own[rows], self.received[rows], self.into[rows]
        oldest = None if self.oldest is None else self.oldest[rows]
        return Arrivals(
            self.pool, *slots, self.headers.at(rows), self.keys[rows], self.numbers, oldest
        )


@runtime_checkable
class GossipAlgorithm(Protocol):
    """Learning between peers, without a server. A model is one float32 row [width], which is what
    peers exchange; everything else of a node is private, in a NamedTuple of arrays whose leading
    axis is nodes. Functions overwrite the rows `who` of `nodes` and the given rows of the pool, and
    nothing else; so nodes that differ may run at once.
    """

    keeps: ClassVar[type]
    sends: ClassVar[tuple[SentArray, ...]]

    def configured(
        self, catalogue: Catalogue
    ) -> Any: ...  # the same settings, made concrete for this federation
    def default_rounds(self, catalogue: Catalogue) -> int: ...
    def weighing(
        self, data: DeviceData, keys: UInt64Array
    ) -> DeviceData: ...  # each device's weighting set, of its own rows if it has none
    def init_model(
        self, catalogue: Catalogue, key: np.uint64
    ) -> Float32Array: ...  # [width], the same for all: from the bootstrap service
    def init_nodes(
        self, users: Int64Array, peers: Int32Array, width: int, key: np.uint64
    ) -> State: ...  # peers: int32 [m, k], whom each knows first
    def on_start(
        self,
        pool: Float32Array,
        at: Int64Array,
        nodes: State,
        who: Int64Array,
        data: DeviceData,
        keys: UInt64Array,
    ) -> None: ...
    def on_timer(
        self, nodes: State, who: Int64Array, data: DeviceData, keys: UInt64Array
    ) -> Pushes: ...
    def on_message(
        self, arrivals: Arrivals, nodes: State, data: DeviceData
    ) -> Int8Array: ...  # [m], ACCEPTED or why not
    def score(
        self, pool: Float32Array, at: Int64Array, nodes: State, who: Int64Array, data: DeviceData
    ) -> Float32Array: ...
