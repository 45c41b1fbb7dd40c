"""How much an attack found out: its claims against the training rows of the users, beside what
their popularity alone tells.

The honest baseline is the guess that everybody has consumed what is popular (for MovieLens-100K an
AUC of .87): an attack is judged by its advantage over that, with an interval over users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.keys import key
from ..core.types import BoolArray, Float64Array, Int64Array
from ..data.interactions import Interactions
from ..kernels.generator import generator
from ..privacy.told import NOT_TRIED
from .claims import Claims
from .side_knowledge import known_items
from .transcript import Transcript

RESAMPLES = 1000  # of users, for an interval
WORST = 0.05  # the share of users whom an attack knows best
SURE, HALF = 0.9, 0.5  # precision and recall from which histories count as exposed
ADVANTAGE = 0.02  # of R-precision over popularity, above which something leaks
EXPOSED, LEAKS, NOTHING = "EXPOSED", "LEAKS", "NO ADVANTAGE FOUND BY THESE ATTACKS"
FIGURES = (
    "precision",
    "recall",
    "f1",
    "share",
    "r_precision",
    "auc",
    "popularity_r_precision",
    "advantage",
    "low",
    "high",
    "worst",
    "rounds_to_half",
)


class BesideTruth(NamedTuple):
    """Claims beside the truth, row by row: score float32 [m, items], claimed and history bool [m,
    items], first int32 [m, items]. popularity: [items] or [m, items]. Where names were matched on
    one half of the items, all of it is of the other half. What was known of users beside what was
    seen is in no history, and has the score and the popularity -inf.
    """

    score: Any
    claimed: BoolArray | None
    first: Any
    history: BoolArray
    popularity: Any


def r_precision(score: Any, history: BoolArray) -> Float64Array:
    """Precision among the n items with the highest scores, n as many as the user consumed: float64
    [m], NaN for a user with none.

    Items of equal score count by the chance that they are among the n: a score that says nothing
    scores like chance.

    >>> r_precision(np.array([[3, 2, 1, 0.0]]), np.array([[True, False, True, False]])).tolist()
    [0.5]
    """
    return np.array([_r_precision(s, h) for s, h in zip(score, history, strict=True)], np.float64)


def _r_precision(score: Any, history: BoolArray) -> float:
    n = int(history.sum())
    if not n:
        return float("nan")
    least = np.partition(score, len(score) - n)[len(score) - n]
    above, ties = score > least, score == least
    return (
        float((history & above).sum() + (history & ties).sum() * (n - above.sum()) / ties.sum()) / n
    )


def auc(score: Any, history: BoolArray) -> Float64Array:
    """The chance that a consumed item scores above one that is not, ties counting half: float64
    [m], NaN where there are not both.

    >>> auc(np.array([[3, 2, 1, 0.0]]), np.array([[True, False, True, False]])).tolist()
    [0.75]
    """
    return np.array([_auc(s, h) for s, h in zip(score, history, strict=True)], np.float64)


def _auc(score: Any, history: BoolArray) -> float:
    own, others = (
        score[history],
        np.sort(score[~history & (score > -np.inf)]),
    )  # what was known before has none
    if not len(own) or not len(others):
        return float("nan")
    return float(
        (np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")).mean()
        / (2 * len(others))
    )


def measured(claims: Claims, transcript: Transcript, data: Interactions) -> dict[str, Any]:
    """The figures of an attack, by name.

    precision, recall, f1: of the items that it is sure of, over the users of whom it speaks
    (`users`). share: of all interactions of the users that were seen (`of_users`). r_precision,
    auc: of its ranking, means over users; advantage: of R-precision over the popularity guess for
    the same users, low and high the 95 % bootstrap interval over users; worst: R-precision of the 5
    % of users that it knows best. rounds_to_half: after which round it rightly claims half of a
    history, the median over users (None: most never). by_round: [after a round, recall by then],
    for some rounds. verdict. An attack that was not tried has no figures.
    """
    seen = seen_users(transcript)
    if not claims.tried:
        return not_tried(claims, len(seen))
    judged = _judged(claims, seen, data, known_items(transcript))
    own, guess = (
        r_precision(judged.score, judged.history),
        r_precision(_for_all(judged), judged.history),
    )
    some = ~np.isnan(own)
    low, high = bootstrap((own - guess)[some])
    right, said, there = _counts(judged)
    whole = (
        int(data.counts[seen].sum())
        if claims.named
        else int(_histories(data, seen)[:, _second(data)].sum())
    )
    precision, recall = _ratio(right, said), _ratio(right, there)
    found = {
        "precision": precision,
        "recall": recall,
        "f1": _harmonic(precision, recall),
        "share": _ratio(right, whole),
        "r_precision": _mean(own),
        "auc": _mean(auc(judged.score, judged.history)),
        "popularity_r_precision": _mean(guess),
        "advantage": _mean((own - guess)[some]),
        "low": low,
        "high": high,
        "worst": _worst(own[some]),
        "rounds_to_half": _rounds_to_half(judged, transcript),
        "users": len(claims.users),
        "of_users": len(seen),
        "by_round": _by_round(judged, transcript),
        "named": claims.named,
        "note": claims.note,
    }
    return {**found, "verdict": verdict(found)}


def not_tried(claims: Claims, of: int) -> dict[str, Any]:
    """The report on an attack that had nothing to attack with, of so many users: no figure, and a
    verdict that says no more.
    """
    about = {"users": 0, "of_users": of, "by_round": [], "named": claims.named, "note": claims.note}
    return {**dict.fromkeys(FIGURES), **about, "verdict": NOT_TRIED}


def verdict(found: dict[str, Any]) -> str:
    """What the figures of an attack that was tried amount to. None of the three says that anything
    is safe.
    """
    if (found["precision"] or 0) >= SURE and (found["recall"] or 0) >= HALF:
        return EXPOSED
    return LEAKS if (found["advantage"] or 0) > ADVANTAGE and (found["low"] or 0) > 0 else NOTHING


def popularity_guess(data: Interactions, users: Int64Array) -> dict[str, float | None]:
    """What popularity alone tells of the histories of some users: means of R-precision and AUC."""
    history = _histories(data, users)
    score = np.broadcast_to(data.popularity.astype(np.float64), history.shape)
    return {"r_precision": _mean(r_precision(score, history)), "auc": _mean(auc(score, history))}


def seen_users(transcript: Transcript) -> Int64Array:
    """The users of whom the onlooker saw anything; everybody where it has the final model alone."""
    if not transcript.rounds:
        return np.arange(transcript.users)
    return np.unique(np.concatenate([seen.users for seen in transcript.rounds])).astype(np.int64)


def bootstrap(values: Float64Array) -> tuple[float | None, float | None]:
    """The 95 % percentile interval of the mean of some values over resamples of them (Efron 1979);
    (None, None) without any.
    """
    if not len(values):
        return None, None
    means = values[
        generator(key(0, "audit", "bootstrap")).integers(len(values), (RESAMPLES, len(values)))
    ].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


# ---- claims beside the truth ---------------------------------------------------------------------


def _judged(
    claims: Claims, seen: Int64Array, data: Interactions, known: BoolArray | None
) -> BesideTruth:
    """Each row of the claims beside the history of its user, less what was known of it; pseudonyms
    beside that of the user whom they fit best."""
    score = np.nan_to_num(claims.score, nan=-np.inf)
    if claims.named:
        there, history = (
            np.ones(score.shape, np.bool_) if known is None else ~known[claims.users],
            _histories(data, claims.users),
        )
        claimed = None if claims.claimed is None else claims.claimed & there
        popularity = np.where(there, data.popularity, -np.inf)
        return BesideTruth(
            np.where(there, score, -np.inf), claimed, claims.first, history & there, popularity
        )
    rows, users = _matched(claims._replace(score=score), _histories(data, seen), ~_second(data))
    half = np.flatnonzero(_second(data))
    claimed = None if claims.claimed is None else claims.claimed[rows][:, half]
    first = None if claims.first is None else claims.first[rows][:, half]
    return BesideTruth(
        score[rows][:, half],
        claimed,
        first,
        _histories(data, seen[users])[:, half],
        data.popularity[half],
    )


def _second(data: Interactions) -> BoolArray:
    """The half of the items on which pseudonyms are judged. They are matched with users on the
    other half, or any guess would fit somebody."""
    return generator(key(0, "audit", "halves")).uniform(len(data.items)) < 0.5


def _matched(
    claims: Claims, histories: BoolArray, some: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """Pseudonyms and the users whose histories they fit best on some items, each user once, the
    best fit of all first: places of rows, places of users."""
    mine, theirs = (
        np.maximum(claims.score[:, some], np.finfo(np.float32).min),
        histories[:, some].astype(np.float64),
    )
    ranks = np.argsort(np.argsort(mine, axis=1), axis=1) / max(1, mine.shape[1])
    weight = ranks if claims.claimed is None else claims.claimed[:, some].astype(np.float64)
    sizes = np.sqrt(np.maximum(1.0, (weight**2).sum(axis=1)))[:, None] * np.sqrt(
        np.maximum(1.0, theirs.sum(axis=1))
    )
    fit = (weight @ theirs.T) / sizes
    rows, users, free_row, free_user = (
        [],
        [],
        np.ones(len(mine), np.bool_),
        np.ones(len(theirs), np.bool_),
    )
    for row, user in zip(
        *np.unravel_index(np.argsort(-fit, axis=None, kind="stable"), fit.shape), strict=True
    ):
        if free_row[row] and free_user[user]:
            rows.append(row)
            users.append(user)
            free_row[row] = free_user[user] = False
    return np.array(rows, np.int64), np.array(users, np.int64)


def _histories(data: Interactions, users: Int64Array) -> BoolArray:
    """The training rows of some users, bool [m, items]."""
    found = np.zeros((len(users), len(data.items)), np.bool_)
    rows = data.rows_of(users)
    found[np.repeat(np.arange(len(users)), data.counts[users]), data.item[rows]] = True
    return found


def _for_all(judged: BesideTruth) -> Any:
    return np.broadcast_to(judged.popularity.astype(np.float64), judged.history.shape)


# ---- small parts ---------------------------------------------------------------------------------


def _counts(judged: BesideTruth) -> tuple[int, int, int]:
    """How many claims are right, how many there are, and how many interactions there were to
    find.
    """
    there = int(judged.history.sum())
    if judged.claimed is None:
        return 0, 0, there
    return int((judged.claimed & judged.history).sum()), int(judged.claimed.sum()), there


def _rounds_to_half(judged: BesideTruth, transcript: Transcript) -> int | None:
    if judged.first is None or judged.claimed is None:
        return None
    after = np.array([seen.round + 1 for seen in transcript.rounds], np.int64)
    rights = judged.claimed & judged.history & (judged.first >= 0)
    need = -(-judged.history.sum(axis=1) // 2)
    found: Sequence[float] = [
        float(after[np.sort(first[right])[n - 1]]) if right.sum() >= n else np.inf
        for first, right, n in zip(judged.first, rights, need.tolist(), strict=True)
        if n
    ]
    middle = float(np.median(found)) if found else np.inf
    return int(np.ceil(middle)) if np.isfinite(middle) else None


def _by_round(judged: BesideTruth, transcript: Transcript) -> list[tuple[int, float]]:
    """Recall after each of some rounds; none where it was not kept when an item was claimed."""
    if judged.first is None or judged.claimed is None or not judged.history.any():
        return []
    rounds = np.array([seen.round + 1 for seen in transcript.rounds], np.int64)
    found = np.sort(rounds[judged.first[judged.claimed & judged.history & (judged.first >= 0)]])
    some = np.unique(np.round(np.geomspace(1, rounds.max(), 12)).astype(np.int64))
    return [
        (int(after), float(np.searchsorted(found, after, "right")) / int(judged.history.sum()))
        for after in some
    ]


def _worst(values: Float64Array) -> float | None:
    if not len(values):
        return None
    return float(np.sort(values)[-max(1, round(WORST * len(values))) :].mean())


def _mean(values: Float64Array) -> float | None:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _harmonic(a: float | None, b: float | None) -> float | None:
    return 2 * a * b / (a + b) if a and b else None
