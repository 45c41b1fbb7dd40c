"""The figures of an attack: its claims compared with the training rows of the users, and with a
guess by popularity alone.

The honest baseline is the guess that everybody has consumed popular items (for MovieLens-100K an
AUC of 0.87): an attack is judged by its advantage over that, with an interval over users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from typing_extensions import TypedDict

from entrenous.core.keys import key
from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.kernels.generator import generator
from entrenous.privacy.told import NOT_TRIED

from .claims import Claims
from .side_knowledge import known_items, table_of_sets
from .transcript import Transcript

RESAMPLES = 1000  # of users, for an interval
WORST = 0.05  # the share of users whom an attack knows best
# precision and recall from which histories count as exposed
SURE = 0.9
HALF = 0.5
ADVANTAGE = 0.02  # of R-precision over popularity, above which something leaks
POINTS = 12  # of the curve of recall by rounds, at most
EXPOSED = "EXPOSED"
LEAKS = "LEAKS"
NOTHING = "NO ADVANTAGE FOUND BY THESE ATTACKS"
FIGURES = (
    "precision",
    "recall",
    "r_precision",
    "auc",
    "popularity_r_precision",
    "advantage",
    "low",
    "high",
    "worst",
    "rounds_to_half",
)


class PopularityFigures(TypedDict):
    """The figures of a guess by popularity alone, the yardstick; None without a history."""

    r_precision: float | None
    auc: float | None


class BesideTruth(NamedTuple):
    """Claims and the truth, row by row. Where names were matched on one half of the items, all of
    it is of the other half.
    """

    score: Any
    """float32 [m, items]; -inf for items that the onlooker had known before."""
    claimed: BoolArray | None
    """[m, items]."""
    first: Any
    """int32 [m, items], the place of the round of the first claim."""
    history: BoolArray
    """[m, items], without items that the onlooker had known before."""
    popularity: Any
    """[items] or [m, items]; -inf for items that the onlooker had known before."""

    @property
    def right(self) -> BoolArray:
        """The claims that are right, bool [m, items]."""
        if self.claimed is None:
            return np.zeros_like(self.history)
        return self.claimed & self.history


# ---- rankings ------------------------------------------------------------------------------------


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
    """`r_precision` of one user."""
    n = int(history.sum())
    if not n:
        return float("nan")
    # The score of the last of the first n.
    place = len(score) - n
    least = np.partition(score, place)[place]
    above = score > least
    ties = score == least
    # Of the ties as many as have room, each with the same chance.
    among_ties = (history & ties).sum() * (n - above.sum()) / ties.sum()
    right = (history & above).sum() + among_ties
    return float(right) / n


def auc(score: Any, history: BoolArray) -> Float64Array:
    """The chance that a consumed item scores above one that is not, ties counting half: float64
    [m], NaN where there are not both.

    >>> auc(np.array([[3, 2, 1, 0.0]]), np.array([[True, False, True, False]])).tolist()
    [0.75]
    """
    return np.array([_auc(s, h) for s, h in zip(score, history, strict=True)], np.float64)


def _auc(score: Any, history: BoolArray) -> float:
    """`auc` of one user."""
    own = score[history]
    unknown = score > -np.inf  # -inf was known before
    others = np.sort(score[~history & unknown])
    if not len(own) or not len(others):
        return float("nan")
    # Twice the others below each own item, ties once.
    below = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
    return float(below.mean() / (2 * len(others)))


# ---- figures -------------------------------------------------------------------------------------


def measured(claims: Claims, transcript: Transcript, data: Interactions) -> dict[str, Any]:
    """The figures of an attack, by name. An attack that was not tried has none.

    * `precision`, `recall`: of the items that it is sure of, over the users of whom it speaks
      (`users`, of the `of_users` who were seen).
    * `r_precision`, `auc`: of its ranking, means over users.
    * `advantage`: of R-precision over the popularity guess for the same users; `low` and `high`:
      its 95 % bootstrap interval over users.
    * `worst`: R-precision of the 5 % of users whom it knows best.
    * `spread`, `popularity_spread`: R-precision of its ranking, and of the popularity guess, at the
      quantiles 0, 0.1, ..., 1 of the users, those whom it knows least first.
    * `rounds_to_half`: the round after which it rightly claims half of a history, the median over
      users; None if most never come to that.
    * `by_round`: pairs of a number of rounds and the recall by then.
    * `verdict`: one of `EXPOSED`, `LEAKS`, `NOTHING`.
    """
    seen = seen_users(transcript)
    if not claims.tried:
        return not_tried(claims, len(seen))
    judged = _judged(claims, seen, data, known_items(transcript))
    popularity = np.broadcast_to(judged.popularity.astype(np.float64), judged.history.shape)
    own = r_precision(judged.score, judged.history)
    guess = r_precision(popularity, judged.history)
    # Users with a history; the others have no R-precision.
    some = ~np.isnan(own)
    advantage = (own - guess)[some]
    low, high = bootstrap(advantage)
    right = int(judged.right.sum())
    consumed = int(judged.history.sum())
    # An attack that only ranks is sure of nothing.
    claimed = 0
    if judged.claimed is not None:
        claimed = int(judged.claimed.sum())
    # Of what it is sure of, and of what there was to find.
    precision = _ratio(right, claimed)
    recall = _ratio(right, consumed)
    figures = {
        "precision": precision,
        "recall": recall,
        "r_precision": _mean(own),
        "auc": _mean(auc(judged.score, judged.history)),
        "popularity_r_precision": _mean(guess),
        "advantage": _mean(advantage),
        "low": low,
        "high": high,
        "worst": _worst(own[some]),
        "spread": _spread(own[some]),
        "popularity_spread": _spread(guess[some]),
        "rounds_to_half": _rounds_to_half(judged, transcript),
        "users": len(claims.users),
        "of_users": len(seen),
        "by_round": _by_round(judged, transcript),
        "named": claims.named,
        "note": claims.note,
    }
    return {**figures, "verdict": verdict(figures)}


def not_tried(claims: Claims, of: int) -> dict[str, Any]:
    """The figures of an attack that had nothing to attack with: all None, and the verdict
    `NOT_TRIED`. of: the number of users who were seen.
    """
    about = {"users": 0, "of_users": of, "by_round": [], "named": claims.named, "note": claims.note}
    return {**dict.fromkeys(FIGURES), **about, "verdict": NOT_TRIED}


def verdict(figures: dict[str, Any]) -> str:
    """The verdict on an attack that was tried. None of the three says that anything is safe."""
    if (figures["precision"] or 0) >= SURE and (figures["recall"] or 0) >= HALF:
        return EXPOSED
    if (figures["advantage"] or 0) > ADVANTAGE and (figures["low"] or 0) > 0:
        return LEAKS
    return NOTHING


def popularity_guess(
    data: Interactions, users: Int64Array, known: BoolArray | None = None
) -> PopularityFigures:
    """The figures of a guess by popularity alone, over some users: mean R-precision and AUC. known:
    bool [all users, items], what an attack is not asked for either.
    """
    history = histories_of(data, users)
    score = np.broadcast_to(data.popularity.astype(np.float64), history.shape)
    if known is not None:
        history &= ~known[users]
        score = np.where(known[users], -np.inf, score)
    return {"r_precision": _mean(r_precision(score, history)), "auc": _mean(auc(score, history))}


def seen_users(transcript: Transcript) -> Int64Array:
    """The users of whom the onlooker saw anything, ascending; everybody where it has the final
    model alone.
    """
    if not transcript.rounds:
        return np.arange(transcript.users)
    users = np.concatenate([seen.users for seen in transcript.rounds])
    return np.unique(users).astype(np.int64)


def bootstrap(values: Float64Array) -> tuple[float | None, float | None]:
    """The 95 % percentile interval of the mean of some values over resamples of them (Efron 1979);
    (None, None) without any.
    """
    if not len(values):
        return None, None
    draws = generator(key(0, "audit", "bootstrap"))
    resamples = draws.integers(len(values), (RESAMPLES, len(values)))
    means = values[resamples].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


# ---- claims and the truth ------------------------------------------------------------------------


def _judged(
    claims: Claims, seen: Int64Array, data: Interactions, known: BoolArray | None
) -> BesideTruth:
    """Each row of the claims with the history of its user, without the items known before. A
    pseudonym is judged by the history of the user whom it fits best.
    """
    score = np.nan_to_num(claims.score, nan=-np.inf)
    claimed = claims.claimed
    first = claims.first
    if claims.named:
        unknown = np.ones(score.shape, np.bool_) if known is None else ~known[claims.users]
        return BesideTruth(
            np.where(unknown, score, -np.inf),
            None if claimed is None else claimed & unknown,
            first,
            histories_of(data, claims.users) & unknown,
            np.where(unknown, data.popularity, -np.inf),
        )
    # Matched on one half of the items, judged on the other.
    half = _second(data)
    assert claimed is not None  # who does not know a name is sure of items
    rows, users = _matched(claimed, histories_of(data, seen), ~half)
    return BesideTruth(
        score[rows][:, half],
        claimed[rows][:, half],
        None if first is None else first[rows][:, half],
        histories_of(data, seen[users])[:, half],
        data.popularity[half],
    )


def _second(data: Interactions) -> BoolArray:
    """The half of the items on which pseudonyms are judged, bool [items]. They are matched with
    users on the other half, or any guess would fit somebody.
    """
    draws = generator(key(0, "audit", "halves"))
    return draws.uniform(len(data.items)) < 0.5


def _matched(
    claims: BoolArray, histories: BoolArray, some: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """Pseudonyms and the users whose histories their claims fit best on some items, each user once,
    the best fit of all first: places of rows, places of users.
    """
    theirs = histories[:, some].astype(np.float64)
    weight = claims[:, some].astype(np.float64)
    # The cosine of a pseudonym's claims and a user's history.
    of_claims = np.sqrt(np.maximum(1.0, (weight**2).sum(axis=1)))
    of_histories = np.sqrt(np.maximum(1.0, theirs.sum(axis=1)))
    fit = (weight @ theirs.T) / (of_claims[:, None] * of_histories)
    # Greedily, the best fit first.
    rows = []
    users = []
    free_row = np.ones(len(weight), np.bool_)
    free_user = np.ones(len(theirs), np.bool_)
    order = np.argsort(-fit, axis=None, kind="stable")
    for row, user in zip(*np.unravel_index(order, fit.shape), strict=True):
        if free_row[row] and free_user[user]:
            rows.append(row)
            users.append(user)
            free_row[row] = False
            free_user[user] = False
    return np.array(rows, np.int64), np.array(users, np.int64)


def histories_of(data: Interactions, users: Int64Array) -> BoolArray:
    """The training rows of some users, bool [m, items]."""
    histories = data.histories(users)
    return table_of_sets(histories.ptr, histories.item, len(data.items))


# ---- small parts ---------------------------------------------------------------------------------


def _rounds_to_half(judged: BesideTruth, transcript: Transcript) -> int | None:
    """The median over users of the rounds after which half of a history is rightly claimed; None
    if most never come to that, or if the rounds of claims were not kept.
    """
    if judged.first is None or judged.claimed is None:
        return None
    after = _rounds_after(transcript)
    rounds = []
    for first, right, history in zip(judged.first, judged.right, judged.history, strict=True):
        half = -(-int(history.sum()) // 2)
        if not half:
            continue
        places = np.sort(first[right & (first >= 0)])
        reached = len(places) >= half
        rounds.append(float(after[places[half - 1]]) if reached else np.inf)
    middle = np.inf
    if rounds:
        middle = float(np.median(rounds))
    if np.isfinite(middle):
        return int(np.ceil(middle))
    return None


def _by_round(judged: BesideTruth, transcript: Transcript) -> list[tuple[int, float]]:
    """Recall after each of some rounds; [] where the round of a claim was not kept."""
    if judged.first is None or judged.claimed is None or not judged.history.any():
        return []
    after = _rounds_after(transcript)
    kept = judged.right & (judged.first >= 0)
    claims = np.sort(after[judged.first[kept]])
    whole = int(judged.history.sum())
    # Few points, denser at the beginning, where recall rises fastest.
    points = np.round(np.geomspace(1, after.max(), POINTS))
    numbers = np.unique(points.astype(np.int64))
    by_then = np.searchsorted(claims, numbers, "right")
    return [(int(n), float(right) / whole) for n, right in zip(numbers, by_then, strict=True)]


def _rounds_after(transcript: Transcript) -> Int64Array:
    """The number of rounds that are over at each place of a transcript."""
    return np.array([seen.round + 1 for seen in transcript.rounds], np.int64)


def _worst(values: Float64Array) -> float | None:
    """The mean over the users whom an attack knows best."""
    if not len(values):
        return None
    many = max(1, round(WORST * len(values)))
    return float(np.sort(values)[-many:].mean())


def _spread(values: Float64Array) -> list[float]:
    """The values at eleven quantiles, from the lowest to the highest; [] without any."""
    if not len(values):
        return []
    # Values of users, not values between them.
    quantiles = np.quantile(values, np.linspace(0, 1, 11), method="higher")
    spread: list[float] = quantiles.tolist()
    return spread


def _mean(values: Float64Array) -> float | None:
    """The mean of the values that are not NaN; None without any."""
    numbers = values[~np.isnan(values)]
    if len(numbers):
        return float(numbers.mean())
    return None


def _ratio(part: int, whole: int) -> float | None:
    if whole:
        return part / whole
    return None
