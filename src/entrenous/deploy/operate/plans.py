"""Plans of an operator and of an owner: what is decided when a federation is founded, joined or
tried out.

They are the parameters of `entrenous federation new`, `join` and `try`, so this file imports no
library of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, final

if TYPE_CHECKING:
    from ...core.contract.protocols import Catalogue

NetworkProfile: TypeAlias = Literal["private", "robust", "paper"]

GOSSIPING, SERVED = "pepper-gmf", "fpl"  # the algorithms that are tried unless another is named
# The fields of a trial that determine its model, as trial.json has them.
TRAINED = (
    "algorithm",
    "data",
    "protocol",
    "seed",
    "rounds",
    "settings",
    "load",
    "profile",
    "protect",
)


@final
@dataclass(frozen=True, kw_only=True)
class FoundingPlan:
    """The decisions of an operator who founds a federation."""

    peers: bool = False
    """Without a server: each node is a peer, of one user."""
    algorithm: str = ""
    """One with a server, of `entrenous algorithms`; or the user's own class, ./my_algo.py, which
    each node must be given. With --peers one that gossips; default: pepper-gmf."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A hyper-parameter, name=value; may be repeated."""
    rounds: int = 0
    """Rounds after which training is over, with a server."""
    interactions: int = 1
    """About how many rows the nodes have together."""
    users: int = 0
    """Users of the federation; default: those of the nodes. More leaves room for nodes to come."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Lowest and highest rating, for algorithms that predict ratings."""
    profile: NetworkProfile = "private"
    """private: the server learns sums of at least 100 people of 3 nodes, with noise, and no node by
    itself; peers push nothing of their own alone. robust: the server reads each device's update,
    one user a node, and refuses poisoned ones. paper: the algorithm as published, whose messages
    can be read."""
    protect: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the protection where it differs from the profile's, name=value; may be repeated,
    such as people=60 or noise=0.2. groups=9 sums each round in nine groups of nodes, and shortens
    the sum of a group that one lying member makes too long; default: one group of up to 300
    nodes."""
    relays: bool = False
    """Under masks: each node is a relay, and makes the masked sum of its own nodes, which are one
    group. At least three relays."""
    apart: bool = True
    """Two masked sums differ by no node, or by at least --parties nodes: the server waits for a
    node that is away. --no-apart goes on without it, where owners agree."""
    draws: Literal["secret", "public"] = "secret"
    """secret: nodes draw from numbers of their own; public: from the seed, so that a simulation can
    repeat all draws."""
    deadline: float = 600.0
    """Seconds after which a round goes on without the nodes that have not answered."""
    quorum: float = 1.0
    """Share of a round's users below which the round is not counted."""
    most_norm: float | None = None
    """Euclidean length of what one device sends, beyond which the server refuses it: about ten
    times what the status of a trial calls longest_answer."""
    most_weight: float | None = None
    """Largest weight of one device; default: as many as there are items, or 256."""
    most_move: float | None = None
    """Largest move of any number of the model in one round (a trial's status: moved); beyond it the
    server stops and says why."""
    period: float = 10.0
    """Seconds between two pushes of a peer."""
    oldest: int | None = None
    """Updates by which a received model may be behind a peer's own, beyond which the peer refuses
    it; default: any."""
    days: float = 365.0
    """Days for which the tickets of peers are good."""
    seed: int = 0
    """Names the server's randomness, or the base model of peers."""

    def with_catalogue(self, catalogue: Catalogue) -> Self:
        """Returns the plan for as many users, rows and ratings as a data set has."""
        return replace(
            self,
            users=catalogue.users,
            interactions=catalogue.interactions,
            scale=catalogue.scale,
        )

    def terms(self) -> dict[str, Any]:
        """Returns the fields of `FederationTerms` that this plan decides, without the protection,
        which depends on the algorithm."""
        decided = {one.name: getattr(self, one.name) for one in fields(self)}
        for other in ("peers", "days", "protect"):
            del decided[other]
        decided["topology"] = "peers" if self.peers else "server"
        return decided


@final
@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """The decisions of a node's owner, which no invitation can override."""

    people: int = 100
    """Of secure sums: users of all nodes in one sum, below which this node sends nothing."""
    parties: int = 3
    """Of secure sums: nodes in one sum, below which this node sends nothing."""
    occupancy: float = 10.0
    """Of secure sums: devices that fill a row on average, below which this node sends nothing,
    unless there is noise on every row."""
    apart: bool = True
    """Of secure sums: send nothing either where two sums would differ by fewer nodes or people than
    that. --no-apart goes on where a node has dropped out, and lets a server compute what that node
    sent."""
    least_users: int = 1
    """Users of whom one answer must be: a server that asks for fewer at once gets nothing. Rounds
    draw users, so a higher number needs a quorum below 1."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """A setting that is the user's to decide, name=value, such as pi=0.5 in FPL: half of the
    positive updates are sent."""
    public_draws: bool = False
    """Join also where devices draw from the federation's seed, so that others can repeat what they
    draw: for trying out."""
    epsilon: float | None = None
    """Of differential privacy: join only where the terms prove at most this for each user over all
    rounds, whoever the server asks, if the devices of --people users in each sum add their noise;
    default: no bound."""
    algorithm: str = ""
    """The file of the federation's algorithm, where that is none of `entrenous algorithms`:
    ./my_algo.py. Its code runs on this machine; it must be the one that the federation agreed
    on."""


@final
@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A federation that is tried out on one machine, and that a simulation can repeat."""

    peers: bool = False
    """Without a server: each node is a peer, with one of the first users."""
    data: str = "ml-100k"
    """A data set, file or folder."""
    algorithm: str = ""
    """One of `entrenous algorithms`, or the user's own class: ./my_algo.py; default: fpl, and for
    peers pepper-gmf."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the algorithm, name=value; may be repeated."""
    nodes: int = 0
    """How many nodes; default: 4, and 16 peers."""
    rounds: int = 20
    """Rounds after which training is over, with a server."""
    protocol: str | None = None
    """How rows are held out, as in `entrenous run`; the nodes get what is left for training."""
    seed: int = 0
    """Names all randomness. Draws around a server are public here, so that the simulation can
    repeat them; in earnest they are secret."""
    profile: NetworkProfile = "private"
    """private: the server learns masked sums with noise; peers push nothing of their own alone.
    robust: it reads each device's update, one user a node, and refuses poisoned ones. paper: as
    published."""
    protect: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the protection where it differs from the profile's, name=value; may be repeated,
    such as noise=0.2."""
    seconds: float = 24.0
    """How long peers run, from when all have begun."""
    load: Mapping[str, Any] = field(default_factory=dict)
    """How to read a file, name=value; may be repeated, such as item=venue."""

    def complete(self) -> Self:
        """Returns the plan with an algorithm and a number of nodes where none was named."""
        algorithm, nodes = (GOSSIPING, 16) if self.peers else (SERVED, 4)
        return replace(self, algorithm=self.algorithm or algorithm, nodes=self.nodes or nodes)

    def stored(self) -> dict[str, Any]:
        """Returns the content of trial.json: all that determines the model."""
        return {name: getattr(self, name) for name in TRAINED}
