"""How right claims are that are not about histories: who was in training, and which users are
nearest to a set of items.

Their figures have the names of those about histories. `r_precision`: precision among as many of the
first as there are right ones; `popularity_r_precision`: that of a random guess, since popularity
says nothing here; `advantage`, with its bootstrap interval: of members AUC less a half, over
candidates; of communities precision less that of a random guess, over targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import BoolArray, Float64Array, Int64Array
from ..data.interactions import Interactions
from .claims import Claims
from .measures import auc, bootstrap, not_tried, r_precision, seen_users, verdict
from .side_knowledge import sets_of
from .transcript import Transcript

COMMUNITY = 0.05  # the share of the users seen that is nearest to a target


def members_found(claims: Claims, inside: BoolArray) -> dict[str, Any]:
    """The figures of an attack on membership of users. inside: bool [candidates], who was in
    training.
    """
    if not claims.tried:
        return not_tried(claims, len(inside))
    score = claims.score[:, 0].astype(np.float64)
    above, below = np.sort(score[inside]), np.sort(score[~inside])
    chance = np.where(
        inside, _below(score, below), 1 - _below(score, above)
    )  # its mean over each side is the AUC
    both = np.where(
        inside, 0.5 / max(1, int(inside.sum())), 0.5 / max(1, int((~inside).sum()))
    ) * len(score)
    low, high = bootstrap((chance - 0.5) * both)
    exact, guess = float(r_precision(score[None], inside[None])[0]), float(inside.mean())
    ranked = float(auc(score[None], inside[None])[0])
    return _figures(claims, exact, ranked, guess, (ranked - 0.5, low, high), len(score))


def _below(score: Float64Array, others: Float64Array) -> Float64Array:
    """The share of others below each score, ties counting half."""
    return (np.searchsorted(others, score, "left") + np.searchsorted(others, score, "right")) / (
        2 * max(1, len(others))
    )


def communities_found(claims: Claims, transcript: Transcript, data: Interactions) -> dict[str, Any]:
    """The figures of an attack on communities: of the users seen, those whose histories are nearest
    to a target by Jaccard's measure, less its owner."""
    users, owner = claims.users, transcript.model["targets/owner"]
    near = _near(data, users, sets_of(transcript, "targets"))
    own = users[:, None] == owner[None]
    near[own] = -1
    many = max(1, round(COMMUNITY * (len(users) - 1)))
    true = np.zeros(near.shape, np.bool_)
    np.put_along_axis(true, np.argsort(-near, axis=0, kind="stable")[:many], True, axis=0)
    score = np.where(own, -np.inf, claims.score.astype(np.float64))
    precision = r_precision(score.T, true.T)
    guess = many / max(1, len(users) - 1)
    low, high = bootstrap(precision - guess)
    exact, ranked = float(precision.mean()), float(np.nanmean(auc(score.T, true.T)))
    return _figures(
        claims, exact, ranked, guess, (exact - guess, low, high), len(seen_users(transcript))
    )


def _near(data: Interactions, users: Int64Array, targets: BoolArray) -> Float64Array:
    """Jaccard's measure of each user's history and each target, float64 [m, targets]."""
    rows = data.rows_of(users)
    own = np.zeros((len(users), len(data.items)))
    own[np.repeat(np.arange(len(users)), data.counts[users]), data.item[rows]] = 1
    both = own @ targets.T.astype(np.float64)
    either = own.sum(axis=1)[:, None] + targets.sum(axis=1)[None] - both
    return both / np.maximum(either, 1)  # type: ignore[no-any-return]


def _figures(
    claims: Claims,
    exact: float,
    ranked: float,
    guess: float,
    advantage: tuple[float, float | None, float | None],
    of: int,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "precision": None,
        "recall": None,
        "f1": None,
        "share": None,
        "r_precision": exact,
        "auc": ranked,
        "popularity_r_precision": guess,
        "advantage": advantage[0],
        "low": advantage[1],
        "high": advantage[2],
        "worst": None,
        "rounds_to_half": None,
        "users": len(claims.users),
        "of_users": of,
        "by_round": [],
        "named": True,
        "note": claims.note,
    }
    return {**found, "verdict": verdict(found)}
