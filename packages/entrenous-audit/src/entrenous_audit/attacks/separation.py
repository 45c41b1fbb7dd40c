"""Sums over the same parties, round after round, come apart without knowing any of them: FCF's sums
do not hide single histories.

The sum of FCF's gradients (Ammad-ud-din et al., arXiv:1901.09888) is, for an item i that nobody of
the parties has consumed, -w S y_i with one matrix S = sum x_u x_u^T for all items: rare items show
it (a robust regression), and with it which items were consumed at all. What the others have on top
of it is a sum of multiples of x_u over the parties that consumed them, in every round: rounds x F
equations for each item, against as many binary unknowns as there are parties. `_peeling` solves
them, from items of a single party on. The result are histories of pseudonyms. Where devices send
x_u x_u^T and rows of consumed items (`form=gram`) these sums are sent as they are, with 0 for items
that nobody consumed. Claimed is what is in items that the parties found explain to the precision of
the numbers. Source: ours. Sums with noise are left alone: then the items that nobody consumed do
not stand out, and popularity is all that is said.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import BoolArray, Float64Array

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._fcf_cost import gradients, terms_of
from ._peeling import Sums, peeled
from ._rows_seen import SURE, declined, empty_tally, prior, sends

GAP = 5.0  # between residuals of items that nobody and that somebody consumed, as a ratio
FEW = 0.05  # the share of items that nobody consumed, at least
STEPS = 60  # of the robust regression
GUESSED = 2  # log odds of codes in items that are not explained
MOST = 200  # parties: more take minutes


def run(transcript: Transcript) -> Claims:
    """Claims histories of pseudonyms. Not tried where parties change, are too many, or where noise
    is on the sums.
    """
    parties = len(empty_tally(transcript).users)
    rounds = len(transcript.rounds)
    factors = int(transcript.setting("factors"))
    equations = rounds * factors
    size = (
        f"{rounds} rounds x {factors} factors = {equations} equations an item against"
        f" {parties} parties"
    )
    if not _always_the_same(transcript):
        return declined(transcript, "parties change")
    if not 1 < parties <= min(MOST, equations):
        why = f"{size}, of which it solves 2 to {MOST}, given as many equations"
        return declined(transcript, why)
    consumed = _consumed(transcript)
    if consumed is None:
        why = f"{size}: what nobody consumed does not stand out, as under noise"
        return declined(transcript, why)
    sums, some = consumed
    peels = peeled(sums, parties)
    m = peels.codes.shape[1]
    score = np.tile(prior(transcript), (parties, 1))
    claimed = np.zeros((parties, transcript.items), np.bool_)
    # Codes of explained items are sure, of others a guess; 1/2 says nothing.
    sure = np.where(peels.explained, SURE, GUESSED)
    odds = sure * (2 * peels.codes.T - 1)
    score[:m, some] += odds.astype(np.float32)
    score[:, ~some] -= SURE
    said = (peels.codes > 0.5).T
    claimed[:m, some] = said & peels.explained
    share = 100 * float(peels.explained.mean())
    note = (
        f"{size}; {m} of {parties} parties found, {share:.0f} % of the consumed items explained to"
        " the precision of the numbers"
    )
    return Claims(np.arange(parties), score, claimed, named=False, note=note)


def _always_the_same(transcript: Transcript) -> bool:
    users = [seen.users for seen in transcript.rounds]
    return len(users) > 0 and all(np.array_equal(users[0], others) for others in users)


def _consumed(transcript: Transcript) -> tuple[Sums, BoolArray] | None:
    """The part of the sums that is of consumed items alone, and the items that somebody consumed;
    None where these cannot be told.
    """
    if not sends(transcript, "f"):
        return _sent_alone(transcript)
    sent = [np.asarray(seen.sent["f"], np.float64) for seen in transcript.rounds]
    sums = [table.sum(axis=0) for table in sent]
    items = _item_factors(transcript)
    nobody = _nobody_in_some_round(sums, items, transcript)
    if nobody is None:
        return None
    # Those items give -w S exactly, which is then taken off all others.
    rows = []
    for total, y in zip(sums, items, strict=True):
        fit = np.linalg.lstsq(y[nobody], total[nobody], rcond=None)
        shared = fit[0]
        rows.append(total - y @ shared)
    if not all(_stands_out(np.linalg.norm(row, axis=1), nobody) for row in rows):
        return None
    # In their rows nothing but errors of the numbers is left.
    left = np.mean([row[nobody] ** 2 for row in rows])
    noise = float(np.sqrt(left))
    return _sums(transcript, rows, ~nobody, noise), ~nobody


def _nobody_in_some_round(
    sums: list[Float64Array], items: list[Float64Array], transcript: Transcript
) -> BoolArray | None:
    """The items that nobody consumed, by the first round in which they stand out."""
    for total, y in zip(sums, items, strict=True):
        shared = _robust(total, y, transcript)
        nobody = _nobody(np.linalg.norm(total - y @ shared, axis=1))
        if nobody is not None:
            return nobody
    return None


def _sent_alone(transcript: Transcript) -> tuple[Sums, BoolArray] | None:
    """The rows that consumed items alone have, and these items, where devices send such rows
    (`form=gram`); None where every item has one, as under noise.
    """
    rows = [np.asarray(seen.sent["own"], np.float64) for seen in transcript.rounds]
    some = np.any([row.any(axis=1) for row in rows], axis=0)
    if some.all():
        return None
    parties = len(transcript.rounds[0].users)
    # Each party rounds its numbers to a step: an even error of each, of variance 1/12.
    spread = float(np.sqrt(parties / 12))
    rounding = float(transcript.about["step"]) * spread
    return _sums(transcript, rows, some, rounding), some


def _item_factors(transcript: Transcript) -> list[Float64Array]:
    return [seen.received["y"].astype(np.float64) for seen in transcript.rounds]


def _sums(transcript: Transcript, rows: list[Float64Array], some: BoolArray, noise: float) -> Sums:
    """The rows of `some` items, for `_peeling`. noise: the standard deviation of a number, taken to
    be a step of the grid at least.
    """
    # On top of -w S y a consumed item has (c - (c - w) x . y) x of each of its parties.
    terms = terms_of(transcript, sums=1)
    noise = max(noise, float(transcript.about["step"]))
    items = np.stack(_item_factors(transcript))
    tables = np.stack(rows)[:, some]
    return Sums(tables, items[:, some], terms.c, terms.c - terms.w, noise)


def _robust(total: Float64Array, y: Float64Array, transcript: Transcript) -> Float64Array:
    """-w S, float64 [F, F]: the matrix with the least sum of lengths of residuals, by iteratively
    reweighted least squares. Rare items count most at first.
    """
    weight = 1 / (1 + transcript.popularity.astype(np.float64))
    shared = np.zeros((y.shape[1], y.shape[1]))
    for _ in range(STEPS):
        weighted = (y * weight[:, None]).T
        square = weighted @ y
        identity = np.eye(len(square))
        ridge = 1e-9 * np.trace(square) * identity
        shared = np.linalg.solve(square + ridge, weighted @ total)
        # S is symmetric.
        shared = (shared + shared.T) / 2
        left = np.linalg.norm(total - y @ shared, axis=1)
        # Small residuals count alike, or a few items would decide alone.
        least = max(1e-6, float(np.quantile(left, 0.1)) / 2)
        weight = 1 / np.maximum(left, least)
    return shared


def _nobody(left: Float64Array) -> BoolArray | None:
    """The items that nobody consumed: those below the widest gap between residuals; None if there
    is none, or they are too few.
    """
    order = np.sort(np.maximum(left, 1e-6))
    fewest = max(2, int(FEW * len(order)))
    ratios = order[fewest + 1 :] / order[fewest:-1]
    if not len(ratios) or ratios.max() <= GAP:
        return None
    last_below = order[fewest + int(ratios.argmax())]
    return left <= last_below


def _stands_out(left: Float64Array, nobody: BoolArray) -> bool:
    """Checks whether items that nobody consumed have smaller residuals than all others."""
    if nobody.all():
        return False
    return bool(left[~nobody].min() > 2 * left[nobody].max())


ATTACK = Attack("separation", ("sum",), "ours", gradients, run)
