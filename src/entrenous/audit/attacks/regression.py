"""Sums over changing cohorts, regressed on who took part: whose presence raises the sum of an item
has consumed it.

M. Lam, G.-Y. Wei, D. Brooks, V. J. Reddi, M. Mitzenmacher, "Gradient disaggregation: breaking
privacy in federated learning by reconstructing the user participant matrix", ICML 2021, in the
linear form in which participation is known: the server asked. With y_rk a number of item k in the
sum of round r (its bias; how many sent a row for it; its vector along the direction of popular
items) and A_ru whether user u took part, beta is the ridge solution of y - mean = (A - mean) beta.
How much of it is signal is measured, not assumed: by the correlation of two solutions from every
other round. Log odds are beta in standard deviations times the shift that this correlation stands
for.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Float64Array
from ...federation.recorder import Seen
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import pairwise
from ._rows_seen import claims_of, declined, empty_tally
from ._sums_seen import summed_items

LEAST = 4  # rounds
MOST = 8.0  # standard deviations
KNOWN = 0.02  # share of users that must have consumed an item for it to count in the correlation


def run(transcript: Transcript) -> Claims:
    """Ranks items by popularity and regression; claims none."""
    tally, rounds = (
        empty_tally(transcript),
        [seen for seen in transcript.rounds if summed_items(transcript, seen) is not None],
    )
    part = np.array([np.isin(tally.users, seen.users) for seen in rounds], np.float64).reshape(
        len(rounds), len(tally.users)
    )
    changing = part - part.mean(axis=0) if len(rounds) else part
    if len(rounds) < LEAST or not changing.any():
        few = f"{len(rounds)} sums of items, expected at least {LEAST}"
        return declined(transcript, "cohorts do not change" if len(rounds) >= LEAST else few)
    sums = _level(np.stack([_one_number(transcript, seen) for seen in rounds]))
    found = _solution(changing, sums)
    one, other = (_solution(_centred(part[side::2]), _centred(sums[side::2])) for side in (0, 1))
    shared = transcript.popularity / max(1, transcript.users)
    shift = _shift(one, other, shared)
    tally.evidence[:] = (shift * found.clip(-MOST, MOST)).astype(np.float32)
    mean = part.sum() / max(1, len(tally.users))
    said = (
        f"{len(rounds)} rounds against {len(tally.users)} users, {mean:.1f} participations each;"
        f" shift {shift:.2f} standard deviations"
    )
    return claims_of(transcript, tally, said)._replace(claimed=None, first=None)


def _one_number(transcript: Transcript, seen: Seen) -> Float64Array:
    """One number for each item: of pairwise learning the sum of biases, whose signs tell positives
    from negatives; else how many sent a row; of dense arrays what lies along the direction in which
    popular items differ from others.
    """
    if pairwise(transcript):
        return seen.sent["b"].astype(np.float64)  # type: ignore[no-any-return]
    if len(np.unique(seen.sent.get("senders", ()))) > 1:
        return seen.sent["senders"].astype(np.float64)  # type: ignore[no-any-return]
    vectors = summed_items(transcript, seen)
    assert vectors is not None  # the caller has looked
    known = np.sqrt(transcript.popularity.astype(np.float64))
    return vectors @ ((vectors - vectors.mean(axis=0)).T @ (known - known.mean()))  # type: ignore[no-any-return]


def _level(sums: Float64Array) -> Float64Array:
    """Rounds on one scale, less what changes slowly with training: a parabola for each item."""
    sums = sums / np.maximum(np.sqrt((sums**2).mean(axis=1, keepdims=True)), 1e-30)
    time = np.linspace(-1, 1, len(sums))
    slow = np.stack([np.ones_like(time), time, time**2][: max(1, len(sums) // LEAST)], axis=1)
    return sums - slow @ np.linalg.lstsq(slow, sums, rcond=None)[0]  # type: ignore[no-any-return]


def _centred(array: Float64Array) -> Float64Array:
    return array - array.mean(axis=0)  # type: ignore[no-any-return]


def _solution(part: Float64Array, sums: Float64Array) -> Float64Array:
    """The ridge solution in standard deviations over users, item by item, float64 [users,
    items].
    """
    kernel = part @ part.T
    ridge = np.trace(kernel) / len(kernel)
    beta = part.T @ np.linalg.solve(kernel + max(ridge, 1e-9) * np.eye(len(kernel)), sums)
    return _centred(beta) / np.maximum(beta.std(axis=0), 1e-30)


def _shift(one: Float64Array, other: Float64Array, shared: Array) -> float:
    """By how many standard deviations a consumed item is shifted, from the correlation of two
    independent halves (Spearman and Brown).
    """
    some = shared > KNOWN
    half = float((one[:, some] * other[:, some]).mean()) if some.any() else 0.0
    whole = 2 * max(half, 0.0) / (1 + max(half, 0.0))
    return (
        float(np.sqrt(whole / max(float((shared[some] * (1 - shared[some])).mean()), 1e-9)))
        if whole
        else 0.0
    )


def applies(transcript: Transcript) -> bool:
    """Whether devices send something for every item, or rows, which are added up."""
    shaped = (sent for sent in transcript.about["sends"] if sent["way"] in ("rows", "dense"))
    return any(
        sent["way"] == "rows" or sent.get("shape", [0])[:1] == [transcript.items] for sent in shaped
    )


ATTACK = Attack("regression", ("sum",), "Lam et al., ICML 2021", applies, run)
