"""Sums over changing cohorts, taken apart along everybody's own direction: EM over histories.

A person adds to the sum of an item a number times a vector that is theirs alone. The known model of
a round and a history give this vector: in closed form for FCF, x_u, of which a person adds
-w x_u x_u . y_i without the item and (c - (c - w) x_u . y_i) x_u on top of that with it
(`_fcf_cost`); from the models of all rounds so far for FPL, [p_u, 1] (`_fpl_followed`), and for
averaged neural filters, h * p_u (`_ncf_followed`). So a sum of F numbers is F equations for each
item, in which unknown bits weigh directions that differ from user to user.

Repeated: (1) the chances of all items, at first those of popularity, give the expected direction of
every participant of every round; (2) what the chances do not explain of the sums is regressed on
these directions: the linear estimate of least mean square error, over one eigen-decomposition of
the directions' Gram matrix; (3) what a user's own direction says of an item, and nothing that was
assumed of it before, joins the popularity in new log odds. They move half way, since directions and
histories are guesses about each other. Known items of people are certain from the first turn on.

A vector that is learnt over rounds begins with a draw that nobody knows, and no guess of a history
gives it. There the sum of each round corrects the vectors of its people, item by item with what
they are expected to add. A half of the items is judged by vectors that the other half has
corrected, or a wrong guess would confirm itself. Numbers of a sum that rest together are whitened.
How far estimates of consumed items lie from those of others, and how far both scatter, is fitted to
the estimates, with popularity as the share of each.

Two sums of one FCF model that differ by some people are, one less the other, a sum of these people
with the noise of two: few directions, and nothing that others add.
Source: review `privacy-2`, section 1; ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.keys import key
from entrenous.core.types import BoolArray, Float32Array, Float64Array, Int64Array
from entrenous.kernels.generator import generator

from ..claims import Attack, Claims
from ..side_knowledge import known_items
from ..transcript import Transcript
from . import _fcf_followed, _fpl_followed, _ncf_followed
from ._fcf_cost import gradients
from ._followed import Followed, Way, sigmoid
from ._ncf_followed import averaged_filter
from ._pairwise import pairwise
from ._rows_seen import SURE, declined, empty_tally, prior
from ._sums_seen import differences

TURNS = 20  # at most
LEARNT = 8  # at most, of vectors that are learnt
STEP = 0.5  # of the way to new log odds
SETTLED = 0.01  # of all chances together: the movement after which the search ends
CAP = 8.0  # log odds that sums alone may give: the model is a guess too
MOST = 3000  # users or equations, whichever are fewer: the eigen-decomposition takes minutes
CELLS = 50_000_000  # users x items: each of the arrays of a turn takes 8 bytes of them
LEAST = 1e-3  # variance of a bit of which nothing seems in doubt
FITS = 15  # turns of the fit of how far estimates lie apart


class Evidence(NamedTuple):
    """The message of the sums beyond the chances, added up over rounds."""

    slope: Float32Array
    """[users, items], the unexplained sums along each user's direction."""
    directions: Float32Array
    """[users, equations], the directions of all rounds side by side; 0 where somebody is not in a
    round."""
    left: Float64Array
    """[items], unexplained squares, of a number on average."""
    reach: float
    """Squares of all directions, of a number on average."""
    weight: Float32Array
    """[items], the mean square of what a consumed item multiplies a direction with."""


class Estimate(NamedTuple):
    """The estimates of all bits, whatever was assumed of each of them before."""

    bit: Float32Array
    """[users, items], about 1 for a consumed item and 0 for another one."""
    precision: Float32Array
    """[users, items], one over its variance if all directions are right."""


class Fit(NamedTuple):
    """The places of the estimates of consumed items and of others, and their scatter."""

    low: float
    """The mean of others."""
    apart: float
    """By how much the mean of consumed items is above it."""
    trust: float
    """The share of the precision that is real."""


