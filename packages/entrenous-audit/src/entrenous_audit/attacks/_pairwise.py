"""The arithmetic of a row of federated pair-wise learning (FPL).

For a triple (u, i, j) and s = 1 / (1 + e^x_uij), a device sends for the negative j, and with
probability pi for the positive i,

    dq_j = -s p_u - lambda_n q_j,   db_j = -s;      dq_i = s p_u - lambda_p q_i,   db_i = s
    (FPL eq. 5)

so a row of one triple gives s and p_u, and with them x_u of the other item: x_ui = x_uj + ln(1/s -
1), and likewise for j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.compiling import njit
from entrenous.core.types import Array, BoolArray, Float32Array, Int32Array

from ..transcript import Transcript
from ._rows_seen import RowsSeen, rounds_of_rows, sends

# how far a score may be off: in float32, and on a grid of 2^-16
EXACT = 2e-5
GRID = 1e-4
CHUNK = 4096  # rows whose scores of all items are in memory at once
ENOUGH = 400  # rows that tell whether they are exact
DEVICES = 50  # devices that tell how far rows are off
# Standard deviations from which on a sign is believed, among the many that are seen.
SURELY = 5
LEAST = 1e-4  # s of a row that is solved


class PairwiseRates(NamedTuple):
    """FPL's learning rate and its three regularisation constants."""

    alpha: float
    """The learning rate."""
    user: float
    """lambda of user vectors."""
    positive: float
    """lambda of positives."""
    negative: float
    """lambda of negatives."""


class Solved(NamedTuple):
    """Rows solved for s, p_u and the partner's score, as if each were of one triple."""

    s: Float32Array
    """[n]."""
    p: Float32Array
    """[n, F], p_u."""
    partner: Float32Array
    """[n], the score of the triple's other item."""
    fit: BoolArray
    """[n], whether s is possible."""


class Matched(NamedTuple):
    """Rows with the item that has the partner's score."""

    p: Float32Array
    """[n, F], p_u."""
    item: Int32Array
    """[n], the item whose score is nearest to the partner's."""
    fit: BoolArray
    """[n], whether s is possible."""
    sure: BoolArray
    """[n], whether s is possible and the item's score is near enough."""


def pairwise(transcript: Transcript) -> bool:
    """Checks whether the transcript is of FPL."""
    return sends(transcript, "q", "b") and "pi" in transcript.settings


def pairwise_rates(transcript: Transcript) -> PairwiseRates:
    """The constants of FPL's training, with their defaults (as `FPL.numbers`)."""
    alpha = float(transcript.setting("learning_rate"))

    def rate(name: str, usual: float) -> float:
        given = transcript.setting(name)
        if given is None:
            return usual
        return float(given)

    return PairwiseRates(
        alpha,
        rate("reg_user", alpha / 20),
        rate("reg_positive", alpha / 20),
        rate("reg_negative", alpha / 200),
    )


def solved(rows: RowsSeen, rates: PairwiseRates, some: Array, *, positive: bool = False) -> Solved:
    """Solves rows of a round for s, p_u and the score of the other item. some: places of the rows;
    positive: they are rows of positives.
    """
    q = rows.seen.received["q"]
    b = rows.seen.received["b"]
    sign = 1 if positive else -1
    reg = rates.positive if positive else rates.negative
    n = len(some)
    solution = Solved(
        np.empty(n, np.float32),
        np.empty((n, q.shape[1]), np.float32),
        np.empty(n, np.float32),
        np.empty(n, np.bool_),
    )
    dq = rows.array("q")[some]
    db = rows.bias[some]
    _solve(dq, db, rows.item[some], q, b, sign, reg, solution)
    return solution


