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

from ..types import Array, Float32Array, Int8Array, Int32Array, Int64Array, UInt64Array
from ..visits import some_visits
from .declarations import SentArray
from .protocols import Catalogue, Histories, State

NOBODY = np.int32(-1)  # in lists of peers: no peer
# what became of a received model
ACCEPTED, NOT_FINITE, TOO_LARGE, WRONG_LENGTH, TOO_AHEAD = range(5)
UNSEEN = -1  # a model that nobody has looked at
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
    """The data of some devices alone, in the order of `who`: int64 [m], places in `data`."""
    own, sets = data.histories, data.weighing
    rows, avoided, weighed = (_gathered(ptr, who) for ptr in (own.ptr, own.avoid_ptr, sets.ptr))
    time, row = (None if column is None else column[rows[1]] for column in (own.time, own.row))
    histories = own._replace(
        ptr=rows[0],
        item=own.item[rows[1]],
        value=own.value[rows[1]],
        avoid_ptr=avoided[0],
        avoid=own.avoid[avoided[1]],
        time=time,
        row=row,
        visits=some_visits(own.visits, rows[1]),
    )
    return DeviceData(
        histories, Weighing(weighed[0], sets.item[weighed[1]], sets.candidates[weighed[1]])
    )


def _gathered(ptr: Int64Array, who: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Where the rows of some devices begin once they are side by side, and which rows these are."""
    counts = np.diff(ptr)[who]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return starts, np.repeat(ptr[who] - starts[:-1], counts) + np.arange(starts[-1])


class Headers(NamedTuple):
    """Headers of m messages, which travel beside the models. sender: int64 [m]; age: int64 [m],
    updates the model has had; samples: int64 [m], rows that its sender trains on; peers: int32 [m,
    k], nodes its sender knows, NOBODY where fewer; length: int64 [m], numbers in the model."""

    sender: Int64Array
    age: Int64Array
    samples: Int64Array
    peers: Int32Array
    length: Int64Array

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
