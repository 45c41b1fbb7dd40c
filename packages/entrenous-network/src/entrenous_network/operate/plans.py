"""Plans: the decisions of an operator who founds a federation, of an owner who joins one, and of
somebody who tries one out.

They are the options of `entrenous federation new`, `join` and `try`, so this file imports no
library of the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, final

if TYPE_CHECKING:
    from entrenous.core.contract.protocols import Catalogue

NetworkProfile: TypeAlias = Literal["private", "dp", "robust", "paper"]
TrialProfile: TypeAlias = Literal["private", "paper"]

# The default algorithms, without and with a server.
GOSSIPING = "pepper-gmf"
SERVED = "fcf"


@final
@dataclass(frozen=True, kw_only=True)
class FoundingPlan:
    """The decisions of an operator who founds a federation."""

    peers: bool = False
    """Found a federation without a server: each node is a peer, with one user."""
    algorithm: str = ""
    """An algorithm with a server, of `entrenous algorithms`; or the place of your own class,
    ./my_algo.py, a file that each node must be given. With --peers an algorithm that gossips;
    default: pepper-gmf."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the algorithm, name=value; may be repeated."""
    rounds: int = 0
    """Number of rounds of training, with a server; default: those that the profile brings."""
    interactions: int = 1
    """Number of rows that all nodes have together, roughly."""
    users: int = 0
    """Number of users of the federation; default: those of the nodes. A larger number leaves room
    for later nodes."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Lowest and highest rating, for algorithms that predict ratings."""
    profile: NetworkProfile = "private"
    """private: each device takes part by its own lot, and answers so many times; the server learns
    only sums over at least 300 people, with noise, and nothing of a single device; brings the
    settings that were tested with it; peers push nothing that is theirs alone. dp: each device
    clips too, and stops after as many answers as prove epsilon=8, or another --protect epsilon.
    paper: the algorithm as published, whose messages can be read. robust is for simulations."""
    protect: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the protection that differs from the profile's, name=value; may be repeated,
    such as people=60 or noise=0.2. groups=3 sums each round in three groups, dealt anew; default:
    one."""
    accuracy: float = 0.0
    """Have each device test every new row before it learns the row, and add the results to its
    masked answers: hits, reciprocal ranks, and 1 for itself, each sum with noise of this standard
    deviation, such as 3. `entrenous federation status FOLDER --accuracy` shows them; 0 = nobody
    tests."""
    endless: bool = False
    """Rounds go on until the server is stopped, in place of a number of them. Under masks say in
    how many a device answers: --protect answers=N."""
    from_model: str = ""
    """Begin with a model that was trained elsewhere: a stored run, or the folder of a federation's
    server. Items are matched by id; default: a new model."""
    draws: Literal["secret", "public"] = "secret"
    """secret: nodes draw random numbers from secrets of their own; public: from the seed, so that a
    simulation can repeat all draws."""
    deadline: float = 600.0
    """Seconds after which a round continues without the nodes that have not answered."""
    quorum: float = 1.0
    """Without masks: least share of a round's users that must have answered for the round to
    count."""
    most_norm: float | None = None
    """Largest Euclidean norm of the update of one device; the server refuses longer ones. A good
    value is ten times longest_answer in the status of a trial."""
    most_weight: float | None = None
    """Largest weight of one device; default: the number of items, or 256."""
    most_move: float | None = None
    """Largest change of any number of the model in one round (`moved` in the status of a trial);
    beyond it the server stops and says why."""
    period: float = 10.0
    """Seconds between two pushes of a peer."""
    oldest: int | None = None
    """Number of updates by which a received model may be behind the peer's own; the peer refuses
    older ones; default: no limit."""
    days: float = 365.0
    """Days for which the tickets of peers are valid."""
    seed: int = 0
    """Seed of the server's randomness, or of the base model of peers."""

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
        decided = {option.name: getattr(self, option.name) for option in fields(self)}
        # Tickets have the days; `FederationTerms` calls the others topology and protection.
        for name in ("peers", "days", "protect", "endless", "from_model"):
            del decided[name]
        if self.endless:
            # Here, since a command line that only shows its help needs no terms.
            from ..agreement.terms import ENDLESS

            decided["rounds"] = ENDLESS
        decided["topology"] = "peers" if self.peers else "server"
        return decided


@final
@dataclass(frozen=True, kw_only=True)
class JoinPlan:
    """The decisions of a node's owner, which no invitation can override."""

    profile: TrialProfile = "private"
    """private: join only where masks hide this node in a sum, or between peers noise. paper: join
    also where all that this node sends can be read."""
    people: int = 100
    """For secure sums: this node sends nothing to a sum over fewer people."""
    occupancy: float = 10.0
    """For secure sums: this node sends nothing if fewer devices fill a row of the sum on average,
    unless every row carries noise."""
    least_users: int = 1
    """Least number of users in one answer: a server that asks for fewer at once gets nothing.
    Rounds draw users at random, so a higher number needs a quorum below 1."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """A setting that the user may decide, name=value, such as pi=0.5 in FPL: half of the positive
    updates are sent."""
    public_draws: bool = False
    """Join although devices draw from the federation's seed, so that others can repeat the draws:
    for trials."""
    epsilon: float | None = None
    """For differential privacy: join only if the terms prove at most this epsilon for each user
    over all rounds, whoever the server asks, provided that the devices of --people users in each
    sum add their noise; default: no bound."""
    algorithm: str = ""
    """The file of the federation's algorithm, ./my_algo.py, if it is none of `entrenous
    algorithms`. Its code runs on this machine and must be the one that the federation agreed
    on."""


@final
@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A federation that is tried out on one machine."""

    peers: bool = False
    """Do without a server: each node is a peer, with one of the first users."""
    data: str = "ml-100k"
    """A data set, file or folder, whose rows come one after the other. Peers have them from the
    beginning."""
    stream: str = ""
    """A file of events in place of --data: columns time, event, user, item, value."""
    algorithm: str = ""
    """A name of `entrenous algorithms`, or the place of your own class: ./my_algo.py; default: fcf,
    and for peers pepper-gmf."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the algorithm, name=value; may be repeated."""
    nodes: int = 0
    """People, each with a device; default: 40, or 16 peers."""
    rounds: int = 20
    """Windows of events, after each of which the server has made two rounds more."""
    seed: int = 0
    """Seed of all randomness of the server and its devices; the draws of a trial are public."""
    protect: Mapping[str, Any] = field(default_factory=dict)
    """A setting of the protection that differs from the usual one, name=value; may be repeated,
    such as noise=0.2."""
    load: Mapping[str, Any] = field(default_factory=dict)
    """How to read a file, name=value; may be repeated, such as item=venue."""

    def complete(self) -> Self:
        """Returns the plan with the default algorithm and number of nodes in place of those that
        were not named."""
        algorithm, nodes = (GOSSIPING, 16) if self.peers else (SERVED, 40)
        return replace(self, algorithm=self.algorithm or algorithm, nodes=self.nodes or nodes)
