"""Common parts of attacks that follow the vectors of people through the sums of rounds: the part of
a sum that the people of a round explain, and the correction of vectors by sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from entrenous.core.types import Array, BoolArray, Float32Array, Int64Array

from ..transcript import Transcript
from ._rows_seen import place_of

LEAST = 1e-9  # of a variance


class Followed(NamedTuple):
    """The sum of one round as multiples of directions, one for each person in it."""

    place: Int64Array
    """[m], the places of the people among the users of the claims."""
    x: Float32Array
    """[m, numbers], the direction of each."""
    times: Float32Array
    """[m, items], by how much more of their direction people add to the sum of an item if they
    consumed it."""
    rest: Float32Array
    """[items, numbers], the sum less what is expected of these people."""


Chances = Float32Array
"""[users, items], the chance that each user consumed each item."""


class Way(NamedTuple):
    """The way from chances to the directions of people, for one family of algorithms."""

    follow: Callable[[Chances, BoolArray], Iterator[Followed]]
    """Yields all rounds. Its second argument, bool [items]: items whose sums may correct
    directions."""
    corrects: bool
    """True if sums correct directions. Then the directions by which one half of the items is judged
    are those of the other half."""
    noise: float
    """The variance of a number of a sum if all else is known."""
    rounds: int
    """Sums that can be read."""
    numbers: int
    """Numbers of an item in each."""


class Correction(NamedTuple):
    """The change of the directions of a round by its sum."""

    by: Float32Array
    """[m, numbers]."""
    left: Float32Array
    """[m], the variance of a number of a direction that remains."""


def corrected(
    rest: Float32Array,
    multiples: Float32Array,
    variance: Float32Array,
    doubt: Float32Array,
) -> Correction:
    """Estimates how far directions are off from what they leave unexplained of a sum: the linear
    estimate of least mean square error.

    rest: [items, numbers]. multiples: [m, items], of its direction that each person is expected to
    add. variance: [items], of a number of the rest whose directions are right. doubt: [m], the
    variance of a number of a direction.
    """
    weighted = multiples / np.maximum(variance, LEAST)
    precision = (weighted @ multiples.T).astype(np.float64)
    # Known beforehand: a direction that is hardly in doubt is hardly corrected.
    precision += np.diag(1 / np.maximum(doubt.astype(np.float64), LEAST))
    left = np.linalg.inv(precision)
    by = left @ (weighted @ rest)
    return Correction(by.astype(np.float32), np.diag(left).astype(np.float32))


def typical(times: Float32Array, chance: Float32Array) -> Float32Array:
    """The typical size of multiples of each person over likely items, float32 [m, 1]: people with
    few items send each of them more often.
    """
    squares = (chance * np.square(times)).sum(axis=1)
    mean = squares / np.maximum(chance.sum(axis=1), LEAST)
    return np.sqrt(np.maximum(mean, LEAST))[:, None].astype(np.float32)


def usable(
    transcript: Transcript, received: tuple[str, ...], sent: tuple[str, ...]
) -> Iterator[tuple[Int64Array, dict[str, Float32Array], dict[str, Float32Array]]]:
    """Yields the rounds in which somebody took part and all numbers are finite: who, some arrays
    that devices received, and some of the sum, by their declared names.
    """
    for seen in transcript.rounds:
        given = {name: seen.received[name].astype(np.float32) for name in received}
        total = {name: seen.sent[place_of(name)].astype(np.float32) for name in sent}
        arrays = (*given.values(), *total.values())
        # A round that failed or overflowed would spoil all that follow.
        if len(seen.users) and all(np.isfinite(array).all() for array in arrays):
            yield seen.users, given, total


def sigmoid(x: Array) -> Float32Array:
    """The logistic function, whose argument is cut where float32 has no more digits."""
    return (1 / (1 + np.exp(-np.clip(x, -30, 30)))).astype(np.float32)


def sums_noise(transcript: Transcript) -> float:
    """The variance of the noise of a number of a sum. Without noise there is rounding to the
    grid.
    """
    noise = float(transcript.about["protect"]["noise"])
    return max(noise, float(transcript.about["step"])) ** 2


def lengths(chance: Float32Array) -> tuple[Float32Array, Float32Array]:
    """The expected length of each history, and of the rest of the catalogue: both float32 [users,
    1], and at least one item.
    """
    items = chance.shape[1]
    expected = np.clip(chance.sum(axis=1, dtype=np.float64), 1, max(1, items - 1))
    length = expected.astype(np.float32)[:, None]
    return length, np.maximum(items - length, 1)


def first_vectors(transcript: Transcript, users: int) -> tuple[Float32Array, Float32Array]:
    """The vectors of people before training, float32 [users, F], and the variance of a number of
    each, float32 [users]: nobody knows their draws, whose mean is 0.
    """
    factors = int(transcript.setting("factors"))
    variance = float(transcript.setting("init_std")) ** 2
    return np.zeros((users, factors), np.float32), np.full(users, variance, np.float32)
