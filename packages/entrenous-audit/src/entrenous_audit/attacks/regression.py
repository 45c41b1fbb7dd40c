"""Sums over changing cohorts, regressed on who took part: a user whose presence raises the sum of
an item has consumed it.

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

from entrenous.core.types import Array, Float64Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._gossip_seen import centred_popularity
from ._pairwise import pairwise
from ._rows_seen import chances, declined, empty_tally, ranks_alone
from ._sums_seen import summed_items

LEAST = 4  # rounds
MOST = 8.0  # standard deviations
KNOWN = 0.02  # share of users that must have consumed an item for it to count in the correlation


def run(transcript: Transcript) -> Claims:
    """Ranks items by popularity and regression; claims none."""
    tally = empty_tally(transcript)
    users = len(tally.users)
    rounds = [seen for seen in transcript.rounds if summed_items(transcript, seen) is not None]
    if len(rounds) < LEAST:
        return declined(transcript, f"{len(rounds)} sums of items, expected at least {LEAST}")
    # A, who took part in which round, and y, a number of each item.
    present = [np.isin(tally.users, seen.users) for seen in rounds]
    part = np.array(present, np.float64)
    if not _centred(part).any():
        return declined(transcript, "cohorts do not change")
    numbers = np.stack([_one_number(transcript, seen) for seen in rounds])
    sums = _level(numbers)
    beta = _solution(_centred(part), sums)
    # Two halves that have nothing in common but the signal.
    even = _solution(_centred(part[::2]), _centred(sums[::2]))
    odd = _solution(_centred(part[1::2]), _centred(sums[1::2]))
    shift = _shift(even, odd, chances(transcript))
    odds = shift * beta.clip(-MOST, MOST)
    tally.evidence[:] = odds.astype(np.float32)
    mean = part.sum() / max(1, users)
    note = (
        f"{len(rounds)} rounds against {users} users, {mean:.1f} participations each;"
        f" shift {shift:.2f} standard deviations"
    )
    return ranks_alone(transcript, tally, note)


def _one_number(transcript: Transcript, seen: Seen) -> Float64Array:
    """One number of a sum for each item, float64 [items]: of pairwise learning the bias, whose sign
    tells positives from negatives; else how many sent a row; of dense arrays the length along the
    direction in which popular items differ from others.
    """
    if pairwise(transcript):
        return seen.sent["b"].astype(np.float64)  # type: ignore[no-any-return]
    if len(np.unique(seen.sent.get("senders", ()))) > 1:
        return seen.sent["senders"].astype(np.float64)  # type: ignore[no-any-return]
    vectors = summed_items(transcript, seen)
    assert vectors is not None  # the caller has looked
    centred = vectors - vectors.mean(axis=0)
    popular = centred.T @ centred_popularity(transcript.popularity)
    return vectors @ popular  # type: ignore[no-any-return]


def _level(sums: Float64Array) -> Float64Array:
    """Rounds on one scale, less what changes slowly with training: a parabola for each item."""
    size = np.sqrt((sums**2).mean(axis=1, keepdims=True))
    sums = sums / np.maximum(size, 1e-30)
    time = np.linspace(-1, 1, len(sums))
    terms = [np.ones_like(time), time, time**2]
    # Fewer terms where there are few rounds.
    many = max(1, len(sums) // LEAST)
    slow = np.stack(terms[:many], axis=1)
    fit = np.linalg.lstsq(slow, sums, rcond=None)[0]
    return sums - slow @ fit  # type: ignore[no-any-return]


def _centred(array: Float64Array) -> Float64Array:
    return array - array.mean(axis=0)  # type: ignore[no-any-return]


def _solution(part: Float64Array, sums: Float64Array) -> Float64Array:
    """The ridge solution in standard deviations over users, item by item, float64 [users,
    items].
    """
    # In its dual form: there are fewer rounds than users.
    kernel = part @ part.T
    ridge = max(np.trace(kernel) / len(kernel), 1e-9)
    identity = np.eye(len(kernel))
    weights = np.linalg.solve(kernel + ridge * identity, sums)
    beta = part.T @ weights
    return _centred(beta) / np.maximum(beta.std(axis=0), 1e-30)


def _shift(even: Float64Array, odd: Float64Array, shared: Array) -> float:
    """The number of standard deviations by which consuming an item shifts its number, from the
    correlation of two independent halves. shared: the share of users who consumed each item.
    """
    some = shared > KNOWN
    if not some.any():
        return 0.0
    agreement = even[:, some] * odd[:, some]
    half = max(float(agreement.mean()), 0.0)
    # Spearman and Brown: the reliability of both halves together.
    whole = 2 * half / (1 + half)
    variance = shared[some] * (1 - shared[some])
    spread = float(variance.mean())
    return float(np.sqrt(whole / max(spread, 1e-9)))


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send something for every item, or rows, which are added up."""
    return any(
        sent["way"] == "rows"
        or (sent["way"] == "dense" and sent.get("shape", [0])[:1] == [transcript.items])
        for sent in transcript.about["sends"]
    )


ATTACK = Attack("regression", ("sum",), "Lam et al., ICML 2021", applies, run)
