"""The log of members as a Merkle tree (RFC 9162, section 2.1, with SHA-256): who has its size and
its root can check that somebody is on it, and that a longer log begins with this one.

Our own few lines: of the libraries on PyPI those that are kept have another tree, or a licence that
asks more of whoever uses this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import msgspec
from msgspec import Meta, Struct

from ..wire.completed import completed

LEVELS = 64  # hashes of a proof, at most
Name = Annotated[str, Meta(min_length=1, max_length=128)]
Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Proof = Annotated[list[Hash], Meta(max_length=LEVELS)]
# Every language can count so far.
Count = Annotated[int, Meta(ge=0, lt=2**53)]


@completed
class Leaf(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member as the log has it, for ever."""

    name: Name
    key: Hash
    """The Ed25519 public key."""
    first: Count
    """The first of its users, whose numbers are consecutive."""
    last: Count
    shop: Annotated[bytes, Meta(max_length=32)]
    """The public key of the shop whose device it is; b"" of a person's own."""


@completed
class LogEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member with the proof that the log has it."""

    leaf: Leaf
    index: Count
    """How many joined before."""
    proof: Proof


class Step(NamedTuple):
    """A step of the way from a node of the tree up to the root."""

    is_left: bool
    """True if the other child of the node above is the left one."""
    start: int
    """The first leaf under the other child."""
    end: int
    """The leaf after its last one."""


class LogHead(NamedTuple):
    """The log at one moment."""

    size: int
    root: bytes

    def has(self, entry: LogEntry) -> bool:
        """Returns whether the log has this member."""
        way = _way(entry.index, self.size) if entry.index < self.size else []
        digest = leaf_hash(msgspec.msgpack.encode(entry.leaf))
        # A longer proof is none: what is left out is not checked.
        if len(way) != len(entry.proof) or entry.index >= self.size:
            return False
        for step, other in zip(way, entry.proof, strict=True):
            digest = _above(step, digest, other)
        return digest == self.root

    def extends(self, before: LogHead, proof: Sequence[bytes]) -> bool:
        """Returns whether a log begins with another one, of one member or more."""
        if not 0 < before.size <= self.size:
            return False
        way = _way(before.size - 1, self.size, before.size)
        hashes = [*proof]
        # Where the log before is one node of the tree, that is known already.
        if not any(step.is_left for step in way):
            hashes.insert(0, before.root)
        if len(hashes) != 1 + len(way):
            return False
        old = new = hashes[0]
        for step, other in zip(way, hashes[1:], strict=True):
            new = _above(step, new, other)
            # On the right there was nothing yet.
            if step.is_left:
                old = _above(step, old, other)
        return (old, new) == (before.root, self.root)


@final
class MerkleTree:
    """A tree that keeps all its complete nodes, so that one more leaf costs the logarithm of their
    number.
    """

    def __init__(self) -> None:
        # The hashes of the runs of 2^level leaves, 32 bytes each.
        self._levels = [bytearray()]

    def __len__(self) -> int:
        return len(self._levels[0]) // 32

    def append(self, leaf: bytes) -> None:
        """Adds a leaf at the end."""
        digest = leaf_hash(leaf)
        level = 0
        self._levels[0] += digest
        # A pair is complete: so is the node above.
        while len(self._levels[level]) % 64 == 0:
            digest = node_hash(bytes(self._levels[level][-64:-32]), digest)
            level += 1
            if level == len(self._levels):
                self._levels.append(bytearray())
            self._levels[level] += digest

    @property
    def head(self) -> LogHead:
        """The tree as it is now."""
        return LogHead(len(self), self.root(len(self)))

    def root(self, size: int) -> bytes:
        """Returns the root of the first `size` leaves."""
        return self._root(0, size) if size else hashlib.sha256().digest()

    def inclusion(self, index: int) -> list[bytes]:
        """Returns the proof that the tree has a leaf."""
        return [self._root(step.start, step.end) for step in _way(index, len(self))]

    def consistency(self, before: int) -> list[bytes]:
        """Returns the proof that the tree begins with its first `before` leaves, 1 to all."""
        way = _way(before - 1, len(self), before)
        proof = [self._root(step.start, step.end) for step in way]
        lefts = [step.end for step in way if step.is_left]
        if lefts:
            proof.insert(0, self._root(max(lefts), before))
        return proof

    def _root(self, start: int, end: int) -> bytes:
        """Returns the hash over the leaves of a node: complete ones are kept."""
        level = (end - start - 1).bit_length()
        if end - start == 1 << level:
            at = 32 * (start >> level)
            return bytes(self._levels[level][at : at + 32])
        middle = start + (1 << level - 1)
        return node_hash(self._root(start, middle), self._root(middle, end))


def leaf_hash(leaf: bytes) -> bytes:
    """Returns the hash of a leaf."""
    return hashlib.sha256(b"\0" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the hash of a node by those of its children: no node is taken for a leaf."""
    return hashlib.sha256(b"\1" + left + right).digest()


def _above(step: Step, digest: bytes, other: bytes) -> bytes:
    """Returns the hash of the node above two."""
    if step.is_left:
        return node_hash(other, digest)
    return node_hash(digest, other)


def _way(index: int, size: int, edge: int = 0) -> list[Step]:
    """Returns the way up to the root of a tree of `size` leaves: from leaf `index`, or from the
    largest node that ends at `edge` on the way down to it.
    """
    start = 0
    end = size
    way = []
    while end - start > 1 and end != edge:
        # The left child has the largest power of two that leaves something to the right one.
        middle = start + (1 << (end - start - 1).bit_length() - 1)
        if index < middle:
            way.append(Step(False, middle, end))
            end = middle
        else:
            way.append(Step(True, start, middle))
            start = middle
    return way[::-1]
