"""FCF's devices as a receiver of sums follows them: a history and the public model of a round give
x_u in closed form (`_fcf_cost`), so that nothing has to be learnt over rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from entrenous.core.types import BoolArray, Float32Array, Int64Array

from ..transcript import Transcript
from ._fcf_cost import Terms, terms_of, vectors
from ._followed import Followed, Way, usable
from ._rows_seen import sends


def way_of(transcript: Transcript, users: Int64Array, sums: int) -> Way:
    """The way of FCF. users: of the claims, ascending. sums: whose noise is in each that is
    read.
    """
    terms = terms_of(transcript, sums)
    rounds = sum(1 for _ in usable(transcript, ("y",), (_sum_of(transcript),)))
    factors = int(transcript.setting("factors"))
    follow = partial(_follow, transcript, users, terms)
    return Way(follow, False, terms.noise, rounds, factors)


def _follow(
    transcript: Transcript,
    users: Int64Array,
    terms: Terms,
    chance: Float32Array,
    some: BoolArray,
) -> Iterator[Followed]:
    """Solves for everybody's x_u in all rounds. The sums correct nothing, whatever `some` says."""
    name = _sum_of(transcript)
    # The sum of f has -w S y_i in it, with one matrix S for all items.
    shared = name == "f"
    for who, given, sums in usable(transcript, ("y",), (name,)):
        y = given["y"]
        # One group of devices adds to f, which has an axis for it.
        total = sums[name][0] if shared else sums[name]
        place = np.searchsorted(users, who)
        own = chance[place]
        x = vectors(y, own, terms)
        # By how much a consumed item multiplies the direction of its user.
        times = terms.c - (terms.c - terms.w) * (x @ y.T)
        expected = (own * times).T @ x
        rest: Float32Array = (total - expected).astype(np.float32)
        if shared and terms.w:
            # Items that nobody is likely to have decide S, which is the same for all others.
            rest = (rest - y @ _fit(y, rest)).astype(np.float32)
        yield Followed(place, x, times, rest)


def _sum_of(transcript: Transcript) -> str:
    """The array with the sum of each item: `f`, of all items and users, or rows of `own`."""
    return "f" if sends(transcript, "f") else "own"


def _fit(y: Float32Array, rest: Float32Array) -> Float32Array:
    """The matrix that all items share, float32 [F, F], by least squares."""
    square = (y.T @ y).astype(np.float64)
    ridge = 1e-9 * max(np.trace(square), 1e-9) * np.eye(len(square))
    return np.linalg.solve(square + ridge, y.T @ rest).astype(np.float32)
