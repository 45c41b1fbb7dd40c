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

from ..core.contract.update import Total, Update, count_items, fixed
from ..core.errors import InputError
from ..core.types import Array, Int32Array, Int64Array

SLOT = 64  # bits of a value among others in one plaintext: 32 of its own, and room for 2^32 devices
OFFSET = (
    1 << 31
)  # added to each value, which is then positive: a negative one would be a number as long as n


class PublicKey(NamedTuple):
    """A Paillier public key: n, and how many values go into one ciphertext (1 as published, up to
    bits / 64).
    """

    n: Any
    slots: int = 1

    @property
    def nbytes(self) -> int:
        """The bytes of one ciphertext, a number below n^2."""
        return (2 * int(self.n).bit_length() + 7) // 8


class PrivateKey(NamedTuple):
    """A Paillier private key: phi = (p - 1)(q - 1) of n = p q."""

    phi: Any
    public: PublicKey


class Sealed(NamedTuple):
    """An encrypted `Update` of m devices, whose ptr, item and weight stay readable. rows: {name:
    object [n, c]}, dense: {name: object [m, c]}, numbers below n^2; tails: the shape of one row of
    each array before encryption.
    """

    ptr: Int64Array
    item: Int32Array
    rows: dict[str, Array]
    dense: dict[str, Array]
    weight: Array
    tails: dict[str, tuple[int, ...]]

    def nbytes(self, key: PublicKey) -> int:
        """Bytes on the wire: item ids and ciphertexts under `key`."""
        return self.item.nbytes + key.nbytes * sum(
            array.size for array in (*self.rows.values(), *self.dense.values())
        )


class SealedTotal(NamedTuple):
    """A sum of encrypted updates, to which the server can add without reading it. rows: {name:
    object [items, c]}; dense: {name: object [1, c]}."""

    rows: dict[str, Array]
    dense: dict[str, Array]
    senders: Int64Array
    weight: Int64Array
    devices: int
    tails: dict[str, tuple[int, ...]]


def new_key(bits: int = 2048, *, slots: int = 1) -> PrivateKey:
    """Generate a private key whose n has `bits` bits. Fewer than 2048 are for tests only. Raises
    InputError for too many slots."""
    if not 1 <= slots <= max(1, (bits - 1) // SLOT):
        raise InputError(
            "paillier slots",
            f"got {slots}",
            expected=f"1 to {max(1, (bits - 1) // SLOT)} for {bits} bits",
        )
    p = q = _prime(bits // 2)
    while q == p:
        q = _prime(bits // 2)
    return PrivateKey(_number((p - 1) * (q - 1)), PublicKey(_number(p * q), slots))


def seal(update: Update, key: PublicKey) -> Sealed:
    """Encrypt an update, to be sent in its place. Raises InputError for groups or shown arrays,
    which FedMF does not have.
    """
    if update.groups != 1 or update.shown:
        raise InputError(
            "paillier",
            "the update has groups or shown arrays",
            expected="rows and dense arrays to be added up",
        )
    scheme, arrays = _scheme(key), {**update.rows, **update.dense}
    sealed = {
        name: _encrypt(array.reshape(len(array), -1), scheme, key) for name, array in arrays.items()
    }
    tails = {name: array.shape[1:] for name, array in arrays.items()}
    rows, dense = ({name: sealed[name] for name in names} for names in (update.rows, update.dense))
    return Sealed(update.ptr, update.item, rows, dense, update.weight, tails)


def empty_sealed(like: Sealed, items: int) -> SealedTotal:
    """The encrypted sum of no updates, shaped as those of `like`: all ones, since 1 encrypts 0."""
    rows = {name: np.full((items, array.shape[1]), 1, object) for name, array in like.rows.items()}
    dense = {name: np.full((1, array.shape[1]), 1, object) for name, array in like.dense.items()}
    return SealedTotal(rows, dense, np.zeros(items, np.int64), np.zeros(1, np.int64), 0, like.tails)


def add_sealed(total: SealedTotal, sealed: Sealed, key: PublicKey) -> SealedTotal:
    """Add an encrypted update to a sum, in place, without the private key: the server's part."""
    scheme, devices = _scheme(key), len(sealed.ptr) - 1
    for name, array in sealed.rows.items():
        _add(total.rows[name], sealed.item, array, scheme)
    for name, array in sealed.dense.items():
        _add(total.dense[name], np.zeros(devices, np.int32), array, scheme)
    count_items(sealed.item, total.senders)
    total.weight[...] += fixed(sealed.weight).sum()
    return total._replace(devices=total.devices + devices)


def unseal(total: SealedTotal, key: PrivateKey) -> Total:
    """Decrypt a sum. The result equals that of `core.update.add_update` on the plain updates."""
    scheme, everybody = _scheme(key.public, key.phi), np.array([total.devices])
    rows = {
        name: _decrypt(array, total.senders, total.tails[name], scheme, key)
        for name, array in total.rows.items()
    }
    dense = {
        name: _decrypt(array, everybody, total.tails[name], scheme, key)
        for name, array in total.dense.items()
    }
    return Total(rows, total.senders, dense, total.weight, total.devices)


# ---- numbers into ciphertexts and back -----------------------------------------------------------


def _encrypt(values: Array, scheme: Any, key: PublicKey) -> Array:
    """float [k, w] -> ciphertexts, object [k, c] with c = w / slots, rounded up."""
    units = fixed(values)
    out = np.empty((len(units), -(-units.shape[1] // key.slots)), object)
    for r in range(len(units)):
        for c in range(out.shape[1]):
            plain = 0
            for slot, unit in enumerate(units[r, c * key.slots : (c + 1) * key.slots].tolist()):
                plain |= (unit + OFFSET) << (SLOT * slot)
            out[r, c] = scheme.encrypt(plain, random_key=1 + secrets.randbelow(int(key.n) - 1))
    return out


def _add(total: Array, place: Array, ciphertexts: Array, scheme: Any) -> None:
    for r, i in enumerate(place.tolist()):
        for c in range(total.shape[1]):
            total[i, c] = scheme.add(total[i, c], ciphertexts[r, c])


def _decrypt(
    ciphertexts: Array, count: Int64Array, tail: tuple[int, ...], scheme: Any, key: PrivateKey
) -> Int64Array:
    """Ciphertexts [k, c], row r the sum of count[r] -> int64 [k, *tail]."""
    width = prod(tail)
    out = np.zeros((len(ciphertexts), width), np.int64)
    for r in np.flatnonzero(count).tolist():
        for c in range(ciphertexts.shape[1]):
            plain = int(scheme.decrypt(ciphertexts[r, c]))
            for f in range(c * key.public.slots, min((c + 1) * key.public.slots, width)):
                out[r, f] = (plain & ((1 << SLOT) - 1)) - int(count[r]) * OFFSET
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
    return Paillier(keys={"public_key": {"n": key.n, "g": key.n + 1}, "private_key": {"phi": phi}})


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
        found = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if isprime(found):
            return found


def _number(value: int) -> Any:
    """An integer that gmpy2 computes with, if it is there."""
    try:
        from gmpy2 import mpz
    except ImportError:
        return value
    return mpz(value)
