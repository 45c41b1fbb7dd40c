"""`GossipLearning`: a gossip algorithm, composed of a policy and a model, and the node that runs
it.

A node begins with the base model, which the bootstrap service hands to all, trained once on its own
rows. When its timer fires, it pushes its model to the peers of its view, and draws a new view now
and then. When a model arrives, it refuses one that cannot be right, treats any other as the policy
says, and takes note of the peers that the message names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, create_model

from ..core.contract.declarations import SentArray, Traits, pushed
from ..core.contract.gossip import (
    ACCEPTED,
    NOBODY,
    TOO_AHEAD,
    UNSEEN,
    Arrivals,
    DeviceData,
    Headers,
    Pushes,
)
from ..core.contract.protocols import Catalogue, State
from ..core.contract.settings import Settings
from ..core.types import Float32Array, Int8Array, Int32Array, Int64Array, UInt64Array
from ..kernels import peer_sampling
from ..kernels.merging import refusals
from .gossip_node import (
    LEAP,
    OLDEST,
    TRAIN,
    GossipModel,
    GossipPolicy,
    PeerState,
    credible,
    joined,
    keys_for,
)

# Protocols; the first that the data can have is used.
USUAL = ("pepper-given", "pepper-85-15")
# Name the draws of one event, as TRAIN does.
EXCHANGE = np.uint64(2)
VIEW = np.uint64(3)
EACH_PUSH = "each push, to the peers of the view"
NOT_MEASURED: Mapping[str, Any] = MappingProxyType({})


class GossipLearning(Settings):
    """A gossip algorithm: nodes that follow a policy and learn a model. `composed` makes its
    classes; nothing else inherits from it.

    Its settings are those of the node, of the model and of the policy together.
    """

    view: int = Field(3, ge=1, le=100, description="peers that a node pushes to each time")
    redraw: int = Field(10, ge=1, description="pushes after which a node draws a new view")
    carried: int = Field(
        5, ge=1, le=100, description="peers that a message names, of those its sender knows"
    )
    largest: float = Field(
        100.0,
        gt=0,
        le=1e6,
        description="a received model with a number beyond this, or none at all, is refused",
    )
    leap: int = Field(
        LEAP,
        ge=0,
        le=LEAP,
        description=(
            "updates that a received model may claim to be ahead of the node's own; one that claims"
            " more counts as old as that"
        ),
    )

    push_noise: float = Field(
        0.0,
        ge=0,
        le=1e3,
        description=(
            "standard deviation of the noise on every number of the first models that a node"
            " pushes; 0 = none"
        ),
    )
    noisy_pushes: int = Field(
        1,
        ge=0,
        description=(
            "pushes of a node that carry it, the first; 0 = all. Also every one before the node has"
            " merged a model"
        ),
    )

    policy_class: ClassVar[type[GossipPolicy]]
    model_class: ClassVar[type[GossipModel]]
    receives: ClassVar[None] = None
    keeps: ClassVar[type]
    sends: ClassVar[tuple[SentArray, ...]]
    traits: ClassVar[Traits]

    _items: int = PrivateAttr(0)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with some settings changed, in its policy and model too."""
        copy = super().model_copy(update=update, deep=deep)
        # made anew from the settings of the copy
        copy.__dict__.pop("policy", None)
        copy.__dict__.pop("model", None)
        return copy

    @cached_property
    def policy(self) -> GossipPolicy:
        """The policy of the algorithm, with its settings."""
        return self.policy_class(**_of(self.policy_class, dict(self)))

    @cached_property
    def model(self) -> GossipModel:
        """The model that nodes exchange, with its settings."""
        return self.model_class(**_of(self.model_class, dict(self))).over(self._items)

    @property
    def width(self) -> int:
        """Numbers in a model, as peers exchange it."""
        return self.model.width

    @property
    def exploited(self) -> int:
        """Places of a view that go to chosen nodes, not to drawn ones."""
        return self.policy.exploited(self.view)

    def configured(self, catalogue: Catalogue) -> Self:
        """Returns a copy of the settings for a catalogue and a number of nodes."""
        copy = self.model_copy(update={"view": min(self.view, max(1, catalogue.users - 1))})
        copy._items = catalogue.items
        return copy

    def sizes(self, catalogue: Catalogue) -> dict[str, int]:
        """Returns the sizes of declared arrays that are no setting: of the model, of the views and
        of the lists.
        """
        remembered = self.policy.remembered(self.view, self.redraw)
        return {"width": self.width, "remembered": remembered, **self.model.sizes()}

    def default_rounds(self, catalogue: Catalogue) -> int:
        """Returns the training length if none is asked for: the model's setting `rounds`."""
        # each model has its own
        return self.model.rounds  # type: ignore[attr-defined, no-any-return]

    def search_space(self) -> dict[str, str]:
        """Returns the ranges of a search that is given none: those of the model."""
        return self.model.search_space()

    def weighing(self, data: DeviceData, keys: UInt64Array) -> DeviceData:
        """Returns the data of nodes, with the weighting sets that the policy needs."""
        return self.policy.weighting_sets(data, self.model.items, keys)

    def init_model(self, catalogue: Catalogue, key: np.uint64) -> Float32Array:
        """Returns the base model, float32 [width], with which every node begins."""
        return self.model.init_model(key)

    def init_nodes(self, users: Int64Array, peers: Int32Array, width: int, key: np.uint64) -> State:
        """Returns the initial private state of nodes that have received nothing yet. peers: int32
        [m, k], the nodes that each knows first.
        """
        m = len(users)
        heard = self.policy.remembered(self.view, self.redraw)
        own = PeerState(
            me=users.astype(np.int64),
            age=np.zeros(m, np.int64),
            pushes=np.zeros(m, np.int64),
            known=peers,
            view=np.full((m, self.view), NOBODY, np.int32),
            heard=np.full((m, heard), NOBODY, np.int32),
            performance=np.zeros((m, heard), np.float32),
        )
        of_model = self.model.init_private(users, key)
        of_policy = self.policy.init_private(m)
        return self.keeps(*of_model, *own, *of_policy)

    def on_start(
        self,
        pool: Float32Array,
        at: Int64Array,
        nodes: Any,
        who: Int64Array,
        data: DeviceData,
        keys: UInt64Array,
    ) -> None:
        """Trains the base model once on each node's rows, before any message."""
        self.model.train(pool, at, nodes, who, data, keys_for(keys, TRAIN))
        nodes.age[who] += 1

    def on_timer(self, nodes: Any, who: Int64Array, data: DeviceData, keys: UInt64Array) -> Pushes:
        """Makes the push of each of the nodes; every `redraw` pushes it draws a new view first."""
        # views
        due = nodes.pushes[who] % self.redraw == 0
        keys_of_view = keys_for(keys[due], VIEW)
        nodes.view[who[due]] = self.policy.update_view(nodes, who[due], self.view, keys_of_view)
        nodes.pushes[who] += 1
        # headers, with some of the nodes that each knows
        carried = min(self.carried, nodes.known.shape[1])
        headers = Headers(
            sender=nodes.me[who],
            age=np.minimum(nodes.age[who], OLDEST),
            samples=np.diff(data.histories.ptr)[who],
            peers=peer_sampling.sample(nodes.known, who, carried, keys_for(keys, EXCHANGE)),
            length=np.full(len(who), self.width),
        )
        return Pushes(nodes.view[who], headers)

    def on_message(self, arrivals: Arrivals, nodes: Any, data: DeviceData) -> Int8Array:
        """Refuses a received model, or treats it as the policy says; and takes note of the peers
        that the message names. Returns int8 [m], ACCEPTED or the reason.
        """
        numbers = arrivals.numbers
        headers = arrivals.headers
        if numbers is None:
            numbers = np.full(len(arrivals.pool), UNSEEN, np.int8)
        refused = refusals(arrivals.pool, arrivals.received, headers.length, self.largest, numbers)
        if arrivals.oldest is not None:
            refused[(refused == ACCEPTED) & (headers.age > arrivals.oldest)] = TOO_AHEAD
        # What was accepted, with the part of its header that is credible.
        a = arrivals
        if refused.any():
            a = arrivals.at(refused == ACCEPTED)
        a = a._replace(headers=credible(a.headers, nodes.age[a.who], self.model.items, self.leap))
        self.policy.on_model_received(self.model, a, nodes, data)
        keys = keys_for(a.keys, EXCHANGE)
        sender = a.headers.sender
        peers = a.headers.peers
        peer_sampling.exchange(nodes.known, a.who, nodes.me[a.who], sender, peers, keys)
        return refused

    def score(
        self, pool: Float32Array, at: Int64Array, nodes: Any, who: Int64Array, data: DeviceData
    ) -> Float32Array:
        """Returns scores of all items for the users of nodes `who` by the models pool[at], float32
        [m, items].
        """
        return self.policy.score(self.model, pool, at, nodes, who, data)


