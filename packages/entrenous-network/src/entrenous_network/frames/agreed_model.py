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
from msgspec import Meta

from entrenous.core.types import Array

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..secure_sum.graph import quorum
from ..secure_sum.messages import MAX_PARTIES
from ..wire.completed import completed
from .frames import HEAD, KNOWN, SIGNATURE, Code, FrameRefused, headed, signed_by

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
class Word(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The head of a node's `taken`, with its signature."""

    said: Annotated[bytes, Meta(max_length=HEAD)]
    signature: Annotated[bytes, Meta(min_length=SIGNATURE, max_length=SIGNATURE)]


Words = Annotated[list[Word], Meta(max_length=MAX_PARTIES)]


def written(words: Mapping[str, Word], members: Members, terms: FederationTerms) -> bytes:
    """Returns the words of nodes that have taken a model, to be passed on: as many as a node needs,
    of those members whom all others know longest; b"" if there are too few. words: by node.
    """
    least = enough(members, terms)
    if len(words) < least:
        return b""
    # A few hundred words are enough, and every word goes to everybody.
    order = sorted(words, key=lambda name: members.nodes[name].users[:1].tolist())
    return msgspec.msgpack.encode([words[name] for name in order[:least]])


def enough(members: Members, terms: FederationTerms) -> int:
    """Returns how many nodes must have taken the same model before any of them keeps it."""
    # Nodes that were shut out count: the others do not know that they were.
    return min(quorum(len(members.roll)), terms.protection.people)


def check_agreed(
    body: memoryview, offered: OfferedModel, terms: FederationTerms, members: Members
) -> None:
    """Raises FrameRefused unless enough members have signed that they took the offered model."""
    try:
        words = msgspec.msgpack.decode(body, type=Words)
    except (ValueError, RecursionError) as bad:
        raise FrameRefused(Code.MALFORMED, type(bad).__name__) from None
    # By name, so that a word that is passed on twice counts once.
    agreed = set()
    for word in words:
        frame = headed(word.said, word.signature)
        head = frame.head
        member = members.nodes.get(frame.node)
        if member is None:
            # Members may have come since; the server has the longer list.
            text = "a word about the model is of another one"
            raise FrameRefused(Code.FEWER_MEMBERS, text, {KNOWN: members.next_user})
        if not signed_by(frame, member.key):
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
