"""Updates added up under Paillier encryption, as FedMF has it: on the same integers as everywhere,
so that the decrypted sum is the sum.

P. Paillier, "Public-key cryptosystems based on composite degree residuosity classes", EUROCRYPT
1999: Enc(a) Enc(b) mod n^2 decrypts to a + b mod n. The devices share the private key, the server
has the public one and adds what it cannot read; a device decrypts the sum. A single device that
hands the key to the server hands it everything; masks that cancel in a sum need no such trust and
cost far less. Item ids, counts of senders and weights are in the clear here.

The arithmetic is lightphe's (MIT). It takes keys and noise from Python's predictable generator
unless it is given them, so both are drawn here from the system's (`secrets`), and never from the
seed of a run. With gmpy2 installed the same calls run on its integers, much faster.
"""

from __future__ import annotations

import secrets
from math import prod
from typing import Any, NamedTuple

import numpy as np

from entrenous.core.contract.update import Total, Update, count_items, fixed
from entrenous.core.errors import InputError
from entrenous.core.types import Array, Int32Array, Int64Array

SLOT = 64  # bits of a value among others in one plaintext: 32 of its own, and room for 2^32 devices
# Added to each value, which is then positive: a negative one would be a number as long as n.
OFFSET = 1 << 31


class PublicKey(NamedTuple):
    """A Paillier public key."""

    n: Any
    slots: int = 1
    """Values in one ciphertext: 1 as published, up to bits / 64."""

    @property
    def nbytes(self) -> int:
        """The bytes of one ciphertext, a number below n^2."""
        return (2 * int(self.n).bit_length() + 7) // 8


class PrivateKey(NamedTuple):
    """A Paillier private key: phi = (p - 1)(q - 1) of n = p q."""

    phi: Any
    public: PublicKey


class Sealed(NamedTuple):
    """An encrypted `Update` of m devices, whose ptr, item and weight stay readable."""

    ptr: Int64Array
    item: Int32Array
    rows: dict[str, Array]
    """{name: object [n, c]}, numbers below n^2."""
    dense: dict[str, Array]
    """{name: object [m, c]}, numbers below n^2."""
    weight: Array
    tails: dict[str, tuple[int, ...]]
    """The shape of one row of each array before encryption."""

    def nbytes(self, key: PublicKey) -> int:
        """Bytes on the wire: item ids and ciphertexts under `key`."""
        arrays = (*self.rows.values(), *self.dense.values())
        return self.item.nbytes + key.nbytes * sum(array.size for array in arrays)


class SealedTotal(NamedTuple):
    """A sum of encrypted updates, to which the server can add without reading it."""

    rows: dict[str, Array]
    """{name: object [items, c]}."""
    dense: dict[str, Array]
    """{name: object [1, c]}."""
    senders: Int64Array
    weight: Int64Array
    devices: int
    tails: dict[str, tuple[int, ...]]


