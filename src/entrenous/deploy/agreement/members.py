"""The membership list: the nodes of a federation, which users each of them serves, and who is no
member any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ...core.errors import InputError
from ...core.types import Int64Array
from .files import FORMAT, read_json

MEMBERS = "members.json"


class Member(NamedTuple):
    """A member of a federation. key: the node's Ed25519 public key; users: int64, the federation's
    numbers of the users it serves, ascending; a peer serves one. until: when a peer's ticket ends,
    in seconds since 1970; 0 with a server. rests: whether it is in no round any more, since
    somebody else was shut out (`leaving`).
    """

    key: Ed25519PublicKey
    users: Int64Array
    until: int = 0
    rests: bool = False


class FormerMember(NamedTuple):
    """A key that is no member's any more, since its node was shut out or has another key; `last` is
    its last user's number.
    """

    name: str
    key: str
    last: int
    until: int = 0


@final
class Members:
    """The membership list of a federation of `users` users. nodes: by name; former: keys that were
    members', oldest first.
    """

    def __init__(
        self, nodes: Mapping[str, Member], users: int, former: Sequence[FormerMember] = ()
    ) -> None:
        self.nodes, self.users, self.former = dict(sorted(nodes.items())), users, list(former)
        self.names = list(self.nodes)
        self._node = np.full(users, -1, np.int64)
        for number, (name, member) in enumerate(self.nodes.items()):
            if len(member.users) and (
                member.users[0] < 0
                or member.users[-1] >= users
                or np.any(np.diff(member.users) <= 0)
            ):
                problem, expected = (
                    "users out of order or range",
                    f"ascending numbers below {users}",
                )
                raise InputError(f"member {name}", problem, expected=expected)
            if np.any(self._node[member.users] >= 0):
                raise InputError(
                    f"member {name}",
                    "serves a user that another node serves",
                    expected="one node for each user",
                )
            self._node[member.users] = number
        self._rests = np.array([member.rests for member in self.nodes.values()], bool)

    def by_node(self, users: Int64Array) -> dict[str, Int64Array]:
        """The users among `users` that each node serves, ascending, for the nodes that serve some.
        Users without a node, or of one that rests, are left out."""
        node = self._node[users]
        if self._rests.any():
            node = np.where((node >= 0) & self._rests[node], -1, node)
        return {self.names[n]: np.sort(users[node == n]) for n in np.unique(node[node >= 0])}

    @property
    def next_user(self) -> int:
        """The first number that no user has or had."""
        lasts = [int(member.users[-1]) for member in self.nodes.values() if len(member.users)]
        return 1 + max((*lasts, *(one.last for one in self.former)), default=-1)

    def ever(self) -> dict[str, int]:
        """How many users each node has or had, of all that ever were members, by name.

        Of a former member its last user is known; its first one follows the last one of who was
        enrolled before it."""
        found = {name: len(member.users) for name, member in self.nodes.items()}
        lasts = [int(member.users[-1]) for member in self.nodes.values() if len(member.users)]
        lasts += [one.last for one in self.former]
        for one in self.former:
            before = max((last for last in lasts if last < one.last), default=-1)
            found.setdefault(one.name, one.last - before)
        return found

    def is_known(self, name: str, key: str) -> bool:
        """Whether a name or a key, hexadecimal, is or was a member's."""
        now = {(n, member.key.public_bytes_raw().hex()) for n, member in self.nodes.items()}
        known = now | {(one.name, one.key) for one in self.former}
        return any(name == other or key == theirs for other, theirs in known)

    def with_nodes(self, nodes: Iterable[tuple[str, Member]]) -> Members:
        """The list with some nodes added, or with other keys; a key that was another one's before
        is noted as a former one.
        """
        found, former = dict(self.nodes), list(self.former)
        for name, member in nodes:
            if name in found and found[name].key != member.key:
                former.append(_former(name, found[name]))
            found[name] = member
        return Members(found, self.users, former)

    def without(self, name: str) -> Members:
        """The list without a node, whose key is noted."""
        rest = {other: member for other, member in self.nodes.items() if other != name}
        return Members(rest, self.users, [*self.former, _former(name, self.nodes[name])])

    def roll(self) -> dict[str, bytes]:
        """The keys by which parties of secure sums know each other, by name: also of who was shut
        out. The roll is what all owners agreed on when they joined, and stays; whom a sum is of is
        for each node to see (`secure_sum.memory`).
        """
        former = {one.name: bytes.fromhex(one.key) for one in self.former}
        now = {name: member.key.public_bytes_raw() for name, member in self.nodes.items()}
        return {**former, **now}

    @property
    def parties(self) -> str:
        """The sha256 of who can be in sums: of the names of the nodes that do not rest; "" while
        those are all who ever were members.
        """
        active = [name for name, member in self.nodes.items() if not member.rests]
        if active == sorted(self.roll()):
            return ""
        return hashlib.sha256("\n".join(active).encode()).hexdigest()

    def resting(self, names: Collection[str]) -> Members:
        """The list with some nodes that are asked no more. They stay members, who are given the
        trained model.
        """
        found = {
            name: member._replace(rests=member.rests or name in names)
            for name, member in self.nodes.items()
        }
        return Members(found, self.users, self.former)

    def text(self) -> str:
        """The list as JSON text; users as [first, last] of consecutive numbers."""
        nodes = {
            name: {
                "key": member.key.public_bytes_raw().hex(),
                "users": _stretches(member.users),
                "until": member.until,
            }
            | ({"rests": True} if member.rests else {})
            for name, member in self.nodes.items()
        }
        return json.dumps(
            {"format": FORMAT, "nodes": nodes, "former": [one._asdict() for one in self.former]},
            indent=1,
        )

    @staticmethod
    def read(path: Path, users: int) -> Members:
        """Read the list of a federation of `users` users from a file. Raises InputError that names
        the file.
        """
        return Members.parse(read_json(path), str(path), users)

    @staticmethod
    def parse(found: Mapping[str, Any], where: str, users: int) -> Members:
        """The list of a federation of `users` users from the JSON object that `text` wrote. where:
        what errors name. Raises InputError.
        """
        try:
            nodes = {name: _member(node, users) for name, node in found["nodes"].items()}
            former = [FormerMember(**one) for one in found["former"]]
        except (KeyError, TypeError, ValueError, AttributeError) as bad:
            problem = f"not a membership list ({type(bad).__name__})"
            raise InputError(where, problem, expected="nodes, each with key and users") from None
        return Members(nodes, users, former)


def _former(name: str, member: Member) -> FormerMember:
    return FormerMember(
        name, member.key.public_bytes_raw().hex(), int(member.users[-1]), member.until
    )


def _member(said: Mapping[str, Any], most: int) -> Member:
    """A member as `Members.text` says it. Raises ValueError for numbers that no user has, before
    there is memory for them.
    """
    if any(not 0 <= low <= high < most for low, high in said["users"]):
        raise ValueError(f"users of 0 to {most - 1}")
    users = [np.arange(low, high + 1) for low, high in said["users"]]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"]))
    return Member(
        key,
        np.concatenate(users or [np.empty(0, np.int64)]),
        int(said["until"]),
        bool(said.get("rests", False)),
    )


def _stretches(users: Int64Array) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers.

    >>> _stretches(np.array([0, 1, 2, 7]))
    [(0, 2), (7, 7)]
    """
    if not len(users):
        return []
    breaks = np.flatnonzero(np.diff(users) != 1)
    return list(
        zip(
            users[np.append(0, breaks + 1)].tolist(),
            users[np.append(breaks, len(users) - 1)].tolist(),
            strict=True,
        )
    )
