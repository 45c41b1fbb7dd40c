"""FPL's devices as a receiver of sums follows them: a history and the public models of the rounds
give p_u.

A device adds to the sum of an item a multiple of p_u, and the same multiple to the sum of its bias
(FPL eq. 5), so that its direction is [p_u, 1]. Of T triples, an item of n that it consumed is in T
/ n, of which a share pi is sent; another one of I items is in T / (I - n), with the opposite sign.
The slope s of a triple depends on the other item of the triple, over which it is taken in the mean:
for scores of mean m and variance v, E s(m - x) is about s((m - x) / sqrt(1 + pi v / 8)) (MacKay
1992). p_u begins at 0, the mean of its draw, moves in each round as expected, and is corrected by
the sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Int64Array

from ..transcript import Transcript
from ._followed import (
    Followed,
    Way,
    corrected,
    first_vectors,
    lengths,
    sigmoid,
    sums_noise,
    typical,
    usable,
)
from ._pairwise import PairwiseRates, pairwise_rates

MOST = 0.3  # variance of a number of p_u


class Slopes(NamedTuple):
    """The chances of the items of a triple, and its mean slope: all float32 [m, items]."""

    consumed: Float32Array
    """The chance that an item is the triple's consumed one."""
    drawn: Float32Array
    """The chance that it is the other one."""
    up: Float32Array
    """The slope of triples in which it is the consumed one."""
    down: Float32Array
    """The slope of triples in which it is the other one."""


def way_of(transcript: Transcript, users: Int64Array) -> Way | str:
    """The way of FPL, or the reason why there is none. users: of the claims, ascending."""
    pi = transcript.setting("pi")
    if isinstance(pi, str):
        return "pi differs from user to user, and only they know it"
    rounds = sum(1 for _ in usable(transcript, ("q", "b"), ("q", "b")))
    numbers = int(transcript.setting("factors")) + 1
    follow = partial(_follow, transcript, users, float(pi))
    return Way(follow, True, sums_noise(transcript), rounds, numbers)


def _follow(
    transcript: Transcript, users: Int64Array, pi: float, chance: Float32Array, some: BoolArray
) -> Iterator[Followed]:
    """Follows everybody's p_u through all rounds. some: items whose sums correct it."""
    rates = pairwise_rates(transcript)
    triples = float(transcript.setting("triples"))
    noise = sums_noise(transcript)
    length, others = lengths(chance)
    vector, doubt = first_vectors(transcript, len(chance))
    for who, given, total in usable(transcript, ("q", "b"), ("q", "b")):
        place = np.searchsorted(users, who)
        own = chance[place]
        p = vector[place]
        # How often a consumed item is in a triple that is sent, and any other one in a triple.
        taken = pi * triples / length[place]
        drawn = triples / others[place]
        slopes = _slopes(p, given, own, length[place], others[place])
        up = taken * slopes.up
        down = drawn * slopes.down
        apart = (up + down).astype(np.float32)
        multiples = own * up - (1 - own) * down
        # The bias moves as an item vector does along a direction that is 1.
        number = np.concatenate([total["q"], total["b"][:, None]], axis=1)
        number[:, :-1] += _shrunk(own, taken, rates.positive, given["q"])
        number[:, :-1] += _shrunk(1 - own, drawn, rates.negative, given["q"])
        # Noise, bits in doubt, and how often an item happens to be drawn.
        bits = own * (1 - own) * np.square(apart)
        draws = own * up * slopes.up + (1 - own) * down * slopes.down
        size = np.square(p).mean(axis=1) + doubt[place]
        variance = noise + (bits + draws).T @ size
        rest = number[:, :-1] - multiples.T @ p
        change = corrected(rest[some], multiples[:, some], variance[some], doubt[place])
        p = p + change.by
        # The next round begins where this one ends.
        vector[place] = p + _step(slopes, given["q"], p, triples, rates)
        slope = (slopes.consumed * slopes.up).sum(axis=1)
        # Which triples were drawn is not known: p_u moves by as much in any direction.
        drift = triples * (rates.alpha * slope) ** 2 * 2 * given["q"].var(axis=0).mean()
        doubt[place] = np.minimum(change.left + drift, MOST)
        direction = np.concatenate([p, np.ones((len(p), 1), np.float32)], axis=1)
        rest = number - multiples.T @ direction
        scale = typical(up, own)
        yield Followed(place, scale * direction, apart / scale, rest)


def _slopes(
    p: Float32Array,
    given: dict[str, Float32Array],
    own: Float32Array,
    length: Float32Array,
    others: Float32Array,
) -> Slopes:
    """The mean slopes of triples, by the mean and the variance of the other item's score."""
    x = p @ given["q"].T + given["b"]
    consumed = own / length
    drawn = (1 - own) / others
    up = _towards(drawn, x, -1)
    down = _towards(consumed, x, 1)
    return Slopes(consumed, drawn, up, down)


def _towards(share: Float32Array, x: Float32Array, sign: int) -> Float32Array:
    """The mean of s(sign (x - x')) over other items x' of these shares, float32 [m, items]."""
    mean = (share * x).sum(axis=1, keepdims=True)
    square = (share * np.square(x)).sum(axis=1, keepdims=True)
    spread = np.maximum(square - np.square(mean), 0)
    return sigmoid(sign * (x - mean) / np.sqrt(1 + np.pi / 8 * spread))


def _step(
    slopes: Slopes, q: Float32Array, p: Float32Array, triples: float, rates: PairwiseRates
) -> Float32Array:
    """The expected movement of p_u in a round (FPL eq. 5 and 6)."""
    ahead = (slopes.consumed * slopes.up - slopes.drawn * slopes.down) @ q
    moved = rates.alpha * triples * (ahead - rates.user * p)
    return moved.astype(np.float32)


def _shrunk(share: Float32Array, often: Float32Array, reg: float, q: Float32Array) -> Float32Array:
    """The part of a sum that regularisation takes away, float32 [items, F]."""
    many = (share * often).sum(axis=0)
    return (reg * many)[:, None] * q
