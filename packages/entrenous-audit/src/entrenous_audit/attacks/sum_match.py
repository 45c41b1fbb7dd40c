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

from entrenous.core.types import Array, BoolArray, Float64Array, Int32Array, Int64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._pairwise import GRID, matched, pairwise, pairwise_rates
from ._rows_seen import claims_of, declined, empty_tally
from ._sums_seen import as_single_rows, senders_of

NEAR = 0.25  # of the length of p_u: how far it may have moved between two rows of a pseudonym


class SolvedSums(NamedTuple):
    """The rows of negatives of one sum that were solved."""

    p: Float64Array
    """[n, F]."""
    item: Int32Array
    """[n], the hidden positives."""


def run(transcript: Transcript) -> Claims:
    """Claims the hidden positives of the rows of pseudonyms that only one user can be."""
    tally = empty_tally(transcript)
    lone = [_lone(transcript, place) for place in range(len(transcript.rounds))]
    took_part = [np.isin(tally.users, seen.users) for seen in transcript.rounds]
    rows = 0
    named = 0
    for place, who in enumerate(_linked(lone, took_part)):
        known = who >= 0
        rows += len(who)
        named += int(known.sum())
        tally.claim(who[known], lone[place].item[known], place)
    if not rows:
        return declined(transcript, "no row of one sender was solved")
    note = f"{rows} rows of one sender were solved, {named} of them named"
    return claims_of(transcript, tally, note)


def _lone(transcript: Transcript, place: int) -> SolvedSums:
    """Solves the rows of negatives of a sum that are of one device."""
    seen = transcript.rounds[place]
    negative = seen.sent["b"] < 0
    # Without counts every row is tried: one of several senders leads to no item's score.
    single = senders_of(seen) == 1
    if single.any():
        negative &= single
    rows = as_single_rows(place, seen, np.flatnonzero(negative))
    every = np.arange(len(rows.item))
    match = matched(rows, pairwise_rates(transcript), every, GRID)
    sure = match.sure
    return SolvedSums(match.p[sure].astype(np.float64), match.item[sure])


def _linked(rounds: list[SolvedSums], took_part: list[BoolArray]) -> list[Int64Array]:
    """Links rows to pseudonyms. Returns for each round the place of each row's user among all
    users, -1 where several users are possible. took_part: bool [users] for each round.
    """
    if not rounds:
        return []
    # Of each pseudonym the vector last seen, and the users who are possible.
    p = np.empty((0, rounds[0].p.shape[1]))
    possible = np.empty((0, len(took_part[0])), np.bool_)
    labels = []
    for lone, there in zip(rounds, took_part, strict=True):
        label = _neighbours(lone.p, p, possible & there)
        # A row without a neighbour begins a pseudonym, which may be anybody who took part.
        new = label < 0
        many = int(new.sum())
        label[new] = len(p) + np.arange(many)
        p = np.concatenate([p, lone.p[new]])
        possible = np.concatenate([possible, np.tile(there, (many, 1))])
        # The others have moved, and are none of the users who were away.
        p[label] = lone.p
        possible[label] &= there
        labels.append(label)
    if not possible.size:
        return labels
    one_left = possible.sum(axis=1) == 1
    who = np.where(one_left, possible.argmax(axis=1), -1)
    return [who[label] for label in labels]


def _neighbours(mine: Float64Array, others: Float64Array, possible: Array) -> Int64Array:
    """For each row the pseudonym with the nearest vector of those that can have taken part; -1 if
    none is near.
    """
    label = np.full(len(mine), -1, np.int64)
    if not len(others) or not len(mine):
        return label
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a . b
    lengths = (mine**2).sum(axis=1)
    other_lengths = (others**2).sum(axis=1)
    products = 2 * mine @ others.T
    squares = lengths[:, None] + other_lengths - products
    squares[:, ~possible.any(axis=1)] = np.inf
    best = squares.argmin(axis=1)
    distance = squares[np.arange(len(mine)), best]
    near = distance < NEAR**2 * lengths
    label[near] = best[near]
    return label


ATTACK = Attack("sum-match", ("sum",), "ours", pairwise, run)
