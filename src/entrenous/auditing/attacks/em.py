"""Sums over changing cohorts, taken apart along everybody's own direction: EM over histories.

The known model of a round and a history give a user's vector x_u in closed form (FCF,
arXiv:1901.09888), and what the user adds to the sum of item i is a number times x_u: -w x_u x_u .
y_i without the item, (c - (c - w) x_u . y_i) x_u on top of that with it. So a sum of F numbers is F
equations for each item, in which unknown bits weigh directions that differ from user to user.
Repeated: (1) the chances of all items, at first those of popularity, give the expected x_u of every
participant of every round; (2) what the chances do not explain of the sums is regressed on these
directions: the linear estimate of least mean square error, over one eigen-decomposition of the
directions' Gram matrix; (3) what a user's own direction says of an item, and nothing that was
assumed of it before, joins the popularity in new log odds. They move half way, since directions and
histories are guesses about each other. Known items of people are certain from the first turn on.
Two sums of one model that differ by some people are, one less the other, a sum of these people with
the noise of two: few directions, and nothing that others add.
Source: review `privacy-2`, section 1; ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...core.types import BoolArray, Float32Array, Float64Array, Int64Array
from ...federation.recorder import Seen
from ..claims import Attack, Claims
from ..side_knowledge import known_items
from ..transcript import Transcript
from ._fcf_cost import Terms, gradients, terms_of, vectors
from ._rows_seen import SURE, declined, empty_tally, sends
from ._sums_seen import differences

TURNS = 20  # at most
STEP = 0.5  # of the way to new log odds
SETTLED = 0.01  # of all chances together: the movement after which the search ends
CAP = 8.0  # log odds that sums alone may give: the model is a guess too
MOST = 3000  # users: the eigen-decomposition of more takes minutes
LEAST = 1e-3  # variance of a bit of which nothing seems in doubt


class Round(NamedTuple):
    """The sum of one round, and who is in it."""

    place: Int64Array
    """[m], the places of the users who took part, in the claims."""
    y: Float32Array
    """[items, F], item factors that devices received."""
    total: Float32Array
    """[items, F]."""
    shared: bool
    """True if the sum has -w S y_i in it, with one matrix S for all items."""


class Evidence(NamedTuple):
    """The message of the sums beyond the chances, added up over rounds."""

    slope: Float32Array
    """[users, items], the unexplained sums along each user's direction."""
    kernel: Float32Array
    """[users, users], the Gram matrix of the directions."""
    left: Float64Array
    """[items], unexplained squares, of a number on average."""
    reach: float
    """Squares of all directions, of a number on average."""
    weight: Float32Array
    """[items], the mean square of what a consumed item multiplies a direction with."""


def run(transcript: Transcript) -> Claims:
    """Ranks items by their posterior odds, and claims those that are likelier than not."""
    # Where no two sums are of one model, all are read as sums.
    few = differences(transcript) if transcript.about["view"] == "difference" else ()
    if few:
        transcript = transcript._replace(rounds=few)
    tally = empty_tally(transcript)
    users = len(tally.users)
    rounds = list(_usable(transcript, tally.users))
    if not rounds:
        return declined(transcript, "no sum with numbers of anybody")
    if users > MOST:
        return declined(transcript, f"{users} users, of whom it takes {MOST}: more take minutes")
    known = known_items(transcript)
    certain = np.zeros((users, transcript.items), np.bool_)
    if known is not None:
        certain = known[tally.users]
    terms = terms_of(transcript, sums=2 if few else 1)
    prior = _prior(transcript, known)
    odds = np.zeros(certain.shape, np.float32)
    chance = _chance(prior + odds, certain)
    for _ in range(TURNS):
        told = _told(_evidence(rounds, terms, chance), chance, terms.noise)
        odds += np.float32(STEP) * (told - odds)
        before = chance
        chance = _chance(prior + odds, certain)
        moved = float(np.abs(chance - before).sum())
        if moved < SETTLED * float(before.sum()):
            break
    score = prior + odds
    score[certain] = SURE
    factors = rounds[0].y.shape[1]
    interactions = max(1, int(transcript.about["interactions"]))
    beforehand = 100 * int(certain.sum()) / interactions
    note = (
        f"{len(rounds)} rounds x {factors} factors = {len(rounds) * factors} equations an item"
        f" against {users} users; {beforehand:.0f} % of the histories known beforehand"
    )
    return Claims(tally.users, score, chance > 0.5, note=note)


# ---- what is public ------------------------------------------------------------------------------


