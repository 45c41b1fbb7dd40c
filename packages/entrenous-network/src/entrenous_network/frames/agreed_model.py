"""The trained model of a masked federation: a node keeps it when enough nodes have the same.

No round follows the last one, so nobody would find out that a server gave each node another model.
Therefore each node signs the hash of the model that came, and the server passes these words on, in
the form of a roster. Two
models cannot both have a quorum (`secure_sum/quorum.py`). In a large federation most members
may be away, and as many as a sum must have are enough: a server can then show two crowds two
models, as it can in a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from entrenous.core.types import Array

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..secure_sum.merkle import LogHead
from ..secure_sum.messages import Roster, SignedAdvert, encode
from ..secure_sum.primitives import verified
from ..secure_sum.quorum import quorum
from ..wire.statement import DOMAIN, shared_head
from .frames import Code, FrameRefused

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


def word_head(run: str, number: int, node: str, digest: bytes) -> bytes:
    """Returns the head of a node's word that it has taken a model, as everybody builds it anew.

    number: of the round; digest: sha256 of the model.
    """
    return shared_head(TAKEN, run, number, 0, node, digest)


def written(words: Mapping[str, bytes], members: Members, terms: FederationTerms) -> bytes:
    """Returns the words of nodes that have taken a model, to be passed on: as many as a node needs;
    b"" if there are too few. words: the signature of each, by node.
    """
    least = enough(members.head, terms)
    if len(words) < least:
        return b""
    # A few hundred words are enough, and every word goes to everybody.
    some = sorted(words)[:least]
    return encode([SignedAdvert(members.entry(name), words[name], b"") for name in some])


def proven_anew(words: bytes, members: Members, terms: FederationTerms) -> bytes:
    """Returns words with proofs by the log of now, of which there may be more members since; b"" if
    they are too few by it.
    """
    proven = msgspec.msgpack.decode(words, type=Roster) if words else []
    return written({one.entry.leaf.name: one.signature for one in proven}, members, terms)


def enough(members: LogHead, terms: FederationTerms) -> int:
    """Returns how many nodes must have taken the same model before any of them keeps it."""
    # Nodes that were shut out count: the others do not know that they were.
    return min(quorum(members.size), terms.protection.people)


def check_agreed(
    body: memoryview, offered: OfferedModel, terms: FederationTerms, members: LogHead
) -> None:
    """Raises FrameRefused unless enough members have signed that they took the offered model."""
    try:
        words = msgspec.msgpack.decode(body, type=Roster)
    except (ValueError, RecursionError) as bad:
        raise FrameRefused(Code.MALFORMED, type(bad).__name__) from None
    # By name, so that a word that is passed on twice counts once.
    agreed = set()
    for word in words:
        leaf = word.entry.leaf
        if not members.has(word.entry):
            raise FrameRefused(Code.UNKNOWN_NODE, "a word about the model is of no member")
        head = word_head(terms.run, offered.round, leaf.name, offered.digest)
        if not verified(leaf.key, word.signature, DOMAIN + head):
            text = "of a word about the model: forged, or about another one"
            raise FrameRefused(Code.BAD_SIGNATURE, text)
        agreed.add(leaf.name)
    least = enough(members, terms)
    if len(agreed) < least:
        text = f"{len(agreed)} nodes have the model that came here; at least {least}"
        raise FrameRefused(Code.WRONG_MODEL, text)
