"""Was this user in training? An onlooker that has the final model and a person's whole history asks
how well the one fits the other.

A vector is fitted to the history as in the attack `membership`, and the fit is the chance that an
item of the history scores above another one. Item vectors have moved towards each other in the
histories that they were trained on, so that these fit better than others do. How well a history
fits also depends on its length and on how popular its items are: the prediction by these, by least
squares over all candidates, is taken off. No example of a member is needed. Known: the model, and
histories of candidates (`side_knowledge`). Ours, after M. Zhang et al., "Membership
inference attacks against recommender systems", CCS 2021, where shadow models say what a member
looks like.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import BoolArray, Float64Array

from ..claims import Attack, Claims
from ..side_knowledge import sets_of
from ..transcript import Transcript
from .membership import fitted, item_table


def run(transcript: Transcript) -> Claims:
    """Ranks candidates by how likely they were in training; claims no items."""
    histories = sets_of(transcript, "candidates")
    users = np.arange(len(histories))
    vectors = item_table(transcript, biases=True)
    if vectors is None:
        nothing = np.zeros((len(users), 1), np.float32)
        note = "the model has no vectors of items"
        return Claims(users, nothing, note=note, asks="members", tried=False)
    scores = fitted(vectors, histories)
    pairs = zip(scores, histories, strict=True)
    fit = np.array([_above(score, own) for score, own in pairs])
    # The part of the fit that length and popularity do not explain.
    left = fit - _predicted(fit, histories, transcript.popularity.astype(np.float64))
    score = left.astype(np.float32)[:, None]
    return Claims(users, score, note="with whole histories of candidates", asks="members")


def _above(score: Float64Array, own: BoolArray) -> float:
    """The chance that an item of a history scores above another one."""
    if not own.any() or own.all():
        return 0.5
    others = np.sort(score[~own])
    below = np.searchsorted(others, score[own])
    return float(below.mean() / len(others))


def _predicted(fit: Float64Array, histories: BoolArray, popularity: Float64Array) -> Float64Array:
    """The fit of a history as its length and the popularity of its items predict it, by least
    squares.
    """
    size = np.maximum(histories.sum(axis=1), 1)
    mean = histories @ popularity / size
    mean_log = histories @ np.log1p(popularity) / size
    log_size = np.log(size)
    highest = max(float(mean.max(initial=0)), 1.0)
    columns = [np.ones(len(size)), log_size, log_size**2, mean_log, mean / highest]
    about = np.stack(columns, axis=1)
    weights = np.linalg.lstsq(about, fit, rcond=None)[0]
    return about @ weights  # type: ignore[no-any-return]


def applies(transcript: Transcript) -> bool:
    """Checks whether the onlooker has histories of candidates besides the model."""
    return "candidates/ptr" in transcript.model


ATTACK = Attack(
    "user-membership", ("model",), "ours, after M. Zhang et al., CCS 2021", applies, run
)
