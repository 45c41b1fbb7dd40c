"""Was this user in training? An onlooker with the final model and histories of candidates trains
several models, each without some of these people, and asks which of them the final model is like.

A vector is fitted to a history as in the attack `membership`; the statistic is how much higher its
own items score than others. Models tell a member's from their others' in different places: for each
candidate the statistic is normal around its mean over own models with them, or over those without
them, with one variance for all, since there are too few models for more. The score is the log
likelihood ratio, but for that variance. Known: the model, and the histories. Source: N. Carlini et
al., "Membership inference attacks from first principles", S&P 2022 (online); the statistic is ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from entrenous.core.types import Array, BoolArray, Float64Array

from ..claims import Attack, Claims
from ..side_knowledge import sets_of
from ..transcript import Transcript
from .membership import fitted, item_table


def run(transcript: Transcript) -> Claims:
    """Ranks candidates by how likely they were in training; claims no items."""
    histories = sets_of(transcript, "candidates")
    users = np.arange(len(histories))
    seen = _fits(transcript.model, histories)
    if seen is None:
        nothing = np.zeros((len(users), 1), np.float32)
        note = "the model has no vectors of items"
        return Claims(users, nothing, note=note, asks="members", tried=False)
    inside = transcript.model["own/inside"]
    own = np.array([_fits(_own(transcript, number), histories) for number in range(len(inside))])
    of_members = _means(own, inside)
    of_others = _means(own, ~inside)
    ratio = (of_members - of_others) * (seen - (of_members + of_others) / 2)
    score = ratio.astype(np.float32)[:, None]
    note = f"with whole histories of candidates, and {len(inside)} trainings"
    return Claims(users, score, note=note, asks="members")


def _own(transcript: Transcript, number: int) -> Mapping[str, Array]:
    """The arrays of a model that the onlooker trained."""
    start = f"own/{number}/"
    model = transcript.model.items()
    return {name.removeprefix(start): array for name, array in model if name.startswith(start)}


def _fits(model: Mapping[str, Array], histories: BoolArray) -> Float64Array | None:
    """Returns how much higher than others the items of each history score, float64; None for a
    model without vectors of items.
    """
    vectors = item_table(model, histories.shape[1], biases=True)
    if vectors is None:
        return None
    scores = fitted(vectors, histories)
    return _means(scores.T, histories.T) - _means(scores.T, ~histories.T)


def _means(numbers: Float64Array, some: BoolArray) -> Float64Array:
    """The mean of some numbers of each column."""
    return (numbers * some).sum(axis=0) / np.maximum(some.sum(axis=0), 1)  # type: ignore[no-any-return]


def applies(transcript: Transcript) -> bool:
    """Checks whether the onlooker has histories of candidates, and models that it trained."""
    return "own/inside" in transcript.model


ATTACK = Attack("user-membership", ("model",), "Carlini et al. 2022, and ours", applies, run)
