"""What all parties of a secure sum know beforehand (`Terms`), and what a client insists on (`Floors`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InputError
from .messages import DOMAIN, MAX_NAME, MAX_PARTIES, encode

Roll = Mapping[str, bytes]  # party -> raw Ed25519 public key, 32 bytes


@dataclass(frozen=True)
class Terms:
    """One secure sum.

    run: the federation's run. round: what is summed. attempt: how often this was tried before. model: sha256 of the model at hand.
    length: values of the vector. bits: of a word, 64 or 32. dropout, malicious: shares of the parties, to be survived.
    """

    run: str
    round: int
    attempt: int
    model: bytes
    length: int
    bits: int = 64
    dropout: float = 0.3
    malicious: float = 0.1

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise InputError("secure sum bits", f"got {self.bits}", expected="32 or 64")
        if len(self.model) != 32:
            raise InputError("secure sum model", f"got {len(self.model)} bytes", expected="a sha256, 32 bytes")
        if self.length < 1 or min(self.round, self.attempt) < 0:
            raise InputError("secure sum", "a length below 1, or a negative round or attempt")
        if min(self.dropout, self.malicious) < 0 or self.dropout + self.malicious >= 1:
            raise InputError(
                "secure sum", f"dropout {self.dropout}, malicious {self.malicious}", expected="shares, together below 1"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the words: unsigned, little-endian."""
        return np.dtype(f"<u{self.bits // 8}")

    @property
    def nbytes(self) -> int:
        """Of a masked vector."""
        return self.length * self.bits // 8

    def digest(self, roll: Roll) -> bytes:
        """sha256 of all but the model, which every advert states by itself so that a wrong one can be called by its name."""
        about = (self.run, self.round, self.attempt, self.length, self.bits, self.dropout, self.malicious)
        return hashlib.sha256(encode((DOMAIN, about, sorted(roll.items())))).digest()


@dataclass(frozen=True)
class Floors:
    """What a client insists on before anything leaves it.

    cohort: parties, itself included, of whom only the sum is seen. occupancy: devices that fill a row on average, not asked for with
    noise on every row. Both from the measurements of MATCH: at 10, one touched row in 2,000 is one device's alone.
    """

    cohort: int = 100
    occupancy: float = 10.0
    noise: bool = False


def checked(roll: Roll) -> dict[str, bytes]:
    """The roll, by name. Raises InputError for names or keys that cannot be."""
    if len(roll) > MAX_PARTIES:
        raise InputError("secure sum roll", f"{len(roll)} parties", expected=f"at most {MAX_PARTIES}")
    for name, key in roll.items():
        if not 1 <= len(name.encode()) <= MAX_NAME or len(key) != 32:
            raise InputError(
                "secure sum roll", f"{name[:40]!r} with a key of {len(key)} bytes", expected=f"1 to {MAX_NAME} bytes and 32"
            )
    return dict(sorted(roll.items()))
