"""`Greeter`: asks a node for its name, and checks the answer.

A node signs its refusal of a kind that it does not know, and repeats the question's `model` in it:
a number that was drawn for this question. No node needs to know of Flower for that.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.files import IDENTITY, read_identity
from entrenous_network.agreement.members import MEMBERS, Members
from entrenous_network.agreement.terms import TERMS, FederationTerms
from entrenous_network.frames.frames import FrameRefused, opened, seal, signed_by

WHO = "who"  # a kind that no node knows
LONGEST = 1024  # bytes of a refusal


@final
class Greeter:
    """The server's question for a node's name. run: the federation's identity; members: whom it may
    find; key: the server's own.
    """

    def __init__(self, run: str, members: Members, key: Ed25519PrivateKey) -> None:
        self._run, self._members, self._key = run, members, key

    @staticmethod
    def of(folder: Path) -> Greeter:
        """The greeter of a server's folder. Raises InputError for a folder that is no server's."""
        terms = FederationTerms.read(folder / TERMS)
        return Greeter(
            terms.run, Members.read(folder / MEMBERS, terms.users), read_identity(folder / IDENTITY)
        )

    def hello(self) -> tuple[bytes, bytes]:
        """A signed frame that asks a node for its name, and the number that the answer must
        repeat.
        """
        number = secrets.token_bytes(32)
        return seal(self._key, WHO, run=self._run, node="server", model=number), number

    def name(self, answer: bytes, number: bytes) -> str | None:
        """The name of the member who signed an answer; None for a stranger's, another federation's,
        or the answer to another question.
        """
        try:
            found = opened(answer, LONGEST)
        except FrameRefused:
            return None
        member, head = self._members.nodes.get(found.node), found.head
        if (head.kind, head.run, head.model) != ("refused", self._run, number) or member is None:
            return None
        return found.node if signed_by(found, member.key) else None