def run(transcript: Transcript) -> Claims:
    """Ranks items by their posterior odds, and claims those that are likelier than not."""
    # Where no two sums are of one model, all are read as sums.
    few = differences(transcript) if transcript.about["view"] == "difference" else ()
    if few:
        transcript = transcript._replace(rounds=few)
    tally = empty_tally(transcript)
    users = len(tally.users)
    way = _way(transcript, tally.users, 2 if few else 1)
    if isinstance(way, str):
        return declined(transcript, way)
    if not way.rounds:
        return declined(transcript, "no sum with numbers of anybody")
    too_many = _too_many(users, transcript.items, way.rounds * way.numbers)
    if too_many:
        return declined(transcript, too_many)
    known = known_items(transcript)
    certain = np.zeros((users, transcript.items), np.bool_)
    if known is not None:
        certain = known[tally.users]
    popular = prior(transcript, known)
    odds = np.zeros(certain.shape, np.float32)
    chance = _chance(popular + odds, certain)
    first = chance
    every = np.ones(transcript.items, np.bool_)
    for turn in range(LEARNT if way.corrects else TURNS):
        if way.corrects:
            told = _fitted(_by_halves(way, chance, turn), first, certain)
        else:
            evidence = _evidence(way, chance, every)
            told = _even(_estimate(evidence, chance, way.noise))
        odds += np.float32(STEP) * (told - odds)
        before = chance
        chance = _chance(popular + odds, certain)
        moved = float(np.abs(chance - before).sum())
        if moved < SETTLED * float(before.sum()):
            break
    score = popular + odds
    score[certain] = SURE
    interactions = max(1, int(transcript.about["interactions"]))
    beforehand = 100 * int(certain.sum()) / interactions
    note = (
        f"{way.rounds} rounds x {way.numbers} numbers = {way.rounds * way.numbers} equations an"
        f" item against {users} users; {beforehand:.0f} % of the histories known beforehand"
    )
    return Claims(tally.users, score, chance > 0.5, note=note)


# ---- what is public ------------------------------------------------------------------------------


def _way(transcript: Transcript, users: Int64Array, sums: int) -> Way | str:
    """The way of the algorithm's family, or the reason why there is none. sums: whose noise is in
    each that is read.
    """
    if gradients(transcript):
        return _fcf_followed.way_of(transcript, users, sums)
    if pairwise(transcript):
        return _fpl_followed.way_of(transcript, users)
    return _ncf_followed.way_of(transcript, users)


def _too_many(users: int, items: int, equations: int) -> str:
    """Why an attack on this many would not end, or need more memory than there is; or ''."""
    if min(users, equations) > MOST:
        return (
            f"{users} users and {equations} equations an item, of which it takes {MOST} of either:"
            " more take minutes"
        )
    if users * items > CELLS:
        return (
            f"{users} users x {items} items, of which it takes {CELLS}: more take too much memory"
        )
    return ""


def _chance(odds: Float32Array, certain: BoolArray) -> Float32Array:
    """The chance of each item from its log odds; 1 for items that are certain."""
    chance = 1 / (1 + np.exp(-odds))
    chance[certain] = 1
    return chance.astype(np.float32)


# ---- one turn ------------------------------------------------------------------------------------


def _evidence(way: Way, chance: Float32Array, some: BoolArray) -> Evidence:
    """Follows everybody through all rounds, and adds up what the sums say beyond what was expected.
    some: items whose sums may correct directions.
    """
    users, items = chance.shape
    slope = np.zeros((users, items), np.float32)
    directions = np.zeros((users, way.rounds * way.numbers), np.float32)
    left = np.zeros(items)
    weight = np.zeros(items)
    reach = 0.0
    parts = 0
    for number, one in enumerate(way.follow(chance, some)):
        if way.corrects:
            one = _whitened(one)
        first = number * way.numbers
        # The part of the sums along each direction: all that is used of them from here on.
        slope[one.place] += one.times * (one.x @ one.rest.T)
        directions[one.place, first : first + way.numbers] = one.x
        left += np.square(one.rest).sum(axis=1)
        weight += np.square(one.times).sum(axis=0)
        reach += float(np.square(one.x).sum())
        parts += len(one.x)
    many = way.rounds * way.numbers
    mean = (weight / max(1, parts)).astype(np.float32)
    return Evidence(slope, directions, left / many, reach / many, mean)


def _whitened(one: Followed) -> Followed:
    """A round in numbers whose rests are of variance 1 and do not hang together."""
    spread = (one.rest.T @ one.rest).astype(np.float64) / len(one.rest)
    # A little on the diagonal, or numbers that never differ could not be inverted.
    spread += (1e-9 * np.trace(spread) + 1e-12) * np.eye(len(spread))
    white = np.linalg.inv(np.linalg.cholesky(spread)).T.astype(np.float32)
    return one._replace(x=one.x @ white, rest=one.rest @ white)


