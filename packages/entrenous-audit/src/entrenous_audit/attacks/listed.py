"""Messages that list the history: rows of rated items alone, tables that are zero elsewhere, item
numbers shown by name.

FedMF sends rows of rated items, or a table that is zero for all others; RFRec's gradients are zero
but for rated items; devices with decoys and `rho` 0 have none; MetaMF shows the items of a batch by
name. FedRec++ splits a message between the server and a denoising device: an onlooker that has both
sees, in their difference, a count of 1 for each rated item. Source: D. Chai, L. Wang, K. Chen, Q.
Yang, "Secure federated matrix factorization", arXiv:1906.05108, for FedMF ("part" tells which items
were rated); the others ours.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, BoolArray
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import claims_of, device_of_rows, empty_tally, sends


def applies(transcript: Transcript) -> bool:
    """Checks whether messages have rows for rated items and for nothing else, or mark them among
    others.
    """
    settings = transcript.settings
    ways = {(sent["way"], sent["name"]) for sent in transcript.about["sends"]}
    rated_alone = ("rows", "v") in ways and settings.get("send") == "part"
    zero_elsewhere = ("dense", "v") in ways
    shown = ("shown", "item") in ways
    no_decoys = settings.get("rho") == 0
    both_parts = sends(transcript, "v", "noise")
    return rated_alone or zero_elsewhere or shown or no_decoys or both_parts


def run(transcript: Transcript) -> Claims:
    """Claims the listed items."""
    tally = empty_tally(transcript)
    for place, seen in enumerate(transcript.rounds):
        users, device, item = _listed(transcript, seen)
        who = np.searchsorted(tally.users, users)
        tally.claim(who[device], item, place)
    return claims_of(transcript, tally)


def _listed(transcript: Transcript, seen: Seen) -> tuple[Array, Array, Array]:
    """The users of a round; and for each listed item the place of its user among them, and the
    item.
    """
    sent = seen.sent
    # Items shown by name, -1 where a batch has fewer.
    shown = sent.get("item_")
    if shown is not None and shown.ndim == 2:
        device, place = np.nonzero(shown >= 0)
        users = sent.get("sender", seen.users)
        return users, device, shown[device, place].astype(np.int64)
    # Both parts of a message: their difference marks rated items.
    if sends(transcript, "v", "noise") and "ptr" in sent:
        rated = _rated(sent["v"], sent["noise"])
        return seen.users, device_of_rows(seen)[rated], sent["item"][rated]
    # A table for each device that is zero elsewhere; under noise no row is.
    if "v" in sent and sent["v"].ndim == 3 and not len(sent["item"]):
        marked: BoolArray = np.any(sent["v"], axis=2)
        marked[np.all(marked, axis=1)] = False
        device, item = np.nonzero(marked)
        return seen.users, device, item
    # Rows of rated items alone, unless every item has one.
    if "ptr" in sent and np.diff(sent["ptr"]).max(initial=0) < transcript.items:
        return seen.users, device_of_rows(seen), sent["item"]
    nothing = np.empty(0, np.int64)
    return seen.users, nothing, nothing


def _rated(v: Array, noise: Array) -> BoolArray:
    """The rows whose two parts differ by a count of 1."""
    # In steps of 2^-16. With pads a number is two limbs of 24 bits, modulo 2^48.
    whole = np.rint(v.astype(np.float64) * 2.0**16)
    noise_steps = np.rint(noise.astype(np.float64) * 2.0**16)
    steps = whole - noise_steps
    count = steps[:, -1, 0]
    if steps.shape[-1] > 1:
        count = count + steps[:, -1, 1] * 2.0**24
    off = np.abs((count % 2.0**48) - 2.0**16)
    return off < 0.5  # type: ignore[no-any-return]


ATTACK = Attack("listed", ("individual",), "Chai et al. 2019, and ours", applies, run)
