"""Was this user in training? Who has the final model and a person's whole history asks how well the
one fits the other.

A vector is fitted to the history as in the attack `membership`, and the fit is the chance that an
item of the history scores above another one. Item vectors have moved towards each other in the
histories that they were trained on, so that these fit better than others do. How well a history
fits also depends on its length and on how popular its items are: what these predict, by least
squares over all candidates, is taken off. No example of a member is needed. Known: the model, and
histories of candidates (`audit.side_knowledge`). Ours, after M. Zhang et al., "Membership inference
attacks against recommender systems", CCS 2021, where shadow models say what a member looks like.
"""

from __future__ import annotations

import numpy as np

from ...core.types import BoolArray, Float64Array
from ..claims import Attack, Claims
from ..side_knowledge import sets_of
from ..transcript import Transcript
from .membership import fitted, item_table


def run(transcript: Transcript) -> Claims:
    """Ranks candidates by how likely they were in training; claims no items."""
    histories = sets_of(transcript, "candidates")
    users, vectors = np.arange(len(histories)), item_table(transcript, biases=True)
    if vectors is None:
        nothing = np.zeros((len(users), 1), np.float32)
        return Claims(
            users, nothing, note="the model has no vectors of items", asks="members", tried=False
        )
    fit = np.array(
        [
            _above(score, own)
            for score, own in zip(fitted(vectors, histories), histories, strict=True)
        ]
    )
    left = fit - _predicted(fit, histories, transcript.popularity.astype(np.float64))
    return Claims(
        users,
        left.astype(np.float32)[:, None],
        note="with whole histories of candidates",
        asks="members",
    )


def _above(score: Float64Array, own: BoolArray) -> float:
    """The chance that an item of a history scores above another one."""
    if not own.any() or own.all():
        return 0.5
    others = np.sort(score[~own])
    return float(np.searchsorted(others, score[own]).mean() / len(others))


def _predicted(fit: Float64Array, histories: BoolArray, popularity: Float64Array) -> Float64Array:
    """What the length of a history and the popularity of its items say of its fit, by least
    squares.
    """
    size = np.maximum(histories.sum(axis=1), 1)
    mean, log = histories @ popularity / size, histories @ np.log1p(popularity) / size
    about = np.stack(
        [
            np.ones(len(size)),
            np.log(size),
            np.log(size) ** 2,
            log,
            mean / max(float(mean.max(initial=0)), 1.0),
        ],
        axis=1,
    )
    return about @ np.linalg.lstsq(about, fit, rcond=None)[0]  # type: ignore[no-any-return]


def applies(transcript: Transcript) -> bool:
    """Whether the onlooker has histories of candidates beside the model."""
    return "candidates/ptr" in transcript.model


ATTACK = Attack(
    "user-membership", ("model",), "ours, after M. Zhang et al., CCS 2021", applies, run
)
