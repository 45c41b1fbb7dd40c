"""The members of a federation, in the order in which they joined: which users each of them serves,
and who is no member any more. A file has a line for each change, and is never written anew.

With a server the list is a log (`secure_sum/merkle.py`): its head says all of it, and each device
has its own entry and the newest head that it has verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Self, final

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from entrenous.core.errors import InputError
from entrenous.core.types import Int64Array

from ..secure_sum.merkle import LEVELS, Count, Hash, Leaf, LogEntry, LogHead, MerkleTree, Proof
from ..wire.completed import completed
from ..wire.tensors import Buffer
from .files import (
    Hex32,
    Mark,
    NodeName,
    json_text,
    new_lines,
    read_json,
    write_json,
    write_lines,
)

MEMBERS = "members.jsonl"
MEMBER = "member.json"  # of a device: its own entry


@completed
class Member(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node that is or was a member, as a line of the list has it."""

    name: NodeName
    key: Hex32
    """The public key, hexadecimal."""
    first: Count
    """The federation's number of the first of its users, which are consecutive."""
    last: Count
    shop: Mark = ""
    until: Count = 0
    """The second since 1970 in which a peer's ticket ends; 0 with a server."""
    is_out: bool = False
    """True once the node was shut out."""

    @property
    def users(self) -> Int64Array:
        """The federation's numbers of its users, int64 ascending."""
        return np.arange(self.first, self.last + 1)

    @property
    def leaf(self) -> Leaf:
        """The member as the log has it."""
        shop = bytes.fromhex(self.shop)
        return Leaf(self.name, bytes.fromhex(self.key), self.first, self.last, shop)

    def line(self) -> bytes:
        """Returns the line of the list."""
        return msgspec.json.encode(self) + b"\n"


@completed
class OwnEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of a device in the log, and the newest head of the log that it has verified."""

    member: Member
    index: Count
    size: Count
    root: Hex32
    proof: Annotated[list[Hex32], Meta(max_length=LEVELS)]
    """Of the entry; empty once the device knows a newer head."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads an entry from a file. Raises InputError that names the file."""
        try:
            return msgspec.convert(read_json(path), cls)
        except ValueError as bad:
            problem = f"no member's entry ({type(bad).__name__})"
            raise InputError(str(path), problem, expected="member, index, size, root") from None

    @property
    def head(self) -> LogHead:
        """The newest head of the log that the device knows."""
        return LogHead(self.size, bytes.fromhex(self.root))

    def is_proven(self) -> bool:
        """Returns whether the log of the invitation has the member."""
        proof = [bytes.fromhex(digest) for digest in self.proof]
        return self.head.has(LogEntry(self.member.leaf, self.index, proof))

    def written(self, folder: Path, head: LogHead) -> Self:
        """Writes the entry with a newer head into a device's folder, and returns it."""
        newer = replace(self, size=head.size, root=head.root.hex(), proof=[])
        write_json(folder / MEMBER, msgspec.to_builtins(newer))
        return newer