def _estimate(evidence: Evidence, chance: Float32Array, noise: float) -> Estimate:
    """Estimates each bit from the evidence, whatever was assumed of it before."""
    weight = evidence.weight
    doubt = np.maximum((chance * (1 - chance)).mean(axis=0), LEAST)
    # Wrong directions act as noise on top of what is known: squares beyond what the doubt explains.
    noises = np.maximum(noise, evidence.left - doubt * weight * evidence.reach)
    size, way = _decomposed(evidence.directions)
    # A^T (A V A^T + N)^-1 by its action on what is unexplained, and its diagonal with A. Along
    # vectors that no direction has a part of, the action is division by N.
    gain = 1 / (doubt * weight * size[:, None] + noises)
    own = weight * size[:, None] * gain
    shift = (evidence.slope - way @ ((way.T @ evidence.slope) * (doubt * own))) / noises
    precise = np.square(way) @ own
    # The share of a bit's own doubt in the matrix is taken back: the estimate is of this bit alone.
    precise = np.maximum(precise, 1e-9)
    precision = precise / np.maximum(1 - doubt * precise, 1e-3)
    bit = chance + shift / precise
    return Estimate(bit.astype(np.float32), precision.astype(np.float32))


def _decomposed(directions: Float32Array) -> tuple[Float64Array, Float64Array]:
    """The eigenvalues of the Gram matrix of all directions that are not 0, and their eigenvectors
    [users, values]: over users or equations, whichever are fewer.

    In double precision: where few people add up, most of what is unexplained cancels, and what
    stays would be the rounding, which differs from processor to processor.
    """
    a = directions.astype(np.float64)
    users, equations = a.shape
    if users <= equations:
        size, way = np.linalg.eigh(a @ a.T)
        return np.maximum(size, 0), way
    size, side = np.linalg.eigh(a.T @ a)
    real = size > 1e-12 * size[-1]
    size = size[real]
    return size, (a @ side[:, real]) / np.sqrt(size)


def _even(estimate: Estimate) -> Float32Array:
    """The log odds of estimates that lie around 0 and 1, as far as their precision says."""
    odds = (estimate.bit - np.float32(0.5)) * estimate.precision
    return np.clip(np.nan_to_num(odds), -CAP, CAP).astype(np.float32)


# ---- one turn, if sums correct directions --------------------------------------------------------


def _by_halves(way: Way, chance: Float32Array, turn: int) -> Estimate:
    """Estimates each half of the items along directions that the other half has corrected. The
    halves differ from turn to turn.
    """
    draws = generator(key(0, "audit", "em", turn))
    half = draws.uniform(chance.shape[1]) < 0.5
    bit = np.zeros_like(chance)
    precision = np.zeros_like(chance)
    for judged in (half, ~half):
        evidence = _evidence(way, chance, ~judged)
        # Rests were whitened: their variance is 1, of which noise is some part.
        estimate = _estimate(evidence, chance, 0.05)
        bit[:, judged] = estimate.bit[:, judged]
        precision[:, judged] = estimate.precision[:, judged]
    return Estimate(bit, precision)


def _fitted(estimate: Estimate, first: Float32Array, certain: BoolArray) -> Float32Array:
    """The log odds of estimates, by where they lie and how far they scatter. first: chances by
    popularity. certain: items that were known beforehand, of which a fit would be too good.
    """
    bit = np.nan_to_num(estimate.bit)
    precision = np.nan_to_num(estimate.precision)
    free = ~certain
    # The share of each kind is popularity's, item by item.
    beforehand = np.log(np.maximum(first, 1e-9) / np.maximum(1 - first, 1e-9))
    fit = Fit(0.0, 0.5, 0.3)
    for _ in range(FITS):
        consumed = sigmoid(beforehand + _odds(fit, bit, precision))
        inside = consumed * free * precision
        outside = (1 - consumed) * free * precision
        low = _mean(bit, outside)
        # Bounded: a fit that loses hold of one kind of items would never find it again.
        apart = min(max(_mean(bit, inside) - low, 0.02), 1.5)
        squares = inside * np.square(bit - low - apart) + outside * np.square(bit - low)
        trust = float(free.sum() / max(float(squares.sum()), 1e-9))
        fit = Fit(low, apart, min(trust, 1e3))
    return np.clip(_odds(fit, bit, precision), -CAP, CAP).astype(np.float32)


def _odds(fit: Fit, bit: Float32Array, precision: Float32Array) -> Float32Array:
    """The log odds of two normal distributions of one variance."""
    above = bit - np.float32(fit.low + fit.apart / 2)
    return np.float32(fit.trust * fit.apart) * precision * above


def _mean(values: Float32Array, weights: Float32Array) -> float:
    return float((weights * values).sum() / max(float(weights.sum()), 1e-9))


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send FCF's gradient, and two sums are of other people; or moves along
    a vector that is learnt over rounds, of which all sums are seen.
    """
    if gradients(transcript):
        return not transcript.about["new_row"]
    learnt = pairwise(transcript) or averaged_filter(transcript)
    return learnt and transcript.about["view"] == "sum"


ATTACK = Attack("em", ("sum", "difference"), "ours", applies, run)
