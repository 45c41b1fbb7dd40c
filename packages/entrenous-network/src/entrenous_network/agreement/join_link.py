"""The link by which somebody joins a federation: where its server is, which federation it is, by
whose certificate the server is known, and a token that the operator gave out.

    https://reads.example:8443/join#RUN.TOKEN.AUTHORITY

All that identifies stands behind the #, which no browser sends. Whoever has the link may join, as
often as the operator allows.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple, Self

from entrenous.core.errors import InputError

from .address import split_address

TOKEN = 16  # bytes
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
    def parse(cls, text: str) -> Self:
        """Reads a link. Raises InputError for a text that is none."""
        found = FORM.fullmatch(text.strip())
        if found is None:
            raise InputError("--link", "this is no link to join by", expected=EXPECTED)
        scheme, server, run, token, authority = found.groups()
        split_address("--link", server)
        return cls(server, scheme == "https", run, token, authority)


def asking(run: str, token: str, name: str) -> bytes:
    """Returns the bytes that a device signs by its new key when it asks for a place: whoever shows
    the public half alone has not made the key. run, token: of the link; name: of the device.
    """
    return f"entrenous join\n{run}\n{token}\n{name}".encode()


def authority_of(certificate: bytes) -> str:
    """Returns the name by which a link knows an authority: the sha256 of its file."""
    return hashlib.sha256(certificate).hexdigest()