def _usable(transcript: Transcript, users: Int64Array) -> Iterator[Round]:
    """Yields the rounds in which somebody took part and all numbers are finite."""
    shared = sends(transcript, "f")
    for seen in transcript.rounds:
        y = seen.received["y"].astype(np.float32)
        total = _total(seen, shared)
        if len(seen.users) and np.isfinite(y).all() and np.isfinite(total).all():
            place = np.searchsorted(users, seen.users)
            yield Round(place, y, total, shared)


def _total(seen: Seen, shared: bool) -> Float32Array:
    """The sum of a round for each item, float32 [items, F]."""
    if shared:
        return seen.sent["f"].sum(axis=0).astype(np.float32)  # type: ignore[no-any-return]
    return seen.sent["own"].astype(np.float32)


def _prior(transcript: Transcript, known: BoolArray | None) -> Float32Array:
    """The log odds that somebody whose interest in an item is not known has consumed it, float32
    [items].
    """
    consumers = transcript.popularity.astype(np.float64)
    others = np.maximum(transcript.users - consumers, 0)
    if known is not None:
        consumers = np.maximum(consumers - known.sum(axis=0), 0)
    odds = (consumers + 0.5) / (others + 0.5)
    return np.log(odds).astype(np.float32)


def _chance(odds: Float32Array, certain: BoolArray) -> Float32Array:
    """The chance of each item from its log odds; 1 for items that are certain."""
    chance = 1 / (1 + np.exp(-odds))
    chance[certain] = 1
    return chance.astype(np.float32)


# ---- one turn ------------------------------------------------------------------------------------


def _evidence(rounds: list[Round], terms: Terms, chance: Float32Array) -> Evidence:
    """Follows everybody through all rounds, and sets the sums against what was expected of them."""
    users, items = chance.shape
    slope = np.zeros((users, items), np.float32)
    kernel = np.zeros((users, users), np.float32)
    left = np.zeros(items)
    weight = np.zeros(items)
    reach = 0.0
    parts = 0
    for one in rounds:
        own = chance[one.place]
        x = vectors(one.y, own, terms)
        # By how much a consumed item multiplies the direction of its user.
        times = terms.c - (terms.c - terms.w) * (x @ one.y.T)
        expected = (own * times).T @ x
        rest: Float32Array = (one.total - expected).astype(np.float32)
        if one.shared and terms.w:
            rest = (rest - one.y @ _fit(one.y, rest)).astype(np.float32)
        slope[one.place] += times * (x @ rest.T)
        kernel[np.ix_(one.place, one.place)] += x @ x.T
        left += np.square(rest).sum(axis=1)
        weight += np.square(times).sum(axis=0)
        reach += float(np.square(x).sum())
        parts += len(x)
    numbers = len(rounds) * rounds[0].y.shape[1]
    mean = (weight / parts).astype(np.float32)
    return Evidence(slope, kernel, left / numbers, reach / numbers, mean)


def _fit(y: Float32Array, rest: Float32Array) -> Float32Array:
    """The matrix that all items share, float32 [F, F], by least squares."""
    square = (y.T @ y).astype(np.float64)
    ridge = 1e-9 * max(np.trace(square), 1e-9) * np.eye(len(square))
    return np.linalg.solve(square + ridge, y.T @ rest).astype(np.float32)


def _told(evidence: Evidence, chance: Float32Array, noise: float) -> Float32Array:
    """The log odds that sums tell of each user and item, whatever was assumed of this user and item
    before, float32 [users, items].
    """
    weight = evidence.weight
    doubt = np.maximum((chance * (1 - chance)).mean(axis=0), LEAST)
    # Wrong directions act as noise on top of what is known: squares beyond what the doubt explains.
    noises = np.maximum(noise, evidence.left - doubt * weight * evidence.reach)
    size, way = np.linalg.eigh(evidence.kernel)
    size = np.maximum(size, 0)[:, None]
    # A^T (A V A^T + N)^-1 by its action on what is unexplained, and its diagonal with A.
    gain = (1 / (doubt * weight * size + noises)).astype(np.float32)
    shift = way @ ((way.T @ evidence.slope) * gain)
    precise = np.square(way) @ (weight * size * gain)
    # The share of a bit's own doubt in the matrix is taken back: the estimate is of this bit alone.
    precise = np.maximum(precise, 1e-9)
    estimate = chance + shift / precise
    precision = precise / np.maximum(1 - doubt * precise, 1e-3)
    odds = (estimate - np.float32(0.5)) * precision
    return np.clip(np.nan_to_num(odds), -CAP, CAP).astype(np.float32)


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send FCF's gradient, and two sums are of other people."""
    return gradients(transcript) and not transcript.about["new_row"]


ATTACK = Attack("em", ("sum", "difference"), "ours", applies, run)
