"""Rows of a sum that have one sender are single updates: they are solved, linked from round to
round, and named by who was asked.

In sums of federated pair-wise learning (FPL) over N devices with T triples, few rows have more than
one sender where N T is small beside the catalogue (at T = 1 and N = 100 on MovieLens-100K 3 of
100), and a released count of senders flags them. Such a row gives p_u and the score of the hidden
positive (the attack `match`). p_u moves slowly, so that rows of one device are neighbours over
rounds: they become a pseudonym. Who took part in all of its rounds is soon one user alone. Rows
without a count are tried all the same. Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.types import Array, Float64Array, Int32Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import GRID, nearest, pairwise, pairwise_rates, solved
from ._rows_seen import RowsSeen, claims_of, empty_tally

NEAR = 0.25  # of the length of p_u: how far it may have moved between two rows of a pseudonym


class SolvedSums(NamedTuple):
    """Rows of one round that were solved. p: float64 [n, F]; item: int32 [n], the hidden
    positives.
    """

    p: Float64Array
    item: Int32Array


def run(transcript: Transcript) -> Claims:
    """Claims the hidden positives of the rows of pseudonyms that only one user can be."""
    tally, found = (
        empty_tally(transcript),
        [_lone(transcript, place) for place in range(len(transcript.rounds))],
    )
    part = np.array([np.isin(tally.users, seen.users) for seen in transcript.rounds]).reshape(
        len(found), len(tally.users)
    )
    names = _linked(found, part)
    rows = 0
    for place, (lone, name) in enumerate(zip(found, names, strict=True)):
        rows += len(name)
        tally.claim(name[name >= 0], lone.item[name >= 0], place)
    named = sum(int((name >= 0).sum()) for name in names)
    return claims_of(
        transcript, tally, f"{rows} rows of one sender were solved, {named} of them named"
    )


def _lone(transcript: Transcript, place: int) -> SolvedSums:
    """The rows of negatives of a sum that are those of one device, solved."""
    seen = transcript.rounds[place]
    b = seen.sent["b"]
    alone = (
        b < 0
        if "senders" not in seen.sent or not (seen.sent["senders"] == 1).any()
        else (b < 0) & (seen.sent["senders"] == 1)
    )
    item = np.flatnonzero(alone)
    sent: dict[str, Array] = {name: seen.sent[name][item].astype(np.float32) for name in ("q", "b")}
    nobody = np.zeros(len(item), np.int64)
    rows = RowsSeen(place, seen._replace(sent=sent), nobody, nobody, item.astype(np.int32))
    solution = solved(rows, pairwise_rates(transcript), np.arange(len(item)))
    other, gap = nearest(solution, rows, np.arange(len(item)))
    good = solution.fit & (gap[:, 0] < GRID)
    return SolvedSums(solution.p[good].astype(np.float64), other[good, 0])


def _linked(found: list[SolvedSums], part: Array) -> list[Int64Array]:
    """The place of the user of each row among all users, -1 = more than one can be. part: bool
    [rounds, users], who took part.
    """
    p, able, labels = (
        np.empty((0, found[0].p.shape[1] if found else 0)),
        np.empty((0, part.shape[1]), np.bool_),
        [],
    )
    for lone, there in zip(found, part, strict=True):
        label = _neighbours(lone.p, p, able & there)
        new = label < 0
        label[new] = len(p) + np.arange(int(new.sum()))
        p, able = (
            np.concatenate([p, lone.p[new]]),
            np.concatenate([able, np.tile(there, (int(new.sum()), 1))]),
        )
        p[label] = lone.p
        able[label] &= there
        labels.append(label)
    only = (
        np.where(able.sum(axis=1) == 1, able.argmax(axis=1), -1)
        if able.size
        else np.empty(0, np.int64)
    )
    return [only[label] for label in labels]


def _neighbours(mine: Float64Array, others: Float64Array, able: Array) -> Int64Array:
    """For each row the pseudonym with the nearest vector of those that can have taken part, -1 =
    none is near.
    """
    label = np.full(len(mine), -1, np.int64)
    if not len(others) or not len(mine):
        return label
    squares = (mine**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * mine @ others.T
    squares[:, ~able.any(axis=1)] = np.inf
    best = squares.argmin(axis=1)
    near = squares[np.arange(len(mine)), best] < NEAR**2 * (mine**2).sum(axis=1)
    label[near] = best[near]
    return label


ATTACK = Attack("sum-match", ("sum",), "ours", pairwise, run)