def _of(part: type[Settings], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: settings[name] for name in part.model_fields}


def composed(
    name: str,
    policy: type[GossipPolicy],
    model: type[GossipModel],
    summary: str,
    private: Mapping[str, Any] = NOT_MEASURED,
) -> type[GossipLearning]:
    """Returns the gossip algorithm that follows a policy and learns a model. name: of its class;
    summary: its docstring; private: settings under the profile of that name, as they were measured.

    Raises ValueError for a setting or a private array that two of node, model and policy have.
    """
    fields: dict[str, Any] = {}
    for part in (model, policy):
        for setting, field in part.model_fields.items():
            if setting in fields or setting in GossipLearning.model_fields:
                raise ValueError(
                    f"{name}: two of node, model and policy have the setting '{setting}'"
                )
            fields[setting] = (field.annotation, field)
    kind = create_model(
        name, __base__=GossipLearning, __module__=policy.__module__, __doc__=summary, **fields
    )
    kind.policy_class = policy
    kind.model_class = model
    kind.keeps = joined(f"{name}State", model.private, PeerState, *policy.private)
    kind.sends = sent(model)
    kind.traits = Traits(
        usual_protocols=USUAL, holds_out_own=policy.holds_out_own, private_settings=private
    )
    return kind


def sent(model: type[GossipModel]) -> tuple[SentArray, ...]:
    """Declares the parts of a push: the model, its sender, and the rest of its header."""
    names = "the number of the node that pushes, and so which models come from the same node"
    known = "some of the nodes it knows, and so with whom it has been in touch"
    return (
        pushed("model", "width", dtype="float32", when=EACH_PUSH, reveals=model.reveals),
        pushed("sender", dtype="int64", when=EACH_PUSH, reveals=names),
        pushed("age", dtype="int64", when=EACH_PUSH, reveals="how many updates the model has had"),
        pushed(
            "samples", dtype="int64", when=EACH_PUSH, reveals="how many rows the node trains on"
        ),
        pushed("peers", "carried", dtype="int32", when=EACH_PUSH, reveals=known),
    )