@njit(cache=True, nogil=True)
def _solve(
    dq: Float32Array,
    db: Float32Array,
    item: Int32Array,
    q: Float32Array,
    b: Float32Array,
    sign: int,
    reg: float,
    out: Solved,
) -> None:
    """`solved`, row by row, in float64."""
    for n in range(len(item)):
        k = item[n]
        # The bias's update is s itself, up to its sign.
        s = sign * np.float64(db[n])
        out.fit[n] = LEAST < s < 1 - 1e-6
        if not out.fit[n]:
            s = np.float64(0.5)
        # p_u, from the vector's update without the regularisation; and q_k . p_u on the way.
        score = 0.0
        for f in range(q.shape[1]):
            push = np.float64(dq[n, f]) + reg * q[k, f]
            value = sign * push / s
            score += value * q[k, f]
            out.p[n, f] = value
        out.s[n] = s
        # x of the partner: x of this item, and ln(1/s - 1) away from it.
        # The score of the other item, by the inverse of the sigmoid.
        log_odds = np.log(1 / s - 1)
        out.partner[n] = b[k] + score - sign * log_odds


def nearest(solution: Solved, rows: RowsSeen, some: Array) -> tuple[Int32Array, Float32Array]:
    """The item whose score by p is nearest to the partner's, [n], and how far it is; never the
    row's own item.
    """
    q = rows.seen.received["q"]
    b = rows.seen.received["b"]
    own = rows.item[some]
    item = np.zeros(len(own), np.int32)
    gap = np.full(len(own), np.inf, np.float32)
    for low in range(0, len(own), CHUNK):
        here = slice(low, low + CHUNK)
        scores = solution.p[here] @ q.T
        scores += b
        _nearest(scores, solution.partner[here], own[here], item[here], gap[here])
    return item, gap


@njit(cache=True, nogil=True)
def _nearest(
    scores: Float32Array, wanted: Float32Array, own: Int32Array, item: Int32Array, gap: Float32Array
) -> None:
    """The nearest score of each row."""
    for r in range(len(wanted)):
        row = scores[r]
        for k in range(len(row)):
            away = abs(row[k] - wanted[r])
            if away < gap[r] and k != own[r]:
                item[r] = k
                gap[r] = away


def matched(
    rows: RowsSeen, rates: PairwiseRates, some: Array, tolerance: float, *, positive: bool = False
) -> Matched:
    """Solves rows and finds the item that has the partner's score, within a tolerance. Other
    arguments as of `solved`.
    """
    solution = solved(rows, rates, some, positive=positive)
    item, gap = nearest(solution, rows, some)
    sure = solution.fit & (gap < tolerance)
    return Matched(solution.p, item, solution.fit, sure)


class Precision(NamedTuple):
    """The precision of the rows of a transcript."""

    tolerance: float
    """Of a score that is solved from a row; 0 where rows are not exact."""
    sd: float
    """Standard deviation of a number around what p_u alone would send; 0 where rows are exact."""


def precision_of(transcript: Transcript) -> Precision:
    """Measures how exact rows are, by the first round. They are exact if most rows of negatives
    lead to a score that some item has.
    """
    for rows in rounds_of_rows(transcript):
        negatives = np.flatnonzero(rows.bias < 0)
        some = negatives[:: max(1, len(negatives) // ENOUGH)]
        steps = rows.bias * 2.0**16
        on_grid = bool((steps % 1 == 0).all())
        tolerance = GRID if on_grid else EXACT
        match = matched(rows, pairwise_rates(transcript), some, tolerance)
        if match.fit.any() and float(match.sure[match.fit].mean()) > 0.5:
            return Precision(tolerance, 0.0)
        return Precision(0.0, spread(rows))
    return Precision(0.0, 0.0)


def spread(rows: RowsSeen) -> float:
    """The standard deviation of the rows of devices around multiples of one vector for each device,
    since p_u hardly moves in a round.
    """
    q = rows.array("q").astype(np.float64)
    next_device = np.flatnonzero(np.diff(rows.device)) + 1
    left = 0.0
    count = 0
    for part in np.split(q, next_device)[:DEVICES]:
        # All eigenvalues but the largest are squares that one vector does not explain.
        eigen = np.linalg.eigvalsh(part.T @ part)
        left += float(eigen[:-1].sum())
        count += part.size
    variance = max(left, 0.0) / max(count, 1)
    return float(np.sqrt(variance))
