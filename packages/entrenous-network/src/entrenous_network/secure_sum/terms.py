"""The terms that all parties of a secure sum know beforehand (`SumTerms`), and the demands of a
client (`Floors`).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from entrenous.core.errors import InputError

from ..wire.statement import shared_head
from .merkle import LogHead
from .messages import DOMAIN, STAGES, encode
from .refusal import Code


@dataclass(frozen=True)
class SumTerms:
    """The agreement of the parties of one secure sum. Each party signs all of it with each
    of its messages, so a server cannot tell one party something else."""

    run: str
    """The identity of the federation: the hash of its terms."""
    round: int
    """Whose updates are summed."""
    attempt: int
    """The number of earlier attempts at this sum."""
    model: bytes
    """The sha256 of what devices train from: of all arrays of a download that they get alike."""
    length: int
    """Values of the vector."""
    bits: int = 64
    """Bits of a value, 64 or 32."""
    people: int = 0
    """The parties that a sum has at least, as the federation agreed: each is one person's."""
    noise: float = 0.0
    """The standard deviation of the noise that each device adds as its share; 0: none."""
    items: str = ""
    """The hexadecimal root of the log of items: parties with different lists make no sum."""

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise InputError("secure sum bits", f"got {self.bits}", expected="32 or 64")
        if len(self.model) != 32:
            raise InputError(
                "secure sum model", f"got {len(self.model)} bytes", expected="a sha256, 32 bytes"
            )
        # These numbers come from a server that may lie.
        if self.length < 1 or min(self.round, self.attempt) < 0:
            raise InputError("secure sum", "a length below 1, or a negative round or attempt")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the vector's values: unsigned, little-endian."""
        return np.dtype(f"<u{self.bits // 8}")

    @property
    def nbytes(self) -> int:
        """The bytes of a masked vector."""
        return self.length * self.bits // 8

    def head(self, stage: int, sender: str, view: bytes, body: bytes) -> bytes:
        """The head of the frame in which a client sends its message of a stage. Everybody can build
        it anew, so that one signature serves the server and all other clients.

        view: hash of all that the sender has seen so far.
        """
        kind = STAGES[stage]
        return shared_head(kind, self.run, self.round, self.attempt, sender, view, body)

    def digest(self, members: LogHead) -> bytes:
        """The sha256 of these terms and of the log of all who can be parties. The transcript of an
        attempt begins with it.

        The model is left out: each advert states it by itself, so that a wrong model has a separate
        error, and the messages after the adverts bind it.
        """
        # All fields in their order: one that is added later is signed without further care.
        about = [getattr(self, field.name) for field in fields(self) if field.name != "model"]
        return hashlib.sha256(encode((DOMAIN, about, *members))).digest()


@dataclass(frozen=True)
class Floors:
    """The demands of a client, which hold before anything leaves it."""

    people: int = 100
    """The parties of one sum, each one person's, the client included."""
    occupancy: float = 10.0
    """Devices that fill a row on average (`SumRows.occupancy`). From the measurements of MATCH: at
    10, one touched row in 2,000 is one device's alone."""
    noise: bool = False
    """True if there is noise on every row, with which no occupancy is asked for."""

    def unmet(self, people: float, occupancy: float = math.inf) -> tuple[Code, str] | None:
        """Returns the code and the words of the first demand that a sum does not meet; None if it
        meets all. Everybody who judges floors asks here.
        """
        if people < self.people:
            return "floor", f"{people:g} people; at least {self.people}"
        if self.noise or occupancy >= self.occupancy:
            return None
        said = f"{occupancy:.2f} devices a row of {people:g} people; at least {self.occupancy:g}"
        return "occupancy", f"{said}, or noise on every row"
