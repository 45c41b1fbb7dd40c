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

from ..lanes.memory import rows_of
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
    on. Device d judges models by the ranks of item[ptr[d]:ptr[d + 1]].
    """

    ptr: Int64Array
    """int64 [n + 1] from 0."""
    item: Int32Array
    """int32 [ptr[n]]."""
    candidates: Int32Array
    """int32 [ptr[n], k], the items that each item is ranked among; -1 where it has fewer."""


class DeviceData(NamedTuple):
    """Private data of n devices."""

    histories: Histories
    """The rows that they train on."""
    weighing: Weighing
    """Rows by which they judge models."""


def data_of(data: DeviceData, who: Int64Array) -> DeviceData:
    """Returns the data of some devices, in the order of `who`: int64 [m], places in `data`."""
    old = data.histories
    ptr, rows = rows_of(old.ptr, who)
    avoid_ptr, avoided = rows_of(old.avoid_ptr, who)
    histories = old._replace(
        ptr=ptr,
        item=old.item[rows],
        value=old.value[rows],
        avoid_ptr=avoid_ptr,
        avoid=old.avoid[avoided],
        time=None if old.time is None else old.time[rows],
        row=None if old.row is None else old.row[rows],
        visits=some_visits(old.visits, rows),
    )
    sets = data.weighing
    sets_ptr, weighed = rows_of(sets.ptr, who)
    weighing = Weighing(sets_ptr, sets.item[weighed], sets.candidates[weighed])
    return DeviceData(histories, weighing)


class Headers(NamedTuple):
    """Headers of m messages, which travel with the models."""

    sender: Int64Array
    """int64 [m]."""
    age: Int64Array
    """int64 [m], the number of updates that the model has had."""
    samples: Int64Array
    """int64 [m], the number of rows that its sender trains on."""
    peers: Int32Array
    """int32 [m, k], nodes that its sender knows; NOBODY where it knows fewer."""
    length: Int64Array
    """int64 [m], how many numbers the model has."""

    def at(self, rows: Array) -> Headers:
        """Returns the headers of some of the models. rows: places or a mask."""
        return Headers(
            self.sender[rows],
            self.age[rows],
            self.samples[rows],
            self.peers[rows],
            self.length[rows],
        )


class Pushes(NamedTuple):
    """Messages that m nodes send when their timers fire: each its model, with its header."""

    to: Int32Array
    """int32 [m, view], the nodes that each sends to; NOBODY where they are fewer."""
    headers: Headers


class Arrivals(NamedTuple):
    """Models that arrive, one for each of m different nodes.

    Node who[d] has the model pool[own[d]] and receives pool[received[d]]. It writes its new model
    to pool[into[d]], which is own[d] unless somebody else still needs that.
    """

    pool: Float32Array
    """float32 [slots, width]."""
    who: Int64Array
    """int64 [m], places in the state of the nodes and in their data."""
    own: Int64Array
    """int64 [m]."""
    received: Int64Array
    """int64 [m]."""
    into: Int64Array
    """int64 [m]."""
    headers: Headers
    keys: UInt64Array
    """uint64 [m], the key from which each node draws, another one for each event of a node."""
    numbers: Int8Array | None = None
    """int8 [slots], for each model in the pool ACCEPTED, the reason why its numbers are refused, or
    UNSEEN: a simulation looks once at a model that was pushed to several nodes. None: nobody has
    looked.
    """
    oldest: Int64Array | None = None
    """int64 [m], the most updates that each received model can have had by now. None: not known to
    the program that runs the node.
    """

    def at(self, rows: Array) -> Arrivals:
        """Returns some of the arrivals. rows: places or a mask."""
        return self._replace(
            who=self.who[rows],
            own=self.own[rows],
            received=self.received[rows],
            into=self.into[rows],
            headers=self.headers.at(rows),
            keys=self.keys[rows],
            oldest=None if self.oldest is None else self.oldest[rows],
        )


@runtime_checkable
class GossipAlgorithm(Protocol):
    """Learning between peers, without a server. A model is one float32 row [width], which is what
    peers exchange; everything else of a node is private, in a NamedTuple of arrays whose leading
    axis is nodes. Functions overwrite the rows `who` of `nodes` and the given rows of the pool, and
    nothing else; so different nodes may run at once.
    """

    keeps: ClassVar[type]
    sends: ClassVar[tuple[SentArray, ...]]

    def configured(self, catalogue: Catalogue) -> Any:
        """Returns the same settings, made concrete for this federation."""

    def default_rounds(self, catalogue: Catalogue) -> int: ...
    def weighing(self, data: DeviceData, keys: UInt64Array) -> DeviceData:
        """Returns the data with a weighting set for each device, by default its training rows."""
        ...

    def init_model(self, catalogue: Catalogue, key: np.uint64) -> Float32Array:
        """Returns the first model, float32 [width], the same for all: it comes from the bootstrap
        service.
        """
        ...

    def init_nodes(self, users: Int64Array, peers: Int32Array, width: int, key: np.uint64) -> State:
        """Returns the private state of new nodes. peers: int32 [m, k], whom each knows first."""

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
    def on_message(self, arrivals: Arrivals, nodes: State, data: DeviceData) -> Int8Array:
        """Judges, merges and trains. Returns ACCEPTED, or why not, for each arrival, int8 [m]."""
        ...

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: State, who: Int64Array, data: DeviceData
    ) -> Float32Array: ...
