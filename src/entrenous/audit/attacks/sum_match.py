"""Rows of a sum that have one sender are single updates: they are solved, linked from round to
round, and named by who was asked.

In sums of federated pair-wise learning (FPL) over N devices with T triples, few rows have more than
one sender where N T is small next to the catalogue (at T = 1 and N = 100 on MovieLens-100K 3 of
100), and a released count of senders flags them. Such a row gives p_u and the score of the hidden
positive (the attack `match`). p_u moves slowly, so that rows of one device are neighbours over
rounds: they become a pseudonym. A user who alone took part in all of its rounds is its name. Rows
without a count are tried all the same. Source: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.types import Array, BoolArray, Float64Array, Int32Array, Int64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import GRID, nearest, pairwise, pairwise_rates, solved
from ._rows_seen import claims_of, empty_tally
from ._sums_seen import as_single_rows

NEAR = 0.25  # of the length of p_u: how far it may have moved between two rows of a pseudonym


class SolvedSums(NamedTuple):
    """Rows of one round that were solved."""

    p: Float64Array
    """[n, F]."""
    item: Int32Array
    """[n], the hidden positives."""


def run(transcript: Transcript) -> Claims:
    """Claims the hidden positives of the rows of pseudonyms that only one user can be."""
    tally = empty_tally(transcript)
    lone = [_lone(transcript, place) for place in range(len(transcript.rounds))]
    part = [np.isin(tally.users, seen.users) for seen in transcript.rounds]
    rows, named = 0, 0
    for place, name in enumerate(_linked(lone, part)):
        known = name >= 0
        rows += len(name)
        named += int(known.sum())
        tally.claim(name[known], lone[place].item[known], place)
    said = f"{rows} rows of one sender were solved, {named} of them named"
    return claims_of(transcript, tally, said)


def _lone(transcript: Transcript, place: int) -> SolvedSums:
    """The rows of negatives of a sum that are those of one device, solved."""
    seen = transcript.rounds[place]
    negative = seen.sent["b"] < 0
    single = seen.sent.get("senders", np.zeros(len(negative))) == 1
    if single.any():
        negative = negative & single
    rows = as_single_rows(place, seen, np.flatnonzero(negative))
    every = np.arange(len(rows.item))
    solution = solved(rows, pairwise_rates(transcript), every)
    other, gap = nearest(solution, rows, every)
    good = solution.fit & (gap[:, 0] < GRID)
    return SolvedSums(solution.p[good].astype(np.float64), other[good, 0])


def _linked(rounds: list[SolvedSums], part: list[BoolArray]) -> list[Int64Array]:
    """Of each round the place of the user of each row among all users, -1 = more than one can be.
    part: of each round bool [users], who took part.
    """
    if not rounds:
        return []
    p = np.empty((0, rounds[0].p.shape[1]))  # of each pseudonym the vector last seen
    able = np.empty((0, len(part[0])), np.bool_)  # and who it may be
    labels = []
    for lone, there in zip(rounds, part, strict=True):
        label = _neighbours(lone.p, p, able & there)
        new = label < 0
        many = int(new.sum())
        label[new] = len(p) + np.arange(many)
        p = np.concatenate([p, lone.p[new]])
        able = np.concatenate([able, np.tile(there, (many, 1))])
        p[label] = lone.p
        able[label] &= there
        labels.append(label)
    if not able.size:
        return labels
    name = np.where(able.sum(axis=1) == 1, able.argmax(axis=1), -1)
    return [name[label] for label in labels]


def _neighbours(mine: Float64Array, others: Float64Array, able: Array) -> Int64Array:
    """For each row the pseudonym with the nearest vector of those that can have taken part, -1 =
    none is near.
    """
    label = np.full(len(mine), -1, np.int64)
    if not len(others) or not len(mine):
        return label
    lengths = (mine**2).sum(axis=1)
    squares = lengths[:, None] + (others**2).sum(axis=1) - 2 * mine @ others.T
    squares[:, ~able.any(axis=1)] = np.inf
    best = squares.argmin(axis=1)
    near = squares[np.arange(len(mine)), best] < NEAR**2 * lengths
    label[near] = best[near]
    return label


ATTACK = Attack("sum-match", ("sum",), "ours", pairwise, run)