def new_key(bits: int = 2048, *, slots: int = 1) -> PrivateKey:
    """Generates a private key whose n has `bits` bits. Fewer than 2048 are for tests only. Raises
    InputError for too many slots.
    """
    most = max(1, (bits - 1) // SLOT)
    if not 1 <= slots <= most:
        raise InputError("paillier slots", f"got {slots}", expected=f"1 to {most} for {bits} bits")
    p = q = _prime(bits // 2)
    while q == p:
        q = _prime(bits // 2)
    return PrivateKey(_number((p - 1) * (q - 1)), PublicKey(_number(p * q), slots))


def seal(update: Update, key: PublicKey) -> Sealed:
    """Encrypts an update, to be sent in its place. Raises InputError for groups or shown arrays,
    which FedMF does not have.
    """
    if update.groups != 1 or update.shown:
        raise InputError(
            "paillier",
            "the update has groups or shown arrays",
            expected="rows and dense arrays to be added up",
        )
    scheme = _scheme(key)
    rows = {name: _encrypt(array, scheme, key) for name, array in update.rows.items()}
    dense = {name: _encrypt(array, scheme, key) for name, array in update.dense.items()}
    arrays = {**update.rows, **update.dense}
    tails = {name: array.shape[1:] for name, array in arrays.items()}
    return Sealed(update.ptr, update.item, rows, dense, update.weight, tails)


def empty_sealed(like: Sealed, items: int) -> SealedTotal:
    """The encrypted sum of no updates, shaped as those of `like`: all ones, since 1 encrypts 0."""
    rows = {name: np.full((items, array.shape[1]), 1, object) for name, array in like.rows.items()}
    dense = {name: np.full((1, array.shape[1]), 1, object) for name, array in like.dense.items()}
    return SealedTotal(rows, dense, np.zeros(items, np.int64), np.zeros(1, np.int64), 0, like.tails)


def add_sealed(total: SealedTotal, sealed: Sealed, key: PublicKey) -> SealedTotal:
    """Adds an encrypted update to a sum, in place, without the private key: the server's part."""
    scheme, devices = _scheme(key), len(sealed.ptr) - 1
    for name, array in sealed.rows.items():
        _add(total.rows[name], sealed.item, array, scheme)
    for name, array in sealed.dense.items():
        _add(total.dense[name], np.zeros(devices, np.int32), array, scheme)
    count_items(sealed.item, total.senders)
    total.weight[...] += fixed(sealed.weight).sum()
    return total._replace(devices=total.devices + devices)


def unseal(total: SealedTotal, key: PrivateKey) -> Total:
    """Decrypts a sum. The result equals that of `core.update.add_update` on the plain updates."""
    scheme = _scheme(key.public, key.phi)

    def plain(arrays: dict[str, Array], count: Int64Array) -> dict[str, Int64Array]:
        return {
            name: _decrypt(array, count, total.tails[name], scheme, key)
            for name, array in arrays.items()
        }

    rows = plain(total.rows, total.senders)
    dense = plain(total.dense, np.array([total.devices]))
    return Total(rows, total.senders, dense, total.weight, total.devices)


# ---- numbers into ciphertexts and back -----------------------------------------------------------


def _encrypt(values: Array, scheme: Any, key: PublicKey) -> Array:
    """float [k, ...] -> ciphertexts, object [k, c]: c is the width of a row / slots, rounded up."""
    units = fixed(values.reshape(len(values), -1))
    width = -(-units.shape[1] // key.slots)
    ciphertexts = np.empty((len(units), width), object)
    for r in range(len(units)):
        for c in range(width):
            # Several values next to each other in one plaintext, 64 bits for each.
            plain = 0
            part = units[r, c * key.slots : (c + 1) * key.slots]
            for slot, unit in enumerate(part.tolist()):
                plain |= (unit + OFFSET) << (SLOT * slot)
            # From the system: whoever knows the noise can read the value.
            noise = 1 + secrets.randbelow(int(key.n) - 1)
            ciphertexts[r, c] = scheme.encrypt(plain, random_key=noise)
    return ciphertexts


def _add(total: Array, place: Array, ciphertexts: Array, scheme: Any) -> None:
    """Adds ciphertexts, row r to the row place[r] of a sum, in place."""
    for r, i in enumerate(place.tolist()):
        for c in range(total.shape[1]):
            total[i, c] = scheme.add(total[i, c], ciphertexts[r, c])


def _decrypt(
    ciphertexts: Array, count: Int64Array, tail: tuple[int, ...], scheme: Any, key: PrivateKey
) -> Int64Array:
    """Ciphertexts [k, c], row r the sum of count[r] -> int64 [k, *tail]."""
    width, slots = prod(tail), key.public.slots
    lowest_slot = (1 << SLOT) - 1
    out = np.zeros((len(ciphertexts), width), np.int64)
    # Rows that nobody added to hold no offset: they are 0.
    for r in np.flatnonzero(count).tolist():
        offsets = int(count[r]) * OFFSET  # each device has added one
        for c in range(ciphertexts.shape[1]):
            plain = int(scheme.decrypt(ciphertexts[r, c]))
            for f in range(c * slots, min((c + 1) * slots, width)):
                out[r, f] = (plain & lowest_slot) - offsets
                plain >>= SLOT
    return out.reshape(len(ciphertexts), *tail)


def _scheme(key: PublicKey, phi: Any = None) -> Any:
    """lightphe's Paillier with this key; without phi it encrypts and adds alone."""
    try:
        from lightphe.cryptosystems.Paillier import Paillier
    except ImportError:
        raise InputError(
            "paillier", "lightphe is not installed", fix='pip install "entrenous[paillier]"'
        ) from None
    public = {"n": key.n, "g": key.n + 1}
    return Paillier(keys={"public_key": public, "private_key": {"phi": phi}})


def _prime(bits: int) -> int:
    """A prime of exactly `bits` bits, its two highest set, so that the product of two has twice as
    many.
    """
    try:
        from sympy import isprime  # lightphe depends on it
    except ImportError:
        raise InputError(
            "paillier", "lightphe is not installed", fix='pip install "entrenous[paillier]"'
        ) from None
    while True:
        number = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if isprime(number):
            return number


def _number(value: int) -> Any:
    """An integer that gmpy2 computes with, if it is there."""
    try:
        from gmpy2 import mpz
    except ImportError:
        return value
    return mpz(value)
