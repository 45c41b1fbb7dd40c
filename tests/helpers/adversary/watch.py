"""What really happens inside the nodes of an attempt: secrets, shares, keys and vectors before
their masks. An oracle that knows all of it can say what an adversary is able to compute; the
adversary itself is given what it saw alone.

The same names draw the same secrets, so that two attempts differ by nothing but a history.
"""

from __future__ import annotations

import hashlib
import secrets as system
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from entrenous_network.frames.frames import Frame
from entrenous_network.secure_sum import primitives, shamir
from entrenous_network.secure_sum import server as sum_server
from entrenous_network.secure_sum.refusal import Code, require
from entrenous_network.secure_sum.server import SecureSumServer
from entrenous_network.server.exchange import Exchange
from entrenous_network.server.intake import Open, RoundIntake
from entrenous_network.server.secure_server import SecureRound

from entrenous.core.types import Array

SERVER = "the server"
# the adversary's own key, of which it knows the private half
OWN = hashlib.sha256(b"the adversary's own").digest()


class Split(NamedTuple):
    """A secret that a node has split. node: whose; asked: number of the question it answered;
    shares: by the point of their holder."""

    node: str
    asked: int
    secret: bytes
    shares: dict[int, bytes]


class Masking(NamedTuple):
    """A vector that a node has masked. before, after: its words; plus, minus: the masks' keys."""

    node: str
    asked: int
    before: Array
    after: Array
    plus: tuple[bytes, ...]
    minus: tuple[bytes, ...]


class Box(NamedTuple):
    """Something that a node has encrypted for another. key: of the box; plain: what is in it."""

    node: str
    asked: int
    key: bytes
    plain: bytes


class Watch:
    """What is seen of everybody's inside. now: whose turn it is, and the number of the question."""

    def __init__(self) -> None:
        self.now: tuple[str, int] = (SERVER, -1)
        self.turn = 0  # of the attack's passes
        self.splits: list[Split] = []
        self.maskings: list[Masking] = []
        self.boxes: list[Box] = []
        self.drawn: set[bytes] = set()  # all secrets of 32 bytes
        self.derived: dict[bytes, set[bytes]] = {}  # key -> the secrets that it is derived from
        self.agreed: dict[bytes, set[bytes]] = {}  # common secret -> both public keys
        self.totals: list[Array] = []  # that the server has computed
        self._drawn: dict[str, int] = {}

    def renew(self, node: str) -> None:
        """A node begins anew, and draws again what it has drawn."""
        self._drawn.pop(node, None)

    def draw(self, n: int) -> bytes:
        """The next bytes that somebody draws."""
        name = self.now[0]
        self._drawn[name] = self._drawn.get(name, 0) + 1
        found = hashlib.shake_256(f"{name} {self._drawn[name]}".encode()).digest(n)
        self.drawn |= {found} if n == 32 and name != SERVER else set()
        return found

    # ---- what is called instead ------------------------------------------------------------------

    def split(self, secret: bytes, t: int, points: Any) -> list[bytes]:
        shares = shamir_split(secret, t, points)
        self.splits.append(Split(*self.now, secret, dict(zip(points, shares, strict=True))))
        return shares

    def add_masks(self, words: Array, plus: Any, minus: Any = ()) -> None:
        before = words.copy()
        add_masks(words, plus, minus)
        if self.now[0] != SERVER:
            self.maskings.append(
                Masking(*self.now, before, words.copy(), tuple(plus), tuple(minus))
            )

    def derive(self, secret: bytes, *about: object) -> bytes:
        key = derive(secret, *about)
        self.derived.setdefault(key, set()).add(secret)
        return key

    def seal(self, key: bytes, plain: bytes) -> bytes:
        self.boxes.append(Box(*self.now, key, plain))
        return seal(key, plain)

    def agree(self, private: X25519PrivateKey, public: bytes) -> bytes:
        common = agree(private, public)
        self.agreed.setdefault(common, set()).update(
            (private.public_key().public_bytes_raw(), public)
        )
        return common

    def total(self, server: SecureSumServer) -> Array:
        found = total(server)
        self.totals.append(found)
        return found


shamir_split, add_masks, derive = shamir.split, primitives.add_masks, primitives.derive
agree, seal = primitives.agree, primitives.seal
total, combine = SecureSumServer.total, shamir.combine


class Drawing:
    """The module `secrets` with the bytes of a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def token_bytes(self, n: int = 32) -> bytes:
        return self._watch.draw(n)

    def randbelow(self, limit: int) -> int:
        return int.from_bytes(self._watch.draw(48), "big") % limit

    def __getattr__(self, name: str) -> Any:
        return getattr(system, name)


class Keys:
    """X25519PrivateKey whose new keys are drawn by a watch."""

    from_private_bytes = staticmethod(X25519PrivateKey.from_private_bytes)

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def generate(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self._watch.draw(32))


@contextmanager
def watched(lenient: bool = True) -> Iterator[Watch]:
    """Everything that happens within is seen. lenient: the server is the adversary's, and takes
    what an honest one would not."""
    watch = Watch()
    with ExitStack() as undo:
        for old, new in (
            (system, Drawing(watch)),
            (X25519PrivateKey, Keys(watch)),
            (shamir_split, watch.split),
            (add_masks, watch.add_masks),
            (derive, watch.derive),
            (agree, watch.agree),
            (seal, watch.seal),
        ):
            _everywhere(undo, old, new)
        _put(undo, SecureSumServer, "total", lambda self: watch.total(self))
        _put(undo, Exchange, "pause", lambda self, seconds: None)
        if lenient:
            _put(undo, RoundIntake, "belonging", _whatever)
            _put(undo, RoundIntake, "identified", lambda self, frame: frame.node)
            _put(undo, SecureRound, "_enough", lambda self, heard: bool(heard))
            _put(undo, sum_server, "require", _require_but_the_model)
        yield watch


def _whatever(self: RoundIntake, frame: Frame, node: str, now: Open | None) -> Open:
    assert now is not None
    return now


def _require_but_the_model(condition: bool, code: Code, text: str) -> None:
    """The server takes adverts of any model."""
    require(condition or code == "model", code, text)


def _everywhere(undo: ExitStack, old: Any, new: Any) -> None:
    """Replaces something in all modules of the secure sum that have it under any name."""
    parts = ("entrenous_network.secure_sum.", "entrenous_network.frames.secure")
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(parts)]
    places = [
        (module, name) for module in modules for name, value in vars(module).items() if value is old
    ]
    assert places, f"{old} is nowhere: the harness no longer fits the source"
    for module, name in places:
        _put(undo, module, name, new)


def _put(undo: ExitStack, owner: Any, name: str, new: Any) -> None:
    old: Callable[..., Any] = getattr(owner, name)
    setattr(owner, name, new)
    undo.callback(setattr, owner, name, old)


def public_of(secret: bytes) -> bytes:
    """The public key that belongs to 32 bytes as a private one."""
    return primitives.public_of(secret)


def opened_vector(words: Array) -> np.ndarray:
    """Unsigned words as the numbers that they stand for."""
    return words.view(f"<i{words.itemsize}").astype(np.int64)
