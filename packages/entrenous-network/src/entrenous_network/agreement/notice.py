"""The notice of a server that moves: its addresses, numbered and signed by the key that signs its
requests. A node that knows a lower number is told of it, and an owner may bring it as a file.

A server is known by this key and by the authority of its certificate, never by the name of its
host. So nothing that an owner has agreed to changes with a notice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self, TypeAlias

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Meta, Struct

from entrenous.core.errors import InputError
from entrenous.core.files import write_text
from entrenous.core.lock import changing

from ..secure_sum.primitives import verified
from ..wire.completed import completed
from .address import LONGEST_NAME, split_address
from .files import Hex64, check_format, json_text
from .terms import FederationTerms

ADDRESSES = "addresses.json"
# Begins what a server signs for a notice, so that the signature is good for nothing else.
PURPOSE = b"entrenous addresses 1\0"
MOST = 4  # addresses of a notice
LAST = 2**53 - 1  # number of a notice, at most: every language can count so far
LARGEST = 4096  # characters of a notice, at most
AGAIN = "ask the operator for the newest notice"
# The longest host, its brackets, a colon and a port.
Address: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NAME + 8)]


@completed
class AddressNotice(Struct, frozen=True, forbid_unknown_fields=True):
    """The addresses of a federation's server, as its operator has signed them."""

    run: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    """The hash that names the federation."""
    number: Annotated[int, Meta(ge=1, le=LAST)]
    """Higher than that of each notice before."""
    addresses: Annotated[tuple[Address, ...], Meta(min_length=1, max_length=MOST)]
    """HOST:PORT, in the order in which nodes try them, newest first."""
    signature: Hex64

    @classmethod
    def sign(cls, key: Ed25519PrivateKey, run: str, number: int, addresses: Sequence[str]) -> Self:
        """Makes a notice. key: the server's."""
        signature = key.sign(_signed(run, number, addresses)).hex()
        return cls(run, number, tuple(addresses), signature)

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Reads a notice, without looking at its signature. where: the place that errors name.
        Raises InputError for a text that is none.
        """
        expected = f"run, number, 1 to {MOST} addresses and signature, and no more"
        if len(text) > LARGEST:
            raise InputError(where, f"{len(text)} characters", expected=expected, fix=AGAIN)
        try:
            fields = dict(json.loads(text))
            check_format(Path(where), fields.pop("format", None))
            notice = msgspec.convert(fields, cls)
        except (ValueError, TypeError, RecursionError) as wrong:
            problem = f"is no notice of addresses ({type(wrong).__name__})"
            raise InputError(where, problem, expected=expected, fix=AGAIN) from None
        for address in notice.addresses:
            split_address(where, address)
        return notice

    @property
    def text(self) -> str:
        """The notice as it travels and as files have it."""
        return json_text(msgspec.to_builtins(self))

    def check(self, where: str, terms: FederationTerms) -> None:
        """Raises InputError for a notice of another federation, or one that its server has not
        signed.
        """
        if self.run != terms.run:
            problem = f"is of federation {self.run}"
            raise InputError(where, problem, expected=f"that of {terms.run}", fix=AGAIN)
        signed = _signed(self.run, self.number, self.addresses)
        if not verified(bytes.fromhex(terms.operator), bytes.fromhex(self.signature), signed):
            problem = "is not signed by the server of this federation"
            raise InputError(where, problem, expected="the signature of its key", fix=AGAIN)


def known_notice(folder: Path) -> AddressNotice | None:
    """Returns the newest notice in the folder of a node or a server; None before the first. Raises
    InputError for a file that has none.
    """
    path = folder / ADDRESSES
    if not path.exists():
        return None
    return AddressNotice.parse(path.read_text(encoding="utf-8", errors="replace"), str(path))


def known_number(folder: Path) -> int:
    """Returns the number of the newest notice in a folder; 0 before the first. Errors as of
    `known_notice`.
    """
    notice = known_notice(folder)
    return 0 if notice is None else notice.number


def known_addresses(folder: Path, first: str) -> tuple[str, ...]:
    """Returns where a server may be reached, in the order in which nodes try it. first: the address
    that was known before any notice. Errors as of `known_notice`.
    """
    notice = known_notice(folder)
    moved = () if notice is None else notice.addresses
    return tuple(dict.fromkeys((*moved, first)))


def take_notice(folder: Path, text: str, where: str, terms: FederationTerms) -> AddressNotice:
    """Takes a notice into a node's folder, whoever brings it. One that is there already may come
    again.

    Raises InputError, and writes nothing, for a notice of another federation, one that its server
    has not signed, and one whose number is not higher than that of the notice that is there.
    """
    notice = AddressNotice.parse(text, where)
    notice.check(where, terms)
    # The node's process and its owner's command may come at once.
    with changing(folder):
        known = known_notice(folder)
        if known is not None and known != notice and known.number >= notice.number:
            problem = f"has number {notice.number}, and number {known.number} is known here"
            raise InputError(where, problem, expected="a higher number", fix=AGAIN)
        if known != notice:
            write_text(folder / ADDRESSES, notice.text)
    return notice


def _signed(run: str, number: int, addresses: Sequence[str]) -> bytes:
    """Returns the text that a server signs."""
    return PURPOSE + f"{run} {number} {' '.join(addresses)}".encode()
