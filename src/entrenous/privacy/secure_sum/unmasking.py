"""From shares to the masks still on the sum: the own ones of who sent, and those that who did not send would have taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from . import primitives as p
from .graph import Graph
from .messages import Advert
from .refusal import SumRefused, require
from .shamir import combine, weights
from .statements import about_own, about_pair, commitment


class Answers(NamedTuple):
    """The inputs of unmasking. view: of the roster; sharers, survivors: places, ascending; shares: {holder: {owner: share}}."""

    view: bytes
    graph: Graph
    adverts: Sequence[Advert]
    sharers: Sequence[int]
    survivors: Sequence[int]
    shares: Mapping[int, Mapping[int, bytes]]


def masks_left(answers: Answers) -> tuple[list[bytes], list[bytes]]:
    """Keys of the masks to add and to subtract. Raises SumRefused `threshold` or `shares`."""
    found, alive = secrets_of(answers), set(answers.survivors)
    plus: list[bytes] = []
    minus = [p.derive(found[u], *about_own(answers.view, u)) for u in answers.survivors]
    for gone in answers.sharers:
        if gone in alive:
            continue
        key = X25519PrivateKey.from_private_bytes(found[gone])
        for u in answers.graph.neighbours(gone):
            if u in alive:
                mask = p.derive(p.agree(key, answers.adverts[u].masks), *about_pair(answers.view, gone, u))
                (minus if gone > u else plus).append(mask)  # u added it if it is the lower
    return plus, minus


def secrets_of(answers: Answers) -> dict[int, bytes]:
    """The secret of each sharer: of the own mask of who sent, of the pairs' masks of who did not. Held against what was advertised."""
    t, alive, factors = answers.graph.threshold, set(answers.survivors), dict[tuple[int, ...], list[int]]()
    found = {}
    for owner in answers.sharers:
        points = tuple(h + 1 for h in answers.graph.around(owner) if h in answers.shares)[:t]
        require(len(points) == t, "threshold", f"{len(points)} shares of a party; at least {t}: nothing is revealed")
        factors[points] = factors.get(points) or weights(points)
        secret = combine({x: answers.shares[x - 1][owner] for x in points}, factors[points])
        if secret is None or not _as_advertised(secret, answers.adverts[owner], owner in alive):
            raise SumRefused("shares", "shares of a party give another secret than it committed to: it or a neighbour lied")
        found[owner] = secret
    return found


def _as_advertised(secret: bytes, advert: Advert, sent: bool) -> bool:
    return commitment(secret) == advert.seed if sent else p.public_of(secret) == advert.masks
