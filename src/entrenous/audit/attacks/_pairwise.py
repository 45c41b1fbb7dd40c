"""What a row of federated pair-wise learning (FPL) says by arithmetic.

For a triple (u, i, j) and s = 1 / (1 + e^x_uij), a device sends for the negative j, and with
probability pi for the positive i,

    dq_j = -s p_u - lambda_n q_j,   db_j = -s;      dq_i = s p_u - lambda_p q_i,   db_i = s
    (FPL eq. 5)

so that a row of one triple gives s, p_u and with them x_u of the other item: x_ui = x_uj + ln(1/s -
1), and likewise for j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..transcript import Transcript
from ._rows_seen import RowsSeen, rounds_of_rows, users_seen

EXACT, GRID = 2e-5, 1e-4  # how far a score may be off: in float32, and on a grid of 2^-16
CHUNK = 4096  # rows whose scores of all items are in memory at once
ENOUGH = 400  # rows that tell whether they are exact
SURELY = 5  # standard deviations from which on a sign is believed, among the many that are seen
LEAST = 1e-4  # s of a row that is solved


class PairwiseRates(NamedTuple):
    """FPL's learning rate and the lambdas of users, positives and negatives."""

    alpha: float
    user: float
    positive: float
    negative: float


class Solved(NamedTuple):
    """Rows solved for what made them, as if each were of one triple. s: float32 [n]; p: float32 [n,
    F]; partner: float32 [n], the score of the triple's other item; fit: bool [n], whether s is
    possible.
    """

    s: Float32Array
    p: Float32Array
    partner: Float32Array
    fit: BoolArray


def pairwise(transcript: Transcript) -> bool:
    """Whether the transcript is of FPL."""
    return {"q", "b"} <= {
        sent["name"] for sent in transcript.about["sends"]
    } and "pi" in transcript.about["settings"]


def pairwise_rates(transcript: Transcript) -> PairwiseRates:
    """The constants of FPL's training, with their defaults (as `FPL.numbers`)."""
    alpha, named = (
        float(transcript.setting("learning_rate")),
        ("reg_user", "reg_positive", "reg_negative"),
    )
    user, positive, negative = (transcript.setting(name) for name in named)
    default = lambda given, other: other if given is None else float(given)  # noqa: E731
    return PairwiseRates(
        alpha,
        default(user, alpha / 20),
        default(positive, alpha / 20),
        default(negative, alpha / 200),
    )


def solved(rows: RowsSeen, rates: PairwiseRates, some: Array, *, positive: bool = False) -> Solved:
    """Some rows of a round solved for s, p_u and the score of the other item. some: places of the
    rows; positive: they are of positives.
    """
    q, b, sign, reg = (
        rows.seen.received["q"],
        rows.seen.received["b"],
        1 if positive else -1,
        rates.positive if positive else rates.negative,
    )
    n = len(some)
    out = Solved(
        np.empty(n, np.float32),
        np.empty((n, q.shape[1]), np.float32),
        np.empty(n, np.float32),
        np.empty(n, np.bool_),
    )
    _solve(
        rows.array("q"),
        rows.array("b"),
        rows.item,
        some,
        q,
        b,
        sign,
        reg,
        out.s,
        out.p,
        out.partner,
        out.fit,
    )
    return out


@njit(cache=True, nogil=True)
def _solve(
    dq: Float32Array,
    db: Float32Array,
    item: Int32Array,
    some: Int64Array,
    q: Float32Array,
    b: Float32Array,
    sign: int,
    reg: float,
    s: Float32Array,
    p: Float32Array,
    partner: Float32Array,
    fit: BoolArray,
) -> None:
    """`solved`, row by row, in float64."""
    for n in range(len(some)):
        r, score = some[n], 0.0
        k, own = item[r], sign * np.float64(db[r, 0])
        fit[n] = LEAST < own < 1 - 1e-6
        own = own if fit[n] else np.float64(0.5)
        for f in range(p.shape[1]):
            value = sign * (np.float64(dq[r, f]) + reg * q[k, f]) / own
            score += value * q[k, f]
            p[n, f] = value
        s[n], partner[n] = own, b[k] + score - sign * np.log(1 / own - 1)


