"""Messages that list the history: rows of rated items alone, tables that are zero elsewhere, item
numbers shown by name.

FedMF sends rows of rated items, or a table that is zero for all others; RFRec's gradients are zero
but for rated items; devices with decoys and `rho` 0 have none; MetaMF shows which items a batch is
of, by name. FedRec++ splits a message between the server and a denoising device: whoever has both
sees, in their difference, a count of 1 for what was rated. Source: D. Chai, L. Wang, K. Chen, Q.
Yang, "Secure federated matrix factorization", arXiv:1906.05108, for FedMF ("part" tells which items
were rated); the others ours. Under noise a row counts that is longer than noise makes any.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...core.types import Array, BoolArray
from ...federation.recorder import Seen
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, empty_tally, sends

SURELY = 8.0  # standard deviations of a squared length


def applies(transcript: Transcript) -> bool:
    """Whether messages have rows for what was rated and for nothing else, or say so beside
    others.
    """
    settings, ways = (
        transcript.about["settings"],
        {(sent["way"], sent["name"]) for sent in transcript.about["sends"]},
    )
    alone = ("rows", "v") in ways and settings.get("send") == "part"
    return (
        alone
        or ("dense", "v") in ways
        or ("shown", "item") in ways
        or settings.get("rho") == 0
        or sends(transcript, "v", "noise")
    )


def run(transcript: Transcript) -> Claims:
    """Claims what is listed."""
    tally = empty_tally(transcript)
    for place, seen in enumerate(transcript.rounds):
        for users, device, item in _listed(transcript, seen):
            tally.claim(np.searchsorted(tally.users, users)[device], item, place)
    return claims_of(transcript, tally)


def _listed(transcript: Transcript, seen: Seen) -> Iterator[tuple[Array, Array, Array]]:
    """Users, and of each listed item the place of its user among them and its number."""
    if "item_" in seen.sent and seen.sent["item_"].ndim == 2:
        device, place = np.nonzero(seen.sent["item_"] >= 0)
        yield (
            seen.sent.get("sender", seen.users),
            device,
            seen.sent["item_"][device, place].astype(np.int64),
        )
    elif sends(transcript, "v", "noise") and "ptr" in seen.sent:
        there, device = (
            _rated(seen.sent["v"], seen.sent["noise"]),
            np.repeat(np.arange(len(seen.users)), np.diff(seen.sent["ptr"])),
        )
        yield seen.users, device[there], seen.sent["item"][there]
    elif "v" in seen.sent and seen.sent["v"].ndim == 3 and not len(seen.sent["item"]):
        device, item = np.nonzero(np.stack([_longer(table) for table in seen.sent["v"]]))
        yield seen.users, device, item
    elif "ptr" in seen.sent and np.diff(seen.sent["ptr"]).max(initial=0) < transcript.items:
        yield (
            seen.users,
            np.repeat(np.arange(len(seen.users)), np.diff(seen.sent["ptr"])),
            seen.sent["item"],
        )


def _longer(table: Array) -> BoolArray:
    """The rows of a table that are not 0, or longer than noise makes the median row."""
    squares = (table.astype(np.float64) ** 2).sum(axis=1)
    if not squares.all():
        return squares > 0  # type: ignore[no-any-return]
    noise = float(np.median(squares)) / table.shape[1]
    return squares > noise * (table.shape[1] + SURELY * np.sqrt(2 * table.shape[1]))  # type: ignore[no-any-return]


def _rated(v: Array, noise: Array) -> BoolArray:
    """The rows whose two parts differ by a count of 1: with pads, of two limbs of 24 bits, modulo
    2^48 in steps of 2^-16.
    """
    steps = np.rint(v.astype(np.float64) * 2.0**16) - np.rint(noise.astype(np.float64) * 2.0**16)
    count = steps[:, -1, 0] if steps.shape[-1] == 1 else steps[:, -1, 0] + steps[:, -1, 1] * 2.0**24
    return np.abs((count % 2.0**48) - 2.0**16) < 0.5  # type: ignore[no-any-return]


ATTACK = Attack("listed", ("individual",), "Chai et al. 2019, and ours", applies, run)
