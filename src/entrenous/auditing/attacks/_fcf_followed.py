"""FCF's devices as a receiver of sums follows them: a history and the public model of a round give
x_u in closed form (`_fcf_cost`), so that nothing has to be learnt over rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ...core.types import BoolArray, Float32Array, Int64Array
from ...federation.recorder import Seen
from ..transcript import Transcript
from ._fcf_cost import Terms, terms_of, vectors
from ._followed import Followed, Way
from ._rows_seen import sends


def way_of(transcript: Transcript, users: Int64Array, sums: int) -> Way:
    """The way of FCF. users: of the claims, ascending. sums: whose noise is in each that is
    read.
    """
    terms = terms_of(transcript, sums)
    rounds = sum(1 for _ in _usable(transcript))
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
    # The sum of f has -w S y_i in it, with one matrix S for all items.
    shared = sends(transcript, "f")
    for who, y, total in _usable(transcript):
        place = np.searchsorted(users, who)
        own = chance[place]
        x = vectors(y, own, terms)
        # By how much a consumed item multiplies the direction of its user.
        times = terms.c - (terms.c - terms.w) * (x @ y.T)
        expected = (own * times).T @ x
        rest: Float32Array = (total - expected).astype(np.float32)
        if shared and terms.w:
            rest = (rest - y @ _fit(y, rest)).astype(np.float32)
        yield Followed(place, x, times, rest)


def _usable(transcript: Transcript) -> Iterator[tuple[Int64Array, Float32Array, Float32Array]]:
    """Yields the rounds in which somebody took part and all numbers are finite: who, the item
    factors that devices received and the sum of each item, both float32 [items, F].
    """
    shared = sends(transcript, "f")
    for seen in transcript.rounds:
        y = seen.received["y"].astype(np.float32)
        total = _total(seen, shared)
        if len(seen.users) and np.isfinite(y).all() and np.isfinite(total).all():
            yield seen.users, y, total


def _total(seen: Seen, shared: bool) -> Float32Array:
    """The sum of a round for each item, float32 [items, F]."""
    if shared:
        return seen.sent["f"].sum(axis=0).astype(np.float32)  # type: ignore[no-any-return]
    return seen.sent["own"].astype(np.float32)


def _fit(y: Float32Array, rest: Float32Array) -> Float32Array:
    """The matrix that all items share, float32 [F, F], by least squares."""
    square = (y.T @ y).astype(np.float64)
    ridge = 1e-9 * max(np.trace(square), 1e-9) * np.eye(len(square))
    return np.linalg.solve(square + ridge, y.T @ rest).astype(np.float32)
