"""The membership list: the nodes of a federation, which users each of them serves, and who is no
member any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, final

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Meta, Struct

from entrenous.core.errors import InputError
from entrenous.core.types import Int64Array

from ..secure_sum.terms import Roll
from ..wire.completed import completed
from .files import FORMAT, Hex32, Mark, read_json

MEMBERS = "members.json"
# Every language can count so far.
Whole: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]


class Member(NamedTuple):
    """A member of a federation."""

    key: Ed25519PublicKey
    users: Int64Array
    """The federation's numbers of the users that it serves, int64 ascending; a peer serves one."""
    until: int = 0
    """The second since 1970 in which a peer's ticket ends; 0 with a server."""
    shop: Mark = ""


class FormerMember(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that is no member's any more, since its node was shut out."""

    name: str
    key: Hex32
    """The public key, hexadecimal."""
    last: Whole
    """The number of its last user."""
    until: Whole = 0
    """The second since 1970 in which its ticket ends; 0 with a server."""
    shop: Mark = ""


class MemberFields(Struct, frozen=True, omit_defaults=True):
    """A member as lists have it."""

    key: Hex32
    users: list[tuple[Whole, Whole]]
    """The first and the last of each run of consecutive numbers."""
    until: Whole = 0
    shop: Mark = ""


@completed
class ListFields(Struct, frozen=True):
    """A list of members, or what somebody's list lacks, as it travels."""

    nodes: dict[str, MemberFields]
    former: list[FormerMember]
    after: Whole = 0
    """The first number that nobody has who is known, where the others are lacking."""


@final
class Members:
    """The membership list of a federation of `users` users.

    nodes: by name. former: keys that were members', oldest first. Raises InputError for a user that
    does not exist or has two nodes.
    """

    def __init__(
        self, nodes: Mapping[str, Member], users: int, former: Sequence[FormerMember] = ()
    ) -> None:
        self.users = users
        self.former = list(former)
        self.nodes = dict(sorted(nodes.items()))
        self.names = list(self.nodes)
        self._node_of = self._served()

    def _served(self) -> Int64Array:
        """Returns the place in `names` of the node that serves each user, int64 [users], -1 for
        none. Raises InputError.
        """
        # All at once: a list may have a hundred thousand members.
        of_each: list[Int64Array] = [np.empty(0, np.int64)]
        counts = []
        for member in self.nodes.values():
            of_each.append(member.users)
            counts.append(len(member.users))
        served = np.concatenate(of_each)
        places = np.repeat(np.arange(len(counts)), counts)
        falls = (np.diff(served) <= 0) & (np.diff(places) == 0)
        wrong = (served < 0) | (served >= self.users)
        wrong[1:] |= falls
        if wrong.any():
            name = self.names[places[np.argmax(wrong)]]
            problem = "users out of order or range"
            expected = f"ascending numbers below {self.users}"
            raise InputError(f"member {name}", problem, expected=expected)
        serves: Int64Array = np.full(self.users, -1, np.int64)
        serves[served] = places
        # Of two nodes with one user only the last stands there now.
        twice = serves[served] != places
        if twice.any():
            name = self.names[serves[served[np.argmax(twice)]]]
            problem = "serves a user that another node serves"
            raise InputError(f"member {name}", problem, expected="one node for each user")
        return serves

    def by_node(self, users: Int64Array) -> dict[str, Int64Array]:
        """Returns the users among `users` that each node serves, ascending, for the nodes that
        serve some. Users without a node are left out."""
        places = self._node_of[users]
        there = places >= 0
        order = np.lexsort((users[there], places[there]))
        asked = users[there][order]
        if not len(asked):
            return {}
        numbers, starts = np.unique(places[there][order], return_index=True)
        of_each = np.split(asked, starts[1:])
        served = {}
        for number, own in zip(numbers, of_each, strict=True):
            served[self.names[number]] = own
        return served

    @property
    def everyone(self) -> dict[str, Int64Array]:
        """The users of each node, by name."""
        return {name: member.users for name, member in self.nodes.items()}

    @cached_property
    def next_user(self) -> int:
        """The first number that no user has or had."""
        return 1 + max(self._last_users(), default=-1)

    def _last_users(self) -> list[int]:
        """Returns the last user of each node that is or was a member."""
        lasts = [former.last for former in self.former]
        for member in self.nodes.values():
            if len(member.users):
                lasts.append(int(member.users[-1]))
        return lasts

    def is_known(self, name: str, key: str) -> bool:
        """Returns True if a name, or a hexadecimal key, is or was a member's."""
        return name in self.roll or bytes.fromhex(key) in self.roll.values()

    def with_nodes(self, nodes: Iterable[tuple[str, Member]]) -> Members:
        """Returns the list with some nodes added, or with other tickets."""
        return Members({**self.nodes, **dict(nodes)}, self.users, self.former)

    def without(self, name: str) -> Members:
        """Returns the list without a node, whose key is noted."""
        rest = dict(self.nodes)
        former = _former(name, rest.pop(name))
        return Members(rest, self.users, [*self.former, former])

    @cached_property
    def roll(self) -> Roll:
        """The keys by which parties of secure sums know each other, by name: also of nodes that
        were shut out. It only grows; each node sees for itself whose sum it is asked for
        (`party_list`). Raises InputError.
        """
        keys = {member.name: bytes.fromhex(member.key) for member in self.former}
        shops = {member.name: member.shop for member in self.former}
        for name, member in self.nodes.items():
            keys[name] = member.key.public_bytes_raw()
            shops[name] = member.shop
        return Roll(keys, shops)

    def check_longer(self, before: Members) -> None:
        """Raises ValueError unless this list is `before` with further nodes: everybody who is or
        was a member there has the same key and users here, or is a former member, and all others
        are numbered after these.
        """
        for name in before.roll:
            if self.roll.entry(name) != before.roll.entry(name):
                raise ValueError("a member is missing, or has another key or mark")
        for name, member in self.nodes.items():
            known = before.nodes.get(name)
            if known is member:
                continue
            if known is None and np.any(member.users < before.next_user):
                raise ValueError("a new member has the number of somebody who is or was one")
            if known is not None and not np.array_equal(known.users, member.users):
                raise ValueError("a member has other users")

    def since(self, known: int) -> str:
        """Returns, as JSON text, what the list of somebody lacks to whom nobody from the number
        `known` on is known: further nodes, and all former ones.
        """
        nodes = {}
        for name, member in self.nodes.items():
            if len(member.users) and int(member.users[0]) >= known:
                nodes[name] = _fields(member)
        return _text(ListFields(nodes, self.former, known))

    def taken(self, text: str, where: str) -> Members:
        """Returns the longer list that a text has whole (`text`), or of which it has what this one
        lacks (`since`). Raises InputError, and ValueError for a list that is not longer.
        """
        fields = json.loads(text)
        members = members_from(fields, where, self.users)
        if "after" in fields:
            gone = {member.name for member in members.former}
            nodes = {name: member for name, member in self.nodes.items() if name not in gone}
            members = Members({**nodes, **members.nodes}, self.users, members.former)
        members.check_longer(self)
        return members

    def text(self) -> str:
        """Returns the list as JSON text, with a line for each node; users as [first, last] of
        consecutive numbers.
        """
        nodes = [f"{_text(name)}: {_text(_fields(member))}" for name, member in self.nodes.items()]
        every = ",\n".join(nodes)
        return f'{{"format": {FORMAT}, "former": {_text(self.former)}, "nodes": {{\n{every}\n}}}}'

    @staticmethod
    def read(path: Path, users: int) -> Members:
        """Reads the list of a federation of `users` users from a file. Raises InputError that names
        the file.
        """
        return members_from(read_json(path), str(path), users)


def members_from(fields: Mapping[str, Any], where: str, users: int) -> Members:
    """Returns the list of a federation of `users` users from the JSON object that `Members.text`
    wrote. where: the place that errors name. Raises InputError.
    """
    try:
        said = msgspec.convert(fields, ListFields)
        nodes = {name: _member(member, users) for name, member in said.nodes.items()}
    except ValueError as bad:
        problem = f"not a membership list ({type(bad).__name__})"
        raise InputError(where, problem, expected="nodes, each with key and users") from None
    return Members(nodes, users, said.former)


def _former(name: str, member: Member) -> FormerMember:
    last = int(member.users[-1])
    return FormerMember(name, _hexadecimal(member.key), last, member.until, member.shop)


def _text(part: object) -> str:
    return msgspec.json.encode(part).decode()


def _hexadecimal(key: Ed25519PublicKey) -> str:
    return key.public_bytes_raw().hex()


def _fields(member: Member) -> MemberFields:
    """Returns a member as lists have it, which `_member` reads."""
    key = _hexadecimal(member.key)
    return MemberFields(key, _stretches(member.users), member.until, member.shop)


def _member(fields: MemberFields, most: int) -> Member:
    """Returns a member from the fields that `_fields` wrote. Raises ValueError for numbers that no
    user has, before there is memory for them.
    """
    # A node may serve nobody.
    stretches: list[Int64Array] = [np.empty(0, np.int64)]
    for low, high in fields.users:
        # A list from elsewhere could ask for an array of 2^60 users.
        if not low <= high < most:
            raise ValueError(f"users of 0 to {most - 1}")
        stretches.append(np.arange(low, high + 1))
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(fields.key))
    return Member(key, np.concatenate(stretches), fields.until, fields.shop)


def _stretches(users: Int64Array) -> list[tuple[int, int]]:
    """Returns the first and the last of each run of consecutive numbers.

    >>> _stretches(np.array([0, 1, 2, 7]))
    [(0, 2), (7, 7)]
    """
    if not len(users):
        return []
    first, last = int(users[0]), int(users[-1])
    if last - first + 1 == len(users):
        return [(first, last)]
    breaks = np.flatnonzero(np.diff(users) != 1)
    firsts = users[np.append(0, breaks + 1)]
    lasts = users[np.append(breaks, len(users) - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