@completed
class LongerLog(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The head of the log, as it travels to a device that knows an earlier one."""

    size: Count
    root: Hash
    proof: Proof
    """That the log begins as the earlier one."""


@final
class UsersByName(Mapping[str, Int64Array]):
    """The users of each node, made when they are asked for: of a million members most never are."""

    def __init__(self, nodes: Mapping[str, Member]) -> None:
        self._nodes = nodes

    def __getitem__(self, name: str) -> Int64Array:
        return self._nodes[name].users

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


@final
class Members:
    """The members of a federation of `users` users. nodes: those who are members now, by name.
    next_user: the first number that no user has or had. most_users: of one node that is or was a
    member.

    Raises InputError as `add` does.
    """

    def __init__(self, users: int, members: Iterable[Member] = ()) -> None:
        self.users = users
        self.nodes: dict[str, Member] = {}
        self.next_user = 0
        self.length = 0  # bytes of the file that were read or written
        self.most_users = 0
        self._all: list[Member] = []
        self._place: dict[str, int] = {}  # in `_all`
        self._keys = set[str]()
        self._tree = MerkleTree()
        # The place of the node that serves each user, -1 for none.
        self._node_of: Int64Array = np.full(users, -1, np.int64)
        for member in members:
            self.add(member)

    @classmethod
    def read(cls, path: Path, users: int) -> Self:
        """Reads the list of a federation of `users` users. Raises InputError that names the file,
        and as `add` does.
        """
        members = cls(users)
        members.follow(path)
        return members

    def follow(self, path: Path) -> None:
        """Takes the lines that came to the file since it was read. Raises InputError as `read`."""
        for line in new_lines(path, self.length).splitlines(keepends=True):
            try:
                self.add(msgspec.json.decode(line, type=Member))
            except ValueError as bad:
                problem = f"line {1 + len(self._all)} is no member ({type(bad).__name__})"
                fix = "restore it from a backup"
                raise InputError(str(path), problem, fix=fix) from None
            self.length += len(line)

    def write(self, path: Path, members: Iterable[Member]) -> None:
        """Appends lines to the file, which are on the disk when this returns. Takes off a line
        before them that was cut short. The caller holds the folder (`changing`), and has read all.
        """
        lines = b"".join(member.line() for member in members)
        write_lines(path, self.length, lines)
        self.length += len(lines)

    def add(self, member: Member) -> None:
        """Takes a new member at the end of the log, or one that is known with another ticket, or
        shut out: a leaf is for ever.

        Raises InputError for a name or key that is or was another's, and for users who do not exist
        or have another node.
        """
        place = self._place.get(member.name)
        if place is None:
            place = self._added(member)
        elif self._all[place].leaf != member.leaf:
            problem = "its key, users or mark have changed"
            raise InputError(f"member {member.name}", problem, expected="what it joined with")
        self._all[place] = member
        self.nodes[member.name] = member
        if member.is_out:
            del self.nodes[member.name]
            self._node_of[member.first : member.last + 1] = -1

    def _added(self, member: Member) -> int:
        """Adds a new member to the log. Returns its place. Raises InputError."""
        if member.key in self._keys:
            problem = "has the key of another member"
            raise InputError(f"member {member.name}", problem, expected="a key of its own")
        if not self.next_user <= member.first <= member.last + 1 <= self.users:
            problem = f"users {member.first} to {member.last}"
            expected = f"{self.next_user} or more, below {self.users}"
            raise InputError(f"member {member.name}", problem, expected=expected)
        place = len(self._all)
        self._all.append(member)
        self._place[member.name] = place
        self._keys.add(member.key)
        self._tree.append(msgspec.msgpack.encode(member.leaf))
        self._node_of[member.first : member.last + 1] = place
        self.next_user = member.last + 1
        self.most_users = max(self.most_users, self.next_user - member.first)
        return place

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
            served[self._all[number].name] = own
        return served

    @property
    def everyone(self) -> Mapping[str, Int64Array]:
        """The users of each node, by name."""
        return UsersByName(self.nodes)

    @property
    def former(self) -> list[Member]:
        """The members that were shut out."""
        return [member for member in self._all if member.is_out]

    def is_known(self, name: str, key: str) -> bool:
        """Returns True if a name, or a hexadecimal key, is or was a member's."""
        return name in self._place or key in self._keys

    # ---- the log ---------------------------------------------------------------------------------

    @property
    def head(self) -> LogHead:
        """The log as it is now."""
        return self._tree.head

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def entry(self, name: str) -> LogEntry:
        """Returns somebody who is or was a member, with the proof that the log has it."""
        place = self._place[name]
        return LogEntry(self._all[place].leaf, place, self._tree.inclusion(place))

    def own_entry(self, name: str) -> str:
        """Returns what a device keeps of its entry, as the text of a file."""
        entry = self.entry(name)
        head = self.head
        proof = [digest.hex() for digest in entry.proof]
        own = OwnEntry(self.nodes[name], entry.index, head.size, head.root.hex(), proof)
        return json_text(msgspec.to_builtins(own))

    def since(self, known: int) -> bytes:
        """Returns the head, with the proof that the log begins as the one of `known` members did,
        where that can be: 0 < known <= all.
        """
        size, root = self.head
        proof: list[bytes] = []
        if 0 < known <= size:
            proof = self._tree.consistency(known)
        return msgspec.msgpack.encode(LongerLog(size, root, proof))


def longer(body: Buffer, before: LogHead) -> LogHead:
    """Returns the head of a longer log, by what `Members.since` made of it. Raises ValueError for
    one that does not begin as the log `before` does.
    """
    said = msgspec.msgpack.decode(body, type=LongerLog)
    head = LogHead(said.size, said.root)
    if not head.extends(before, said.proof):
        raise ValueError("not the log that is known here with more members")
    return head
