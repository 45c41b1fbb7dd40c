"""Computes from shares the masks that are still on the sum. A party that sent its vector leaves its
own mask. A party that sent none leaves the others' pair masks, which it would have cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple, final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from entrenous.core.errors import EntrenousError

from . import primitives as p
from .messages import Advert
from .refusal import require
from .shamir import combine, weights
from .statements import about_own, about_pair, commitment

TRIES = 256  # subsets of a party's shares that are tried against what it advertised


class Answers(NamedTuple):
    """The inputs of unmasking."""

    view: bytes
    """Of the roster."""
    quorum: int
    adverts: Sequence[Advert]
    sharers: Sequence[int]
    """The places of the parties that shared their secrets, ascending."""
    survivors: Sequence[int]
    """The places of the parties that sent their vector, ascending."""
    shares: Mapping[int, Mapping[int, bytes]]
    """{holder: {owner: share}}, each as its owner committed to it."""


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
    secrets, liars = secrets_of(answers)
    # Every survivor added its own mask.
    plus: list[bytes] = []
    minus = [p.derive(secrets[u], *about_own(answers.view, u)) for u in answers.survivors]
    # Between survivors the pairs' masks cancel; those with a party that is gone are still there.
    for gone in answers.sharers:
        if gone in alive:
            continue
        key = X25519PrivateKey.from_private_bytes(secrets[gone])
        for u in answers.survivors:
            common = p.agree(key, answers.adverts[u].masks)
            mask = p.derive(common, *about_pair(answers.view, gone, u))
            # The lower of a pair added the mask, the higher subtracted it.
            if gone > u:
                minus.append(mask)
            else:
                plus.append(mask)
    return MasksLeft(plus, minus, liars)


def secrets_of(answers: Answers) -> tuple[dict[int, bytes], list[int]]:
    """The secret of each sharer by its place, and the places of parties that gave somebody a share
    of another secret.

    The secret is the seed of a party that sent its vector, and the masks' key of one that did not.
    Raises SumRefused
    `threshold` where too few right shares came, and WrongSecret where no subset of them gives the
    secret that was advertised.
    """
    quorum = answers.quorum
    secrets = {}
    liars = []
    factors = dict[tuple[int, ...], list[int]]()  # Lagrange's weights of points that were used
    for owner in answers.sharers:
        holders = sorted(holder for holder, of in answers.shares.items() if owner in of)
        require(
            len(holders) >= quorum,
            "threshold",
            f"{len(holders)} right shares of a party; at least {quorum}: nothing is revealed",
        )
        # All shares are as their owner signed them, so a subset that gives another secret shows
        # that the owner lied. Another subset may still give the right one.
        tries = (
            _of_subset(answers, owner, subset, factors) for subset in _subsets(holders, quorum)
        )
        secret = next(tries)
        if secret is None:
            liars.append(owner)
            secret = next((right for right in tries if right is not None), None)
        if secret is None:
            raise WrongSecret(owner)
        secrets[owner] = secret
    return secrets, liars


def _of_subset(
    answers: Answers, owner: int, holders: list[int], factors: dict[tuple[int, ...], list[int]]
) -> bytes | None:
    """The secret that the shares of some holders give; None if its owner advertised another."""
    points = tuple(holder + 1 for holder in holders)
    if points not in factors:
        factors[points] = weights(points)
    shares = {holder + 1: answers.shares[holder][owner] for holder in holders}
    secret = combine(shares, factors[points])
    if secret is None or not _as_advertised(secret, answers, owner):
        return None
    return secret


def _subsets(holders: list[int], size: int) -> Iterator[list[int]]:
    """Subsets of so many holders, at most TRIES: the first ones, then without one, two, ..."""
    left_out = (
        without
        for count in range(len(holders) - size + 1)
        for without in combinations(holders, count)
    )
    for without in islice(left_out, TRIES):
        yield [holder for holder in holders if holder not in without][:size]


def _as_advertised(secret: bytes, answers: Answers, owner: int) -> bool:
    """Checks whether a secret is the one that its owner committed to before it shared it."""
    advert = answers.adverts[owner]
    if owner in answers.survivors:
        return commitment(secret) == advert.seed
    return p.public_of(secret) == advert.masks
