"""The terms of a federation, which everybody gets with the invitation: one format with a server and
without.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any, Literal, Self, final

from pydantic import Field, PrivateAttr, model_validator

from entrenous.core.contract.declarations import SentArray
from entrenous.core.contract.declared import Contract, bound, declared, is_federated
from entrenous.core.contract.protocols import Catalogue, FederatedAlgorithm
from entrenous.core.contract.settings import Settings
from entrenous.core.errors import InputError, one_line
from entrenous.core.registry.discover import is_place, short
from entrenous.core.registry.program import source_sha256
from entrenous.privacy import evidence
from entrenous.privacy.noise import share_of
from entrenous.privacy.protection import (
    DP,
    PAPER,
    PROTECT,
    UNCUT,
    Protection,
    ProtectionInForce,
    epsilon_in_words,
    narrow_bound,
)
from entrenous.privacy.told import HOLDS_AGAINST, of_operator, of_shown
from entrenous.runs.plan import algorithm_of
from entrenous.systems.gossip_learning import GossipLearning

from ..secure_sum.messages import MAX_PARTIES
from ..secure_sum.party_list import Demands, in_days
from ..secure_sum.quorum import faults, hiding
from ..wire.pushed import packed_bytes
from .catalogue import ItemLog
from .files import FORMAT, read_json
from .pins import AlgorithmPins, pins_of
from .unsampled import proven_for_all_rounds

TERMS = "terms.json"
OWN = "own"  # begins the name of an algorithm that is not part of an installed package
# Terms that a federation without the other topology does not have.
OF_SERVER = {
    "rounds",
    "protection",
    "accuracy",
    "deadline",
    "quorum",
    "most_norm",
    "most_weight",
    "most_move",
}
OF_PEERS = {"period", "oldest"}
LARGEST = 16 << 20  # bytes of a model between peers
MOST_USERS = 10_000_000  # a server has an array with a number for each
ENDLESS = 10_000_000  # rounds: so many that nobody sees the last
PARTS = 10  # of all rounds, after each of which a model is kept to go back to
SPARE = 10  # a round in so many may be lost under masks and is made up for
LAST_NUMBER = 999_999_999  # of a round under masks: files are named by nine digits
# Words for people, and the options that errors name.
EACH_PUSH = (
    "who receives a model can hold it against the base model; of the first push that gives all"
    " items trained on"
)
SINGLE = ", and of each user singly, in no sum and under no mask or clip"
MASKS = "--profile private"
SINGLY = "--profile paper, under which the server sees what each node sends"


@final
class FederationTerms(Settings):
    """The terms of a federation, which never change while it runs: their hash is its identity."""

    format: int = Field(
        FORMAT, description="of the files; a program refuses one that it does not know"
    )
    topology: Literal["server", "peers"] = Field(
        "server",
        description=(
            "server: nodes around a server; peers: everybody one user, nobody in the middle"
        ),
    )
    algorithm: str = Field(
        description="a name of `entrenous algorithms`; own:NAME for a class that each node is given"
    )
    algorithm_sha256: str = Field(
        "",
        description=(
            "of the algorithm's source; another one must have the same pins; an empty one is not"
            " checked"
        ),
    )
    pins: AlgorithmPins | None = Field(
        None,
        description=(
            "what another source must have in common with it; none = nothing will do, as of terms"
            " before there were pins"
        ),
    )
    settings: dict[str, Any] = Field(
        {}, description="its hyper-parameters; what is not there has its default"
    )
    seed: int = Field(
        0,
        ge=0,
        description=(
            "names the randomness of the server or the base model; with public draws all else too"
        ),
    )
    draws: Literal["public", "secret"] = Field(
        "secret",
        description=(
            "public: nodes draw from the seed, so that a simulation can repeat the run to the bit,"
            " and others could guess what a device drew; secret: each node draws from a number of"
            " its own"
        ),
    )
    users: int = Field(ge=2, le=MOST_USERS, description="of all nodes together")
    items: int = Field(ge=1, description="of the catalogue")
    interactions: int = Field(
        1,
        ge=1,
        description=(
            "rows of all nodes together, as estimated by whoever wrote the terms; peers do not ask"
            " for it"
        ),
    )
    scale: tuple[float, float] = Field(
        (1.0, 1.0), description="lowest and highest rating; 1 and 1 where nothing is rated"
    )
    items_root: str = Field(
        "", description="of the log of as many lines of items.jsonl, so that all number items alike"
    )
    operator: str = Field(
        description=(
            "public key, Ed25519, hexadecimal: of the server, which signs requests, or of who signs"
            " the tickets of peers"
        )
    )
    nonce: str = Field("", description="tells federations apart that agreed on the same")
    rounds: int = Field(
        0,
        ge=0,
        le=ENDLESS,
        description=(
            "rounds after which training is over, with a server; 10,000,000: it goes on until the"
            " server is stopped"
        ),
    )
    profile: Literal["paper", "private", "dp"] = Field(
        "paper",
        description=(
            "what limits the data that leaves nodes: a name of `privacy.protection.PROFILES`"
        ),
    )
    protection: Protection = Field(
        Protection(), description="its settings, all of them: nodes and server have no others"
    )
    accuracy: float = Field(
        0.0,
        ge=0,
        le=1000,
        description=(
            "noise on each sum of the tests of new rows, which devices then make; 0 = they make"
            " none"
        ),
    )
    deadline: float = Field(
        600.0,
        gt=0,
        description="seconds after which a round goes on without the nodes that have not answered",
    )
    quorum: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the asked users below which a round is not counted; 1 under masks",
    )
    most_norm: float | None = Field(
        None,
        gt=0,
        description=(
            "Euclidean length of what one device sends in a round, beyond which it is refused; none"
            " = any"
        ),
    )
    most_weight: float | None = Field(
        None,
        gt=0,
        description=(
            "what one device may weigh; none = as many as there are items, or 256 where that is"
            " more"
        ),
    )
    most_move: float | None = Field(
        None,
        gt=0,
        description=(
            "how far any number of the model may move in one round, beyond which the server stops;"
            " none = any"
        ),
    )
    period: float = Field(
        10.0, ge=0.05, le=86_400, description="seconds between two pushes of a peer"
    )
    oldest: int | None = Field(
        None,
        ge=0,
        description=(
            "updates by which a received model may be behind a peer's own, beyond which it is"
            " refused; none = any"
        ),
    )

    _founding: FederationTerms | None = PrivateAttr(None)
    """The terms as they were signed, of a federation whose list of items has grown since."""
    _listed: int = PrivateAttr(0)
    """The size of that list's log."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        fields = type(self).model_fields
        # A term that nothing reads would promise what nobody keeps.
        foreign = OF_PEERS if self.has_server else OF_SERVER
        for name in sorted(foreign):
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"no {name} where the topology is '{self.topology}'")
        own = self.protection
        if own.defence != "none":
            raise ValueError("defence=none: defences are of simulations, as of `entrenous run`")
        if own.noise_by == "server" or own.epsilon is not None:
            raise ValueError("noise by devices: a node cannot see that a server adds noise")
        if self.profile == DP and not self._proves():
            raise ValueError(
                "profile=dp together with topology=server, draws=secret, sampling=poisson, clip and"
                " noise of devices from the operating system, without days and without accuracy:"
                " else nothing is proven"
            )
        if self.masked or own.sampling == "poisson":
            self._check_lots()
        if self.has_server and self.rounds < 1:
            raise ValueError("rounds of at least 1")
        if self.accuracy and not self.masked:
            raise ValueError(
                "no accuracy without secure_sum: tests of new rows are told as a sum of all nodes"
                " alone"
            )
        return self

    def _proves(self) -> bool:
        """Returns True if an epsilon of all answers of a device follows from these terms."""
        if not (self.has_server and self.masked and self.draws == "secret"):
            return False
        return self.proven(self.protection.people) is not None

    def _check_lots(self) -> None:
        """Raises ValueError for terms under which the participation contract means nothing."""
        own = self.protection
        if not (self.masked and own.sampling == "poisson" and own.answers):
            raise ValueError(
                "secure_sum, sampling=poisson and answers=N together: under masks a device decides"
                " by itself, holds the list of a sum against those before, and stops after N sums"
            )
        if self.quorum < 1:
            raise ValueError(
                "quorum=1 under masks: nobody knows whom the lot draws, so `people` alone says how"
                " many must answer"
            )
        # No honest device signs the list of a smaller sum, whatever a floor says.
        least = least_people(self.users)
        if self.fewest < least:
            raise ValueError(
                f"people={least} or more, with {self.users} users: {least - 2} of a sum may be in"
                " league with the server, and two others hide each other"
            )

    @cached_property
    def run(self) -> str:
        """The identity of the federation: the first 32 hexadecimal digits of the sha256 of the
        terms.
        """
        founding = self._founding or self
        digest = hashlib.sha256(founding.text().encode())
        return digest.hexdigest()[:32]

    def with_items(self, items: ItemLog) -> Self:
        """Returns the terms of the same federation with the list of items of now. Its identity, and
        the catalogue in which its algorithm was tested, stay those of the founding.
        """
        head = items.tree.head
        root = head.root.hex()
        # Members that come change no items.
        if (head.size, root) == (self._listed, self.items_root):
            return self
        changed = {"items": items.count, "items_root": root}
        longer = type(self).parse({**self.model_dump(mode="json"), **changed}, "terms")
        longer._founding = self._founding or self
        longer._listed = head.size
        return longer

    @cached_property
    def listed(self) -> int:
        """The size of the log of items: one for each item, and for each that is retired."""
        return self._listed or self.items

    @cached_property
    def run_bytes(self) -> bytes:
        """The identity of the federation, 16 bytes, as it stands before every model of a peer."""
        return bytes.fromhex(self.run)

    @cached_property
    def _singly(self) -> dict[str, tuple[SentArray, ...]]:
        """The results of `singly`, by place: an algorithm has to be made for each of them."""
        return {}

    @property
    def has_server(self) -> bool:
        """True if the federation has a server; False if it is one of peers."""
        return self.topology == "server"

    @cached_property
    def masked(self) -> bool:
        """True where the server sees the sum of a round's nodes, and no node singly. Each device
        then decides by itself, by lot, whether it answers in a round, and keeps the participation
        contract (`entrenous_network/secure_sum/party_list.py`)."""
        return self.protection.secure_sum

    @property
    def open_profile(self) -> str:
        """The profile to which an owner must agree, since others can read what a single node sends;
        "" where masks, or noise between peers, hide that."""
        if self.masked or (not self.has_server and self.gossip.push_noise):
            return ""
        return PAPER

    @property
    def endless(self) -> bool:
        """True where rounds go on until the server is stopped."""
        return self.rounds == ENDLESS

    @property
    def part(self) -> int:
        """The rounds between two models that are kept, and given to all under masks: a tenth of
        all rounds, or ten where they go on without end.
        """
        return 10 if self.endless else max(1, self.rounds // PARTS)

    @property
    def of_rounds(self) -> str:
        """The end of "so many rounds": " of 20", or "" where they go on without end."""
        return "" if self.endless else f" of {self.rounds}"

    @cached_property
    def spare(self) -> int:
        """The number of rounds that may be lost and are made up for by further ones: a tenth under
        masks. Without masks the same round is asked for again, and none is lost."""
        if self.masked:
            return further(self.rounds)
        return 0

    @property
    def sums(self) -> int:
        """The largest number of rounds in which a node sends an update: under masks the answers of
        a device, at a time.
        """
        return self.protection.answers or self.rounds

    @cached_property
    def last_number(self) -> int:
        """The largest number that a request may carry: that of the trained model. Under masks
        numbers only name rounds. A node sends one masked input at most for each, and counts these
        itself (`sums`), so a server that leaves numbers out gains nothing, unless a model may move
        by a step for each.
        """
        if self.masked and (self.endless or not self.protection.step):
            return LAST_NUMBER
        return self.rounds + self.spare

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.users, self.items, self.interactions, self.scale)

    # ---- the algorithm ---------------------------------------------------------------------------

    def check(self, own: Mapping[str, Any] | None = None, place: str = "") -> None:
        """Raises InputError for an algorithm that this federation cannot have; arguments as of
        `make`.
        """
        if self.has_server:
            self.make(own, place)
        else:
            self.gossip  # noqa: B018  # raises the error

    def make(self, own: Mapping[str, Any] | None = None, place: str = "") -> FederatedAlgorithm:
        """Returns the algorithm of a federation with a server, made concrete for it.

        own: a node's settings where its users decide (`decided_by_user`). place: the file of a
        class of the user's own, as the person who runs this program named it: terms come from
        others, and a file runs when it is loaded, so no place is ever taken from terms.

        Raises InputError for an algorithm whose source is not that of the federation, for one
        without a server, and for settings that are not a user's to decide.
        """
        made = self._algorithm(own, place)
        # A class of peers has other methods than a server and its nodes call.
        if not is_federated(made):
            problem = f"{self.algorithm} has no server with devices"
            raise InputError("algorithm", problem, fix="choose one such as fpl or cali3f-gmf")
        theirs = declared(made).traits.decided_by_user
        for name in sorted(own or {}):
            if name not in theirs:
                expected = f"none: {self.algorithm} leaves users nothing to decide"
                if theirs:
                    expected = f"one of {', '.join(theirs)}"
                raise InputError(f"--own {name}", "is the same for all nodes", expected=expected)
        configured: FederatedAlgorithm = made.configured(self.catalogue)
        contract = bound(configured, self.catalogue)
        if self.masked:
            self._check_masks(contract)
        # Raises InputError where this algorithm cannot have the protection.
        ProtectionInForce(self.protection, contract)
        return configured

    @cached_property
    def gossip(self) -> GossipLearning:
        """The algorithm of a federation of peers, made concrete for it. Raises InputError for one
        that cannot be used between peers.
        """
        made = self._algorithm({}, "")
        if not isinstance(made, GossipLearning):
            raise InputError(
                "--algorithm",
                f"{self.algorithm} needs a server",
                expected="one that gossips",
                fix="try --algorithm pepper-gmf",
            )
        configured = made.configured(self.catalogue)
        # One place of the view stays random: otherwise a peer would only ever hear from peers that
        # once looked good.
        if configured.exploited >= configured.view and self.users > 2:
            raise InputError(
                "--set alpha",
                f"all {configured.view} places of the view go to the best",
                expected="one at random",
                fix="use a larger view, or more exploration (alpha)",
            )
        # Terms come from others, and each peer keeps a buffer for such a model.
        size = packed_bytes(configured.width)
        if size > LARGEST:
            problem = f"a model has {size >> 20} MB"
            most = LARGEST >> 20
            raise InputError("--set factors", problem, expected=f"at most {most} MB")
        return configured

    @property
    def body_bytes(self) -> int:
        """The bytes of one model between peers."""
        return packed_bytes(self.gossip.width)

    def _algorithm(self, own: Mapping[str, Any] | None, place: str) -> Any:
        """Returns the algorithm with the settings of the terms and of a node. Raises InputError for
        one that is not what the federation agreed on. Arguments as of `make`.
        """
        if is_place(self.algorithm) and not place:
            problem = (
                f"the federation's algorithm, {short(self.algorithm)}, is none of `entrenous"
                " algorithms`"
            )
            fix = "ask the operator for it, read it, and name it: --algorithm ./FILE.py"
            raise InputError("algorithm", problem, expected="its file", fix=fix)
        settings = {**self.settings, **(own or {})}
        made = algorithm_of(place or self.algorithm, settings, self.profile)
        # Another source may be a later version of the same algorithm: the pins tell.
        if self.algorithm_sha256 and source_sha256(type(made)) != self.algorithm_sha256:
            self._check_pins(place)
        return made

    def _check_pins(self, place: str) -> None:
        """Raises InputError where another source of the algorithm declares or computes something
        else.
        """
        by = ""
        if self.pins is not None:
            by = f" ({self.pins.version})"
        fix = f"use the same file and the version of entrenous that founded the federation{by}"
        name = short(self.algorithm)
        problem = f"the source of {name} here is not the one that the federation agreed on"
        # Without a test round nothing shows that two sources compute the same.
        if self.pins is None or not self.pins.test_round:
            expected = f"sha256 {self.algorithm_sha256[:16]}..."
            raise InputError("algorithm", problem, expected=expected, fix=fix)
        differs = self.pins.difference(self._own_pins(place))
        if differs:
            raise InputError("algorithm", f"{problem}, and it differs: {differs}", fix=fix)

    def _own_pins(self, place: str) -> AlgorithmPins:
        """Returns the pins of the algorithm as this program has it."""
        made = algorithm_of(place or self.algorithm, self.settings, self.profile)
        founding = self._founding or self
        return pins_of(made, founding.catalogue, self.protection)

    def pinned(self, place: str = "") -> Self:
        """Returns these terms with the pins of their algorithm, as this program has it. place: as
        of `make`.
        """
        fields = self.model_dump(mode="json")
        fields["pins"] = self._own_pins(place).model_dump(mode="json")
        return type(self).parse(fields, "terms")

    def other_source(self, place: str = "") -> str:
        """Returns a warning, in one line, that the source of the algorithm here is not the one of
        the founding, though it computes the same; "" where the source is the same, or nothing is
        agreed on. Raises InputError where it does not compute the same. place: as of `make`.
        """
        made = self._algorithm({}, place)
        here = source_sha256(type(made))
        if self.algorithm_sha256 in ("", here):
            return ""
        return one_line(
            f"the source of {short(self.algorithm)} here (sha256 {here[:16]}...) is not the one"
            f" that the federation was founded with ({self.algorithm_sha256[:16]}...); it declares"
            " and, in the fixed test round, computes the same, so this goes on"
        )

    def _check_masks(self, contract: Contract) -> None:
        """Raises InputError for an algorithm whose sums may be of one device, or that shows devices
        singly, where masks hide nothing, and for too few people.
        """
        # The sum of one device is what it sent, and masks come off a sum.
        if contract.cohort == 1:
            problem = f"{self.algorithm} asks one device a round, and a sum of one hides nothing"
            fix = f"choose an algorithm with more devices in a round, such as fpl; or {SINGLY}"
            raise InputError(MASKS, problem, fix=fix)
        if contract.groups > 1:
            problem = (
                f"{self.algorithm} adds up in {contract.groups} groups, and a group of one hides"
                " nothing"
            )
            fix = f"choose an algorithm with one sum a round, such as fpl; or {SINGLY}"
            raise InputError(MASKS, problem, fix=fix)
        shown = ", ".join(contract.way("shown"))
        if shown:
            problem = f"each device of {self.algorithm} shows {shown} singly, which no mask hides"
            fix = f"choose an algorithm that only adds up, such as fpl; or {SINGLY}"
            raise InputError(MASKS, problem, fix=fix)
        most = most_by_lot(self.users, self.protection.groups)
        if contract.cohort > most:
            raise InputError(
                "--set cohort",
                f"{contract.cohort} of {self.users} users in a round: a lot often draws more than"
                f" half of them, or more than {MAX_PARTIES} for one sum",
                expected=f"at most {most}",
                fix=f"a smaller cohort, more users, or {PROTECT} groups=N",
            )
        if self.accuracy and self.protection.bits == 32:
            self._check_tests()
        # Groups of nodes have as many people each: `ProtectionInForce` checks that.
        people = self.protection.people
        if self.users < people:
            raise InputError(
                f"{PROTECT} people",
                f"{self.users} users, where no sum may be of fewer than {people}",
                fix=(
                    "bring more users in, or say another floor, as each owner must:"
                    f" {PROTECT} people=N, join --people N"
                ),
            )

    def _check_tests(self) -> None:
        """Raises InputError where the noise of tests might not fit words of 32 bits."""
        bound = narrow_bound(self.protection, self.in_sum)
        share = share_of(self.accuracy, self.protection.people)
        # What a device says of its tests is 1 at most, and its noise comes on top.
        if bound is not None and UNCUT * share + 1 > bound:
            raise InputError(
                f"{PROTECT} bits",
                f"a device's share of the noise of --accuracy, of {share:.3g}, may be beyond"
                f" {bound:.0f}",
                expected="64",
                fix="leave it out",
            )

    def singly(self, place: str = "") -> tuple[SentArray, ...] | None:
        """Returns the arrays that leave each device as they are and that nobody adds up: the server
        sees whose they are. None where this program cannot know, since
        `place`, the file of an algorithm of the owner's own, was not given.

        These are the arrays that the contract declares `shown`, so that people are told what is
        sent."""
        if not self.has_server:
            return ()
        if is_place(self.algorithm) and not place:
            return None
        if place not in self._singly:
            made: Any = algorithm_of(place or self.algorithm, self.settings, self.profile)
            contract = bound(made.configured(self.catalogue), self.catalogue)
            self._singly[place] = tuple(sent for sent in contract.sends if sent.way == "shown")
        return self._singly[place]

    def reveals(self, place: str = "") -> list[str]:
        """Returns a line for each array that leaves the node's devices singly, for its owner: what
        the array reveals, as declared, and what an audit measured with it and without. place: as of
        `singly`."""
        name = short(self.algorithm)
        shown = self.singly(place)
        if shown is None:
            file = "--algorithm ./FILE.py"
            return [f"what {name} shows of each user singly is said to who names its file: {file}"]
        lines = []
        for sent in shown:
            measured = evidence.of_array(name, sent.name)
            measured = measured or f"no audit of {name} has measured what it gives away"
            leaves = f"'{sent.name}' of each user leaves by itself, {sent.when}: {sent.reveals}"
            lines.append(f"{leaves}; {measured}")
        return lines

    def limits(self, place: str = "") -> str:
        """Returns what limits the data that leaves nodes, or that nothing does, for people: in one
        line; under `private` in three, what its operator finds first. place: as of `singly`."""
        limits = self._server_limits(place) if self.has_server else self._peers_limits()
        return f"profile {self.profile}: {limits}"

    def _peers_limits(self) -> str:
        gossip = self.gossip
        if not gossip.push_noise:
            return EACH_PUSH
        noise = f"noise of {gossip.push_noise:g} on every number"
        if not gossip.noisy_pushes:
            return f"all pushes of a node carry {noise}"
        first = f"the first {gossip.noisy_pushes} pushes of a node"
        return f"{first} carry {noise}; later ones can be read"

    def _server_limits(self, place: str) -> str:
        own = self.protection
        name = short(self.algorithm)
        measured = evidence.gives_away(name)
        measured = measured or f"`entrenous audit {name}` measures what that gives away"
        singly = self._and_singly(place)
        sums = "the server can read what each node sends, of one user or their sum"
        read = f"; as published: {measured}"
        if own.secure_sum:
            read = ""
            sums = f"the server sees masked sums of at least {own.people} people"
            if own.groups > 1:
                sums += f", one of each of {own.groups} groups"
            often = f"in at most {own.answers} of which a device answers{in_days(own.days)}"
            sums += f", {often}, by its own lot"
            if self.accuracy:
                sums += f", with tests of new rows (noise of {self.accuracy:g} on each sum)"
        noise = "no noise"
        if own.noise:
            noise = f"noise of {own.noise:g} on every number of a sum, a share by each device"
            if own.noise_from == "seed":
                noise += ", repeatable from the seed and so no protection: for trying out"
        clip = ""
        if own.clip:
            clip = f"; each device's message at most {own.clip:g} long"
        if own.step:
            clip += f"; a model that moved by more than {own.step:g} a round is refused"
        bound = narrow_bound(own, self.in_sum) if own.bits == 32 else None
        if bound is not None:
            clip += f"; numbers beyond {bound:.0f} become {bound:.0f}"
        proof = self.proof(own.people, self.sums) or "no epsilon"
        if self.masked and self.proven(own.people) is not None:
            proof += f", of {own.answers} answers; the server sees who answers"
        told = f"{sums}{singly}; {noise}{clip}; {proof}{read}"
        # Figures of whoever sets out to read come before all that others cannot do.
        if self.profile == "private":
            worst = of_operator(name, self.settings, dict(own))
            told = f"{worst}.\nAnd {of_shown(name)}. {HOLDS_AGAINST}\nTerms: {told}"
        return told

    def _and_singly(self, place: str) -> str:
        """Returns what the server sees of each user besides sums, as the end of a clause; "" =
        nothing."""
        shown = self.singly(place)
        if shown is None:
            return f", and of each user singly what {short(self.algorithm)} shows"
        names = ", ".join(sent.name for sent in shown)
        if names:
            return f"{SINGLE}: {names}"
        return ""

    @property
    def fewest(self) -> int:
        """The people whom a sum of a round must have: for fewer, shares of noise would be less than
        was promised.
        """
        # Each is one party, so that the two floors of a protection are of the same.
        return max(self.protection.people, self.protection.parties)

    @property
    def in_sum(self) -> float:
        """The people in one sum, on average; where the terms name no cohort, all users."""
        asked = max(0, int(self.settings.get("cohort", 0)))
        in_round = min(asked or self.users, self.users)
        return in_round / self.protection.groups

    def proven(self, people: int, rounds: int | None = None) -> float | None:
        """Returns the epsilon of a user who is in so many rounds, if every sum has the noise of
        `people` users; None where the terms prove nothing, and under `private`. rounds: None = as
        many as may be.
        """
        # An epsilon of hundreds would follow from its noise, and say nothing of an operator.
        if self.profile == "private":
            return None
        # Tests of new rows are sums of their own, whose noise proves nothing. An epsilon is of all
        # answers, and with days there is no last one.
        if self.accuracy or self.protection.days:
            return None
        rounds = self.sums if rounds is None else rounds
        # Shares are made for the fewest people of a sum.
        return proven_for_all_rounds(self.protection, people, self.protection.people, rounds)

    def proof(self, people: int, rounds: int) -> str:
        """Returns the same in words, with the epsilon where one person is exchanged for another;
        "" where the terms prove nothing.
        """
        epsilon = self.proven(people, rounds)
        if epsilon is None:
            return ""
        # To exchange a person moves a sum twice as far: as four times as many answers do.
        exchanged = self.proven(people, 4 * rounds) or 0.0
        return epsilon_in_words(epsilon, self.protection.delta, exchanged=exchanged)

    # ---- as text ---------------------------------------------------------------------------------

    def text(self) -> str:
        """Returns the terms as the JSON text that is stored and hashed, without the fields that
        their topology does not have and limits that are not set.
        """
        foreign = OF_PEERS if self.has_server else OF_SERVER
        # A limit that is not set is left out: one that a later version adds changes no older hash.
        fields = self.model_dump(mode="json", exclude=foreign, exclude_none=True)
        # Terms without tests of new rows hash as they did before there were any.
        if not self.accuracy:
            fields.pop("accuracy", None)
        return json.dumps(fields, sort_keys=True, indent=1)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads terms from a file. Raises InputError that names the file and the field."""
        return cls.parse(read_json(path), str(path))


def most_by_lot(users: int, groups: int = 1) -> int:
    """Returns the largest cohort of which a lot hardly ever draws more for one sum than a device
    consents to, or than a sum can have: two standard deviations above the mean it is as many.

    >>> most_by_lot(40), most_by_lot(40, groups=3), most_by_lot(943), most_by_lot(100_000)
    (13, 39, 440, 962)
    """
    most = min(Demands().share * users, MAX_PARTIES)
    for in_group in range(int(most), 1, -1):
        spread = sqrt(in_group * (1 - in_group / users))
        if in_group + 2 * spread <= most:
            return min(users, groups * in_group)
    return 1


def least_people(users: int) -> int:
    """Returns the fewest people whose sum hides each of them, whoever of so many users are parties.

    >>> least_people(12), least_people(40), least_people(10_000)
    (4, 6, 15)
    """
    return hiding(faults(0, users))


def further(rounds: int) -> int:
    """Returns how many lost rounds may be made up for, of so many rounds.

    >>> further(6), further(200)
    (1, 20)
    """
    return -(-rounds // SPARE)
