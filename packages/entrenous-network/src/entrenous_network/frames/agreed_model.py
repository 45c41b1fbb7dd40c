"""The trained model of a masked federation: a node keeps it when enough nodes have the same.

No round follows the last one, so nobody would find out that a server gave each node another model.
Therefore each node signs the hash of the model that came, and the server passes these words on. Two
models cannot both have a quorum (`secure_sum/graph.py`). In a large federation most members
may be away, and as many as a sum must have are enough: a server can then show two crowds two
models, as it can in a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from entrenous.core.types import Array

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..secure_sum.graph import quorum
from ..secure_sum.merkle import LogEntry, LogHead
from ..secure_sum.messages import MAX_PARTIES
from ..wire.completed import completed
from .frames import HEAD, SIGNATURE, Code, FrameRefused, headed, signed_by

AGREED = "agreed"  # brings the words of the others
# Answers: a model has come; it is the one that a quorum has.
TAKEN = "taken"
KEPT = "kept"


class OfferedModel(NamedTuple):
    """A model that has come and is not kept yet."""

    round: int
    digest: bytes
    """The sha256 of what all nodes get alike."""
    arrays: Mapping[str, Array]


@completed
class Word(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The head of a node's `taken`, with its signature."""

    said: Annotated[bytes, Meta(max_length=HEAD)]
    signature: Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE)]


@completed
class ProvenWord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A word, with the proof that it is a member's."""

    word: Word
    entry: LogEntry


Words = Annotated[list[ProvenWord], Meta(max_length=MAX_PARTIES)]


def written(words: Mapping[str, Word], members: Members, terms: FederationTerms) -> bytes:
    """Returns the words of nodes that have taken a model, to be passed on: as many as a node needs;
    b"" if there are too few. words: by node.
    """
    least = enough(members.head, terms)
    if len(words) < least:
        return b""
    # A few hundred words are enough, and every word goes to everybody.
    some = sorted(words)[:least]
    return msgspec.msgpack.encode([ProvenWord(words[name], members.entry(name)) for name in some])


def proven_anew(words: bytes, members: Members, terms: FederationTerms) -> bytes:
    """Returns words with proofs by the log of now, of which there may be more members since; b"" if
    they are too few by it.
    """
    proven = msgspec.msgpack.decode(words, type=Words) if words else []
    return written({one.entry.leaf.name: one.word for one in proven}, members, terms)


def enough(members: LogHead, terms: FederationTerms) -> int:
    """Returns how many nodes must have taken the same model before any of them keeps it."""
    # Nodes that were shut out count: the others do not know that they were.
    return min(quorum(members.size), terms.protection.people)


def check_agreed(
    body: memoryview, offered: OfferedModel, terms: FederationTerms, members: LogHead
) -> None:
    """Raises FrameRefused unless enough members have signed that they took the offered model."""
    try:
        words = msgspec.msgpack.decode(body, type=Words)
    except (ValueError, RecursionError) as bad:
        raise FrameRefused(Code.MALFORMED, type(bad).__name__) from None
    # By name, so that a word that is passed on twice counts once.
    agreed = set()
    for proven in words:
        entry = proven.entry
        frame = headed(proven.word.said, proven.word.signature)
        head = frame.head
        if frame.node != entry.leaf.name or not members.has(entry):
            raise FrameRefused(Code.UNKNOWN_NODE, "a word about the model is of no member")
        if not signed_by(frame, entry.leaf.key.hex()):
            raise FrameRefused(Code.BAD_SIGNATURE, "of a word about the model")
        # The word of another run or of another kind would be a signature for something else.
        if head.kind != TAKEN or head.run != terms.run:
            raise FrameRefused(Code.WRONG_KIND, "not the word of a node that took a model")
        if (head.round, head.model) == (offered.round, offered.digest):
            agreed.add(frame.node)
    least = enough(members, terms)
    if len(agreed) < least:
        text = f"{len(agreed)} nodes have the model that came here; at least {least}"
        raise FrameRefused(Code.WRONG_MODEL, text)
