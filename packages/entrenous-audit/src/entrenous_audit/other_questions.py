"""The figures of claims that are not about histories: on membership in training, and on the users
nearest to a set of items.

These figures have the names of those about histories:

* `r_precision`: precision among as many of the first as there are right ones.
* `popularity_r_precision`: the precision of a random guess, since popularity says nothing here.
* `advantage`, with its bootstrap interval: of members AUC less a half, over candidates; of
  communities precision less that of a random guess, over targets.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.types import BoolArray, Float64Array, Int64Array
from entrenous.data.interactions import Interactions

from .claims import Claims
from .measures import (
    FIGURES,
    auc,
    bootstrap,
    histories_of,
    not_tried,
    r_precision,
    seen_users,
    verdict,
)
from .side_knowledge import sets_of
from .transcript import Transcript

COMMUNITY = 0.05  # the share of the users seen that is nearest to a target


def members_found(claims: Claims, inside: BoolArray) -> dict[str, Any]:
    """The figures of an attack on the membership of users. inside: bool [candidates], true for
    those who were in training.
    """
    if not claims.tried:
        return not_tried(claims, len(inside))
    score = claims.score[:, 0].astype(np.float64)
    above = np.sort(score[inside])
    below = np.sort(score[~inside])
    # Each candidate's part of the AUC: the mean over either side is the AUC.
    of_member = _below(score, below)
    of_other = 1 - _below(score, above)
    part = np.where(inside, of_member, of_other)
    # Both sides count alike, however many there are of each.
    of_inside = 0.5 / max(1, len(above))
    of_others = 0.5 / max(1, len(below))
    weight = np.where(inside, of_inside, of_others) * len(score)
    ranked = float(auc(score[None], inside[None])[0])
    figures = {
        "r_precision": float(r_precision(score[None], inside[None])[0]),
        "auc": ranked,
        "popularity_r_precision": float(inside.mean()),
        "advantage": ranked - 0.5,
    }
    return _report(claims, figures, bootstrap((part - 0.5) * weight), len(score))


def _below(score: Float64Array, others: Float64Array) -> Float64Array:
    """The share of others below each score, ties counting half."""
    places = np.searchsorted(others, score, "left") + np.searchsorted(others, score, "right")
    return places / (2 * max(1, len(others)))


def communities_found(claims: Claims, transcript: Transcript, data: Interactions) -> dict[str, Any]:
    """The figures of an attack on communities. Right are those of the users seen whose histories
    are nearest to a target by Jaccard's measure, without the target's owner.
    """
    users = claims.users
    owner = transcript.model["targets/owner"]
    # No user seen has a history that could be a target.
    if not len(owner):
        return not_tried(claims, len(seen_users(transcript)))
    near = _near(data, users, sets_of(transcript, "targets"))
    # The owner of a target is no neighbour of it.
    own = users[:, None] == owner[None]
    near[own] = -1
    score = np.where(own, -np.inf, claims.score.astype(np.float64))
    others = len(users) - 1
    many = max(1, round(COMMUNITY * others))
    nearest = np.argsort(-near, axis=0, kind="stable")[:many]
    true = np.zeros(near.shape, np.bool_)
    np.put_along_axis(true, nearest, True, axis=0)
    precision = r_precision(score.T, true.T)
    guess = many / max(1, others)
    figures = {
        "r_precision": float(precision.mean()),
        "auc": float(np.nanmean(auc(score.T, true.T))),
        "popularity_r_precision": guess,
        "advantage": float(precision.mean()) - guess,
    }
    return _report(claims, figures, bootstrap(precision - guess), len(seen_users(transcript)))


def _near(data: Interactions, users: Int64Array, targets: BoolArray) -> Float64Array:
    """Jaccard's measure of each user's history and each target, float64 [m, targets]."""
    own = histories_of(data, users).astype(np.float64)
    both = own @ targets.T.astype(np.float64)
    either = own.sum(axis=1)[:, None] + targets.sum(axis=1)[None] - both
    return both / np.maximum(either, 1)  # type: ignore[no-any-return]


def _report(
    claims: Claims,
    figures: dict[str, float],
    interval: tuple[float | None, float | None],
    of: int,
) -> dict[str, Any]:
    """The figures under the names of those of an attack on histories; None where they do not
    apply. of: the number of users or candidates.
    """
    low, high = interval
    report: dict[str, Any] = {
        **dict.fromkeys(FIGURES),
        **figures,
        "low": low,
        "high": high,
        "users": len(claims.users),
        "of_users": of,
        "by_round": [],
        "named": True,
        "note": claims.note,
    }
    return {**report, "verdict": verdict(report)}
