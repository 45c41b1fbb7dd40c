"""Shamir's shares of 32-byte secrets: t of them give the secret, t - 1 say nothing about it.

A. Shamir, CACM 22 (1979).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from .messages import SHARE

# The first prime above 2^256, so that every 32-byte secret is a number of the field.
PRIME = 2**256 + 297


def split(secret: bytes, t: int, points: Sequence[int]) -> list[bytes]:
    """A share of `secret` (32 bytes) for each point (small, from 1): the values there of a random
    polynomial of degree t - 1.

    Points are small, so the numbers stay short and one reduction at the end does.
    """
    coefficients = [secrets.randbelow(PRIME) for _ in range(t - 1)]
    constant = int.from_bytes(secret, "big")
    shares = []
    for x in points:
        value = 0
        for coefficient in (*coefficients, constant):
            # Horner's rule, from the highest coefficient down to the secret.
            value = value * x + coefficient
        shares.append((value % PRIME).to_bytes(SHARE, "big"))
    return shares


def weights(points: Sequence[int]) -> list[int]:
    """Lagrange's weights at 0 of distinct points: the secret is the sum of weight x share."""
    at_zero = []
    for x in points:
        over = under = 1
        for other in points:
            if other != x:
                # Numerator and denominator apart: one inverse a point, since inverses are slow.
                over = over * other % PRIME
                under = under * (other - x) % PRIME
        at_zero.append(over * pow(under, -1, PRIME) % PRIME)
    return at_zero


def combine(shares: Mapping[int, bytes], factors: Sequence[int] | None = None) -> bytes | None:
    """The secret of t shares {point: share}; None if they give no 32-byte number. factors:
    `weights` of the points, if at hand.
    """
    factors = factors or weights(list(shares))
    values = [int.from_bytes(share, "big") for share in shares.values()]
    number = sum(w * value for w, value in zip(factors, values, strict=True)) % PRIME
    # A share that lies gives a number of the field that may be no secret at all.
    if number < 1 << 256:
        return number.to_bytes(32, "big")
    return None