def nearest(
    solution: Solved, rows: RowsSeen, some: Array, many: int = 1
) -> tuple[Int32Array, Float32Array]:
    """The `many` items whose scores by p are nearest to the partner's, [n, many], and how far they
    are; never the row's own item.
    """
    q, b, own = rows.seen.received["q"], rows.seen.received["b"], rows.item[some]
    item, gap = np.empty((len(own), many), np.int32), np.full((len(own), many), np.inf, np.float32)
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
    """The nearest scores of each row, nearest first, by insertion."""
    many = item.shape[1]
    for r in range(len(wanted)):
        worst, row = gap[r, many - 1], scores[r]
        for k in range(len(row)):
            away = abs(row[k] - wanted[r])
            if away >= worst or k == own[r]:
                continue
            place = many - 1
            while place > 0 and gap[r, place - 1] > away:
                item[r, place], gap[r, place] = item[r, place - 1], gap[r, place - 1]
                place -= 1
            item[r, place], gap[r, place] = k, away
            worst = gap[r, many - 1]


class Precision(NamedTuple):
    """How precise the rows of a transcript are. tolerance: of a score that is solved from a row, 0
    where rows are not exact; sd: standard deviation of a number around what p_u alone would
    send.
    """

    tolerance: float
    sd: float


def precision_of(transcript: Transcript) -> Precision:
    """Whether rows are exact: then most rows of negatives lead to a score that some item has."""
    for rows in rounds_of_rows(transcript, users_seen(transcript)):
        some = np.flatnonzero(rows.array("b")[:, 0] < 0)
        some = some[:: max(1, len(some) // ENOUGH)]
        found = solved(rows, pairwise_rates(transcript), some)
        grid = bool((rows.array("b") * 2.0**16 % 1 == 0).all())
        tolerance, gap = GRID if grid else EXACT, nearest(found, rows, some)[1][:, 0]
        if found.fit.any() and float((gap < tolerance)[found.fit].mean()) > 0.5:
            return Precision(tolerance, 0.0)
        return Precision(0.0, spread(rows))
    return Precision(0.0, 0.0)


def spread(rows: RowsSeen) -> float:
    """The standard deviation of the rows of devices around multiples of one vector a device, which
    p_u nearly is in a round.
    """
    q, left, count = rows.array("q").astype(np.float64), 0.0, 0
    for part in np.split(q, np.flatnonzero(np.diff(rows.device)) + 1)[:50]:
        eigen = np.linalg.eigvalsh(part.T @ part)
        left, count = left + float(eigen[:-1].sum()), count + part.size
    return float(np.sqrt(max(left, 0.0) / max(count, 1)))


def taste(rows: RowsSeen, rates: PairwiseRates) -> Float32Array:
    """p_u of each device of a round as the mean over its rows, weighted by their size, float32
    [devices, F].
    """
    q, db, devices = (
        rows.seen.received["q"],
        rows.array("b")[:, 0].astype(np.float64),
        len(rows.seen.users),
    )
    reg = np.where(db > 0, rates.positive, rates.negative)[:, None]
    weighed = (rows.array("q") + reg * q[rows.item]) * db[:, None]
    total = np.stack(
        [np.bincount(rows.device, column, minlength=devices) for column in weighed.T], axis=1
    )
    size = np.bincount(rows.device, db * db, minlength=devices)
    return (total / np.maximum(size, 1e-12)[:, None]).astype(np.float32)


def drawn_share(transcript: Transcript, history: Array) -> Array:
    """The chance that a given item that is not in a history of this length is drawn as a negative
    in one round.
    """
    return 1 - (1 - 1 / np.maximum(transcript.items - history, 1)) ** transcript.setting("triples")
