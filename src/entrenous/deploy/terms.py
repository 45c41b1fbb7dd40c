"""What a federation has agreed on: the terms, which every node gets with its invitation, and the membership list."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field

from ..core.declared import Contract, bound, declared, is_federated
from ..core.errors import InputError
from ..core.files import write_atomically
from ..core.own import is_place, short
from ..core.program import source_sha256
from ..core.protocols import Catalogue, FederatedAlgorithm
from ..core.settings import Settings
from ..core.types import Int64Array
from ..runs.plan import algorithm_of

OWN = "own"  # begins the name of an algorithm that is no part of this package or of an installed one
LIMITS = ("most_norm", "most_weight", "most_move")  # terms that older federations do not have
FORMAT = 1  # of all files of a federation: another one is refused by its number


@final
class FederationTerms(Settings):
    """The terms of a federation, which never change while it runs: their hash is its identity."""

    format: int = Field(FORMAT, description="of the files; a program refuses one that it does not know")
    algorithm: str = Field(
        description="a name of `entrenous algorithms`, with a server; own:NAME for a class that each node is given"
    )
    algorithm_sha256: str = Field(
        "", description="of the algorithm's source, which every node must have; an empty one is not checked"
    )
    settings: dict[str, Any] = Field({}, description="its hyper-parameters where they differ from the defaults")
    rounds: int = Field(ge=1, le=10_000_000, description="rounds after which training is over")
    seed: int = Field(0, ge=0, description="names the randomness of the server, and of the nodes where draws are public")
    draws: Literal["public", "secret"] = Field(
        "secret",
        description="public: nodes draw from the seed, so that a simulation can repeat the run to the bit, and the server could guess what "
        "a device drew; secret: each node draws from a number of its own",
    )
    users: int = Field(ge=2, description="of all nodes together")
    items: int = Field(ge=1, description="of the catalogue")
    interactions: int = Field(ge=1, description="rows of all nodes together, as estimated by whoever wrote the terms")
    scale: tuple[float, float] = Field((1.0, 1.0), description="lowest and highest rating; 1 and 1 where nothing is rated")
    items_sha256: str = Field("", description="of the list of items, so that all number them alike")
    secure: Literal["none", "masks"] = Field(
        "none", description="masks: the server sees the sum of a round's nodes, not one by one"
    )
    deadline: float = Field(
        600.0, gt=0, description="seconds after which a round goes on without the nodes that have not answered"
    )
    quorum: float = Field(1.0, gt=0, le=1, description="share of the asked users below which a round is not counted")
    most_norm: float | None = Field(
        None, gt=0, description="Euclidean length of what one device sends in a round, beyond which it is refused; none = any"
    )
    most_weight: float | None = Field(
        None, gt=0, description="what one device may weigh; none = as many as there are items, or 256 where that is more"
    )
    most_move: float | None = Field(
        None, gt=0, description="how far any number of the model may move in one round, beyond which the server stops; none = any"
    )
    server: str = Field(description="the server's public key, Ed25519, hexadecimal")
    nonce: str = Field("", description="tells federations apart that agreed on the same")

    @property
    def run(self) -> str:
        """The identity of the federation: the first 32 hexadecimal digits of the sha256 of the terms."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:32]

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.users, self.items, self.interactions, self.scale)

    @property
    def server_key(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.server))

    def make(self, own: Mapping[str, Any] | None = None, place: str = "") -> FederatedAlgorithm:
        """The algorithm, made concrete for this federation.

        Args:
            own: a node's settings where its users decide (`decided_by_user`).
            place: of a class of one's own, as whoever runs this program named it: terms come from others, and a file runs when it is
                loaded, so no place is ever taken from them.

        Raises:
            InputError: for an algorithm whose source is not that of the federation, one without a server, and settings that are not a
                user's to decide.
        """
        if is_place(self.algorithm) and not place:
            problem = f"the federation's algorithm, {short(self.algorithm)}, is none of `entrenous algorithms`"
            fix = "ask the operator for it, read it, and name it: --algorithm ./FILE.py"
            raise InputError("algorithm", problem, expected="its file", fix=fix)
        made = algorithm_of(place or self.algorithm, {**self.settings, **(own or {})})
        self._check_source(type(made))
        if not is_federated(made):
            problem = f"{self.algorithm} has no server with devices"
            raise InputError("algorithm", problem, fix="choose one such as fpl or cali3f-gmf")
        theirs = declared(made).traits.decided_by_user
        if foreign := sorted((own or {}).keys() - set(theirs)):
            expected = f"one of {', '.join(theirs)}" if theirs else f"none: {self.algorithm} leaves users nothing to decide"
            raise InputError(f"--own {foreign[0]}", "is the same for all nodes", expected=expected)
        configured: FederatedAlgorithm = made.configured(self.catalogue)
        if self.secure == "masks":
            self._check_masks(bound(configured, self.catalogue))
        return configured

    def _check_masks(self, contract: Contract) -> None:
        """Raise InputError for an algorithm whose sums may be of one device: masks hide nothing in them."""
        if contract.cohort == 1:
            problem = f"{self.algorithm} asks one device a round, and a sum of one hides nothing"
            raise InputError("--secure masks", problem, fix="choose an algorithm with more devices in a round")
        if contract.groups > 1:
            problem = f"{self.algorithm} adds up in {contract.groups} groups, and a group of one hides nothing"
            raise InputError("--secure masks", problem, fix="choose an algorithm with one sum a round")

    def _check_source(self, kind: type) -> None:
        if self.algorithm_sha256 and source_sha256(kind) != self.algorithm_sha256:
            problem = f"the source of {short(self.algorithm)} here is not the one that the federation agreed on"
            fix = "use the same file and the same version of entrenous"
            raise InputError("algorithm", problem, expected=f"sha256 {self.algorithm_sha256[:16]}...", fix=fix)

    def text(self) -> str:
        """The terms as the JSON text that is stored and hashed; limits that are not set are left out, as before there were any."""
        unset = {name for name in LIMITS if getattr(self, name) is None}
        return json.dumps(self.model_dump(mode="json", exclude=unset), sort_keys=True, indent=1)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read terms from a file. Raises InputError that names the file and the field."""
        found = read_json(path)
        check_format(path, found.get("format"))
        return cls.parse(found, str(path))


class Member(NamedTuple):
    """A member of a federation. key: the node's Ed25519 public key; users: int64, the federation's numbers of the users it
    serves, ascending."""

    key: Ed25519PublicKey
    users: Int64Array


@final
class Roll:
    """The membership list: the nodes of a federation by name, and which of them serves which user."""

    def __init__(self, members: Mapping[str, Member], users: int) -> None:
        self.members = dict(sorted(members.items()))
        self.names = list(self.members)
        self._node = np.full(users, -1, np.int64)
        for number, (name, member) in enumerate(self.members.items()):
            if len(member.users) and (member.users[0] < 0 or member.users[-1] >= users or np.any(np.diff(member.users) <= 0)):
                raise InputError(f"roll: {name}", "users out of order or range", expected=f"ascending numbers below {users}")
            if np.any(self._node[member.users] >= 0):
                raise InputError(f"roll: {name}", "serves a user that another node serves", expected="one node for each user")
            self._node[member.users] = number

    def by_node(self, users: Int64Array) -> dict[str, Int64Array]:
        """The users among `users` that each node serves, ascending, for the nodes that serve some. Users without a node are
        left out."""
        node = self._node[users]
        return {self.names[n]: np.sort(users[node == n]) for n in np.unique(node[node >= 0])}

    def text(self) -> str:
        """The membership list as the JSON text that is stored and hashed; users as [first, last] of consecutive numbers."""
        nodes = {
            name: {"key": member.key.public_bytes_raw().hex(), "users": _stretches(member.users)}
            for name, member in self.members.items()
        }
        return json.dumps({"format": FORMAT, "nodes": nodes}, indent=1)

    @staticmethod
    def read(path: Path, users: int) -> Roll:
        """Read a membership list of `users` users from a file. Raises InputError that names the file."""
        return Roll.parse(read_json(path), path, users)

    @staticmethod
    def parse(found: Mapping[str, Any], path: Path, users: int) -> Roll:
        """A membership list of `users` users from the JSON object that `text` wrote. path: what errors name. Raises InputError."""
        check_format(path, found.get("format"))
        try:
            members = {
                name: Member(
                    Ed25519PublicKey.from_public_bytes(bytes.fromhex(node["key"])),
                    np.concatenate([np.arange(low, high + 1) for low, high in node["users"]] or [np.empty(0, np.int64)]),
                )
                for name, node in found["nodes"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as bad:
            raise InputError(
                str(path), f"not a roll of nodes ({type(bad).__name__})", expected="nodes, each with key and users"
            ) from None
        return Roll(members, users)


def _stretches(users: Int64Array) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers.

    >>> _stretches(np.array([0, 1, 2, 7]))
    [(0, 2), (7, 7)]
    """
    if not len(users):
        return []
    breaks = np.flatnonzero(np.diff(users) != 1)
    return list(zip(users[np.append(0, breaks + 1)].tolist(), users[np.append(breaks, len(users) - 1)].tolist(), strict=True))


def check_format(path: Path, found: Any, written: str = "") -> None:
    """Raise InputError for a file of another format number, naming the version that wrote it where that is known."""
    if str(found) != str(FORMAT):
        problem = f"format {found}{f', written by entrenous {written}' if written else ''}"
        fix = (
            f"use {f'entrenous {written}' if written else 'the version of entrenous that wrote it'}, or found the federation anew"
        )
        raise InputError(str(path), problem, expected=f"format {FORMAT}", fix=fix)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file with one JSON object. Raises InputError that names the file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(str(path), "no such file", fix="make a federation with `entrenous federation new FOLDER`") from None
    except (OSError, ValueError) as cause:
        raise InputError(str(path), f"cannot be read ({cause})", expected="one JSON object") from None
    if not isinstance(found, dict):
        raise InputError(str(path), "not a JSON object", expected="one JSON object")
    return found


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_atomically(path, (text + "\n").encode())
