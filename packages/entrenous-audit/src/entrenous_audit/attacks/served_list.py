"""The history behind a list of recommendations: what should be on the list and is not was consumed.

A list leaves out what its owner has consumed. The vector that ranks the items of the list as they
are is fitted to them (ridge regression in which all other items count a thousandth, with the target
0): against their scores, where these are known, else against 2 for the first and evenly less, to 1
for the last. Items that it would rank highest are likely consumed; by known scores an item above
the last of the list is claimed. Known: the model and the list. Source: ours.
"""

from __future__ import annotations

import numpy as np

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import declined, prior
from .membership import item_table, standard

# Chosen on every other person of MovieLens-100K for fcf, pfpl+ and fedncf together.
OTHERS = 1e-3  # the weight of items that are not on the list
RIDGE = 1e-2  # of the penalty, for vectors of mean length 1
TRUST = 4.0  # of the fit, compared with the popularity


def run(transcript: Transcript) -> Claims:
    """Ranks the items of every user; with scores, claims those that the list left out."""
    vectors = item_table(transcript.model, transcript.items, biases=True)
    if vectors is None:
        return declined(transcript, "the model has no vectors of items")
    ptr = transcript.model["known/ptr"]
    item = transcript.model["known/item"]
    scores = transcript.model.get("known/score")
    popular = standard(prior(transcript).astype(np.float64))
    users = np.arange(transcript.users)
    ranking = np.empty((len(users), transcript.items), np.float32)
    claimed = np.zeros(ranking.shape, np.bool_)
    square = OTHERS * vectors.T @ vectors + RIDGE * np.eye(vectors.shape[1])
    for user in users:
        part = slice(ptr[user], ptr[user + 1])
        own = vectors[item[part]]
        target = np.linspace(2, 1, len(own)) if scores is None else scores[part]
        taste = np.linalg.solve(square + own.T @ own, own.T @ target)
        fit = vectors @ taste
        ranking[user] = popular + TRUST * standard(fit)
        if scores is not None:
            claimed[user] = fit > target.min(initial=np.inf)
    return Claims(users, ranking, None if scores is None else claimed)


def applies(transcript: Transcript) -> bool:
    """Checks whether the onlooker knows lists besides the model."""
    return "known/ptr" in transcript.model


ATTACK = Attack("served-list", ("list",), "ours", applies, run)
