"""The two parts of a gossip algorithm, a policy and a model, and a node's state and behaviour that
depend on neither.

A *policy* decides to whom a node pushes and how much of a received model it takes (`GossipPolicy`).
A *model* can be begun, trained, judged and scored with (`GossipModel`).
systems/gossip_learning.py composes an algorithm of one of each.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, get_type_hints

import numpy as np
from pydantic import PrivateAttr

from ..core.contract.declarations import UpTo, axes
from ..core.contract.gossip import (
    Arrivals,
    DeviceData,
    Headers,
)
from ..core.contract.protocols import State
from ..core.contract.settings import Settings
from ..core.keys import folded
from ..core.types import (
    Array,
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from ..kernels import peer_sampling
from ..kernels.merging import merge

# Names the draws of one event that training makes.
TRAIN = np.uint64(1)
# Updates that a model may say that it has had: ages stop there, and so always fit into a message.
OLDEST = (1 << 31) - 1
# Updates that a received model may be ahead of the node's own, unless a setting says fewer.
LEAP = 1 << 16
# Merges in one period on the longest chain, for each place of a view (`most_ageing`).
CHAIN = 5
# Periods by which timers may be early, as those of a network that has just begun are.
EARLY = 2
Part = TypeVar("Part", bound=tuple[Any, ...])


# ---- private state -------------------------------------------------------------------------------


class PeerState(NamedTuple):
    """The part of a node's private state that every gossip algorithm has; the leading axis of each
    array is nodes.
    """

    me: Annotated[Int64Array, axes(below="users")]
    """The number by which others know the node."""
    age: Annotated[Int64Array, axes(least=0)]
    """Updates that its model has had."""
    pushes: Annotated[Int64Array, axes(least=0)]
    """Pushes that it has made."""
    known: Annotated[Int32Array, axes(UpTo("known", "users"), below="users", least=-1)]
    """Nodes that it knows."""
    view: Annotated[Int32Array, axes("view", below="users", least=-1)]
    """Nodes that it pushes to."""
    heard: Annotated[Int32Array, axes("remembered", below="users", least=-1)]
    """Nodes from which it has received a model."""
    performance: Annotated[Float32Array, axes("remembered")]
    """How well the models of `heard` did (PEPPER's L_N)."""


def joined(name: str, *parts: type) -> type:
    """Returns the NamedTuple class with the fields of several, in order: the private state of a
    node, of its model's part and its own.

    `joined_class(*part_1, *part_2)` joins two states, `part_of(state, part_class)` takes one part
    out again; arrays are never copied. Raises ValueError for a field that two parts have.
    """
    fields: dict[str, Any] = {}
    for part in parts:
        hints = get_type_hints(part, include_extras=True)
        twice = fields.keys() & hints.keys()
        if twice:
            raise ValueError(f"{name}: two parts of the private state have '{min(twice)}'")
        fields.update(hints)
    # its fields are known when it runs
    return NamedTuple(name, list(fields.items()))  # type: ignore[misc, return-value]


def part_of(state: State, part: type[Part]) -> Part:
    """Returns the fields of `part`, a NamedTuple class, of a state that has them among others."""
    return part(*[getattr(state, field) for field in part._fields])  # type: ignore[attr-defined]


# ---- the two parts of an algorithm ---------------------------------------------------------------


class GossipModel(Settings):
    """A model that nodes learn, exchange and score with: its settings, and functions over a pool of
    models.

    A model is one row of `pool`, float32 [width]. A function works on m nodes: `who` has their
    rows in the private state `nodes`, and `at` the rows of their models in the pool, int64 [m].
    `nodes` has the fields of `private` and others. The function overwrites these rows of the pool
    and of the private state, and nothing else.
    """

    private: ClassVar[type]
    """NamedTuple class of its private state, annotated with `axes`."""
    reveals: ClassVar[str]
    """What a pushed model tells its receiver."""
    layout: ClassVar[str]
    """Shape and type of a model, for people."""

    _items: int = PrivateAttr(0)

    @property
    def items(self) -> int:
        """Number of items of the catalogue; 0 before `over` has set it."""
        return self._items

    def over(self, items: int) -> Self:
        """Returns a copy of the settings for a catalogue of so many items."""
        copy = self.model_copy()
        copy._items = items
        return copy

    @property
    def width(self) -> int:
        """Numbers in a model, the length of its row."""
        raise NotImplementedError

    def item_vectors(self, models: Float32Array) -> Float32Array:
        """Returns a view of models, float32 [m, width], as a vector for each item, [m, items or
        more, numbers of an item].
        """
        raise NotImplementedError

    def sizes(self) -> dict[str, int]:
        """Sizes of the model's private arrays that are no setting."""
        return {}

    def search_space(self) -> dict[str, str]:
        """Returns the ranges of a search that is given none; {} = it needs some."""
        return {}

    def init_model(self, key: np.uint64) -> Float32Array:
        """The base model, float32 [width], with which every node begins."""
        raise NotImplementedError

    def init_private(self, users: Int64Array, key: np.uint64) -> State:
        """The model's part of the initial private state of the nodes of `users`, int64 [m]."""
        raise NotImplementedError

    def train(
        self,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
        keys: UInt64Array,
    ) -> None:
        """Trains models on the rows of their nodes; keys: uint64 [m], for the draws of each."""
        raise NotImplementedError

    def judged(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> tuple[Float64Array, ...]:
        """Measures of how well models rank the weighting sets of nodes, each float64 [m]."""
        raise NotImplementedError

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> Float32Array:
        """Scores of all items for the users of nodes, float32 [m, items]; higher is better."""
        raise NotImplementedError


class GossipPolicy(Settings):
    """A policy of gossip: to whom a node pushes, and how much it takes of a model that it receives.
    This base pushes at random, and takes nothing yet."""

    holds_out_own: ClassVar[bool] = False
    """Nodes hold rows back, to judge received models by."""
    private: ClassVar[tuple[type, ...]] = ()
    """The NamedTuple class of its private state, annotated with `axes`, if it has any."""

    def init_private(self, nodes: int) -> tuple[Array, ...]:
        """Returns the policy's part of the initial private state of so many nodes."""
        return ()

    def weighting_sets(self, data: DeviceData, items: int, keys: UInt64Array) -> DeviceData:
        """Returns the data with a weighting set for each node that needs one; keys: uint64 [n]."""
        return data

    def remembered(self, view: int, redraw: int) -> int:
        """Returns the number of senders whose models' performances a node remembers."""
        return 1

    def exploited(self, view: int) -> int:
        """Returns the number of places of a view that go to chosen nodes, not to drawn ones."""
        return 0

    def update_view(self, nodes: Any, who: Int64Array, view: int, keys: UInt64Array) -> Int32Array:
        """Returns new views of the nodes `who`, int32 [m, view]: the peers of their next pushes."""
        return peer_sampling.random_views(nodes.known, who, view, keys)

    def on_model_received(
        self, model: GossipModel, a: Arrivals, nodes: Any, data: DeviceData
    ) -> None:
        """Updates m nodes by the models that they receive, none of which was refused; mostly by
        `merge_and_train`.
        """
        raise NotImplementedError

    def score(
        self,
        model: GossipModel,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
    ) -> Float32Array:
        """Returns the scores by which nodes recommend, float32 [m, items]: those of their models as
        they are.
        """
        return model.score(pool, at, nodes, who, data)


def merge_and_train(
    model: GossipModel,
    a: Arrivals,
    nodes: Any,
    data: DeviceData,
    share: Float32Array,
    trains: BoolArray | None = None,
) -> None:
    """Moves each node's model by `share` towards the received one, float32 [m] in 0..1, and trains
    it on the node's rows, unless `trains`, bool [m], says not to. The merged model is as old as the
    older of both, and one update older once it is trained, up to OLDEST.
    """
    merge(a.pool, a.own, a.received, a.into, share)
    training = np.ones(len(a.who), np.bool_) if trains is None else trains
    grow_older(a, nodes, training)
    keys = keys_for(a.keys[training], TRAIN)
    model.train(a.pool, a.into[training], nodes, a.who[training], data, keys)


def grow_older(a: Arrivals, nodes: Any, trained: BoolArray) -> None:
    """Makes each merged model as old as the older of both, and one update older where it was
    `trained`, bool [m], up to OLDEST.
    """
    nodes.age[a.who] = np.minimum(np.maximum(nodes.age[a.who], a.headers.age) + trained, OLDEST)


def keys_for(keys: UInt64Array, purpose: np.uint64) -> UInt64Array:
    """Returns the keys for one purpose of the events that `keys` belong to, uint64 [m]. Each
    purpose has other keys.
    """
    return folded(keys, np.full(len(keys), purpose, np.int64))


def credible(headers: Headers, age: Int64Array, items: int, leap: int = LEAP) -> Headers:
    """Returns headers of received models as far as a node believes them. age: int64 [m], of each
    node's own model; items: of the catalogue.

    A model that claims to be more than `leap` updates ahead counts as old as the node's own, and a
    sender has no more rows than items: what one message claims neither decides a merge nor stays in
    the network.
    """
    believed = np.where((headers.age >= 0) & (headers.age <= age + leap), headers.age, age)
    return headers._replace(age=believed, samples=np.clip(headers.samples, 0, items))


# ---- how old a model can be ----------------------------------------------------------------------


def most_ageing(view: int, exploited: int, nodes: int) -> int:
    """Returns how many updates the oldest model of a network of so many nodes gains in a period, at
    most.

    A merged model is one update older than the older of both, so ages grow along the longest chain
    of merges. Where all push to `view` nodes at random, a chain grows by 4.311 view a period: the
    constant of the height of a random search tree (Devroye 1986), since each merge, too, has two
    that it follows from. It is rounded up. Places of a view that go to chosen nodes, `exploited` of
    them, may all go to one node, which then merges what everybody pushes.
    """
    return CHAIN * view + exploited * nodes


def oldest_after(periods: Float64Array, view: int, exploited: int, nodes: int) -> Int64Array:
    """Returns how many updates a model of a network can have had after so many periods, at most,
    int64 [m].

    The lead of the luckiest of many chains over the longest one to be expected grows with the
    logarithm of their number.
    """
    luck = 2 * view * math.log2(max(2, nodes))
    begun = 1 + most_ageing(view, exploited, nodes) * (periods + EARLY)
    return np.minimum(np.ceil(begun + luck), OLDEST).astype(np.int64)
