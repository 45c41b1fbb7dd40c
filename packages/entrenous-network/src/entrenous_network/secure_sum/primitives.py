"""The cryptography under a secure sum, all of it from `cryptography` (OpenSSL): Ed25519, x25519,
HKDF-SHA256, AES-256 in GCM and CTR.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from entrenous.core.types import Array

from .messages import encode
from .refusal import SumRefused

# Bytes of every mask made and added at a time: zeros, mask and sum stay in the second-level cache.
BLOCK = 1 << 16
# Signatures that a process remembers: some rounds of a thousand parties have as many.
REMEMBERED = 1 << 14

Verify = Callable[[bytes, bytes, bytes], bool]
"""Checks a signature of a statement, as `verified`."""


def sign(identity: bytes, statement: bytes) -> bytes:
    """The Ed25519 signature of a statement, 64 bytes. identity: raw private key, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(identity).sign(statement)


def verified(public: bytes, signature: bytes, statement: bytes) -> bool:
    """Checks whether `signature` is a valid Ed25519 signature of `statement`. public: raw public
    key, 32 bytes.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


@final
class VerifiedOnce:
    """The check `verified` for several parties in one process, as those of a shop are: they are
    shown the same signatures, of which each is computed once.

    Only good signatures are remembered, by the hash of all three inputs, so that an answer never
    depends on what was asked before. The newest `REMEMBERED` stay.
    """

    def __init__(self) -> None:
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def __call__(self, public: bytes, signature: bytes, statement: bytes) -> bool:
        """Checks whether `signature` is a valid signature of `statement` by the key `public`."""
        asked = hashlib.sha256(encode((public, signature, statement))).digest()
        if asked in self._good:
            return True
        if not verified(public, signature, statement):
            return False
        self._good[asked] = None
        while len(self._good) > REMEMBERED:
            self._good.popitem(last=False)
        return True


def identity_of(identity: bytes) -> bytes:
    """The raw public key of a raw private Ed25519 key."""
    return Ed25519PrivateKey.from_private_bytes(identity).public_key().public_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The raw public key of a raw private x25519 key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: X25519PrivateKey, public: bytes) -> bytes:
    """The secret that two parties derive from one's private and the other's public key. Raises
    SumRefused `keys` for a point of low order, with which the secret would be the same for all.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise SumRefused("keys", "a public key that no one can agree with") from None


def derive(secret: bytes, *about: object) -> bytes:
    """Derives a 32-byte key from a secret for one purpose (HKDF-SHA256)."""
    return HKDF(SHA256(), 32, None, encode(about)).derive(secret)


def seal(key: bytes, plain: bytes) -> bytes:
    """Encrypts by AES-256-GCM, with a random nonce in front."""
    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(key).encrypt(nonce, plain, None)


def unseal(key: bytes, box: bytes) -> bytes | None:
    """Decrypts a box; None if it was made with another key, or was changed."""
    try:
        return AESGCM(key).decrypt(box[:12], box[12:], None)
    except InvalidTag:
        return None


def add_masks(words: Array, plus: Sequence[bytes], minus: Sequence[bytes] = ()) -> None:
    """Adds the masks of some keys to `words` and subtracts those of others, in place, modulo the
    size of a word.

    words: uint64 or uint32 [n]. A mask is AES-256-CTR under its key from counter 0: a key is used
    for one mask alone.
    """
    streams: list[tuple[CipherContext, np.ufunc]] = [(stream(key), np.add) for key in plus]
    streams += [(stream(key), np.subtract) for key in minus]
    zeros = memoryview(bytes(BLOCK))
    mask = np.empty(BLOCK + 16, np.uint8)  # OpenSSL wants room for one block more
    step = BLOCK // words.itemsize
    for low in range(0, len(words), step):
        part = words[low : low + step]
        values = mask[: part.nbytes].view(words.dtype)
        for encryptor, combine in streams:
            encryptor.update_into(zeros[: part.nbytes], mask.data)
            combine(part, values, out=part)


def stream(key: bytes) -> CipherContext:
    """The mask generator: AES-256-CTR from counter 0, which turns zeros into a mask."""
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
