"""The link by which somebody joins a federation: where its server is, which federation it is, by
whose certificate the server is known, and a token that the operator gave out.

    https://reads.example:8443/join#RUN.TOKEN.AUTHORITY

All that identifies stands behind the #, which no browser sends. Whoever has the link may join, as
often as the operator allows.

A link to several arms, which compare models on disjoint people, is the link of each with commas
between them. A device draws one of them by its own key.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple, Self

from ...core.errors import InputError
from .address import split_address

TOKEN = 16  # bytes
MOST_ARMS = 8
LOT = b"entrenous arm\0"  # begins what is hashed to draw an arm
FORM = re.compile(
    r"(https?)://([^/#\s]{1,255})/join#([0-9a-f]{32})\.([0-9a-f]{32})\.([0-9a-f]{64}|)"
)
AGAIN = "ask the operator for a new link"
EXPECTED = "https://HOST:PORT/join#RUN.TOKEN.AUTHORITY, whole, as the operator gave it out"


class JoinLink(NamedTuple):
    """The parts of a link."""

    server: str
    """HOST:PORT."""
    tls: bool
    """True if the server has a certificate."""
    run: str
    """The hash that names the federation, 32 hexadecimal digits."""
    token: str
    """32 hexadecimal digits, a secret of those who may join."""
    authority: str
    """The sha256 of the authority's certificate, as its file has it; "" for one that every system
    knows."""

    def __str__(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.server}/join#{self.run}.{self.token}.{self.authority}"

    @classmethod
    def parse(cls, text: str, where: str = "--link") -> Self:
        """Reads a link. Raises InputError for a text that is none, which names `where` it is."""
        found = FORM.fullmatch(text.strip())
        if found is None:
            raise InputError(where, "this is no link to join by", expected=EXPECTED)
        scheme, server, run, token, authority = found.groups()
        split_address(where, server)
        return cls(server, scheme == "https", run, token, authority)

    @classmethod
    def several(cls, text: str) -> list[Self]:
        """Reads a link to several arms, or to one federation. Raises InputError for a text that is
        none, for too many arms, and for one that is named twice.
        """
        parts = text.split(",")
        if len(parts) == 1:
            return [cls.parse(text)]
        if len(parts) > MOST_ARMS:
            raise InputError(
                "--link",
                f"{len(parts)} links with commas between them",
                expected=f"at most {MOST_ARMS}, one for each arm",
            )
        links = []
        for number, part in enumerate(parts, 1):
            links.append(cls.parse(part, f"--link, part {number} of {len(parts)}"))
        # Whoever is named twice would get more people than the others.
        if len({link.run for link in links}) < len(links):
            raise InputError(
                "--link",
                "two of its parts lead to the same federation",
                expected="each arm once",
                fix=AGAIN,
            )
        return links


def arm_of(key: bytes, arms: int) -> int:
    """Returns the number of the arm, of `arms`, that the owner of a public key is in: by lot, since
    nobody chooses the hash of a key, and the same one each time.
    """
    return int.from_bytes(hashlib.sha256(LOT + key).digest()) % arms


def authority_of(certificate: bytes) -> str:
    """Returns the name by which a link knows an authority: the sha256 of its file."""
    return hashlib.sha256(certificate).hexdigest()
