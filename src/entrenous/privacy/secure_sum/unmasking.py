"""From shares to the masks still on the sum: the own ones of who sent, and those that who did not
send would have taken away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple, final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ...core.errors import EntrenousError
from . import primitives as p
from .graph import Graph
from .messages import Advert
from .refusal import require
from .shamir import combine, weights
from .statements import about_own, about_pair, commitment

TRIES = 256  # subsets of a party's shares that are tried against what it advertised


class Answers(NamedTuple):
    """The inputs of unmasking. view: of the roster; sharers, survivors: places, ascending; shares:
    {holder: {owner: share}}, each as its owner committed to it."""

    view: bytes
    graph: Graph
    adverts: Sequence[Advert]
    sharers: Sequence[int]
    survivors: Sequence[int]
    shares: Mapping[int, Mapping[int, bytes]]


class MasksLeft(NamedTuple):
    """The masks that are still on a sum."""

    plus: list[bytes]
    """Keys of the masks to add."""
    minus: list[bytes]
    """Keys of the masks to subtract."""
    liars: list[int]
    """The places of parties that gave somebody a share of another secret, which did no harm."""


@final
class WrongSecret(EntrenousError):
    """Raised where shares that are all as their owner committed to them do not give the secret
    that this owner advertised. owner: the owner's place."""

    def __init__(self, owner: int) -> None:
        self.owner = owner
        super().__init__(f"the shares of party {owner} do not give the secret it advertised")


def masks_left(answers: Answers) -> MasksLeft:
    """The masks that are still on the sum of the survivors.

    Raises SumRefused `threshold` where too few right shares came, and WrongSecret.
    """
    alive = set(answers.survivors)
    found, liars = secrets_of(answers)
    plus: list[bytes] = []
    minus = [p.derive(found[u], *about_own(answers.view, u)) for u in answers.survivors]
    for gone in answers.sharers:
        if gone in alive:
            continue
        key = X25519PrivateKey.from_private_bytes(found[gone])
        for u in answers.graph.neighbours(gone):
            if u not in alive:
                continue
            common = p.agree(key, answers.adverts[u].masks)
            mask = p.derive(common, *about_pair(answers.view, gone, u))
            # the lower of a pair added the mask, the higher subtracted it
            if gone > u:
                minus.append(mask)
            else:
                plus.append(mask)
    return MasksLeft(plus, minus, liars)


def secrets_of(answers: Answers) -> tuple[dict[int, bytes], list[int]]:
    """The secret of each sharer by its place, and who gave somebody a share of another secret.

    The secret is the seed of who sent, and the masks' key of who did not. Raises SumRefused
    `threshold` where too few right shares came, and WrongSecret where no subset of them gives the
    secret that was advertised.
    """
    threshold = answers.graph.threshold
    found = {}
    liars = []
    factors = dict[tuple[int, ...], list[int]]()  # Lagrange's weights of points that were used
    for owner in answers.sharers:
        around = answers.graph.around(owner)
        holders = [holder for holder in around if owner in answers.shares.get(holder, {})]
        require(
            len(holders) >= threshold,
            "threshold",
            f"{len(holders)} right shares of a party; at least {threshold}: nothing is revealed",
        )
        subsets = _subsets(holders, threshold)
        secret = _of_subset(answers, owner, next(subsets), factors)
        if secret is None:
            liars.append(owner)
            tried = (_of_subset(answers, owner, some, factors) for some in subsets)
            secret = next((each for each in tried if each is not None), None)
        if secret is None:
            raise WrongSecret(owner)
        found[owner] = secret
    return found, liars


def _of_subset(
    answers: Answers, owner: int, holders: list[int], factors: dict[tuple[int, ...], list[int]]
) -> bytes | None:
    """The secret that the shares of some holders give; None if its owner advertised another."""
    points = tuple(holder + 1 for holder in holders)
    if points not in factors:
        factors[points] = weights(points)
    shares = {holder + 1: answers.shares[holder][owner] for holder in holders}
    secret = combine(shares, factors[points])
    sent = owner in answers.survivors
    return secret if secret is not None and _as_advertised(secret, answers, owner, sent) else None


def _subsets(holders: list[int], size: int) -> Iterator[list[int]]:
    """Subsets of so many holders, at most TRIES: the first ones, then without one, two, ..."""
    left_out = (
        without
        for count in range(len(holders) - size + 1)
        for without in combinations(holders, count)
    )
    for without in islice(left_out, TRIES):
        yield [holder for holder in holders if holder not in without][:size]


def _as_advertised(secret: bytes, answers: Answers, owner: int, sent: bool) -> bool:
    """Whether a secret is the one that its owner committed to before it shared it."""
    advert = answers.adverts[owner]
    if sent:
        return commitment(secret) == advert.seed
    return p.public_of(secret) == advert.masks
