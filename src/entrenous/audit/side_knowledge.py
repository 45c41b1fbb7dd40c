"""What an onlooker of the final model knows beside it: half of every user's history, drawn at random, as from a leaked profile.

A model without anybody's vector says nothing of a named user by itself; who knows some of a person's items asks it for the others. What
is known is no find: measures leave it out. In a transcript it is `model["known/ptr"]`, int64 [users + 1], and `model["known/item"]`,
int32.
"""

from __future__ import annotations

import numpy as np

from ..core.generator import generator
from ..core.keys import key
from ..core.types import Array, BoolArray
from ..data.interactions import Interactions
from .transcript import Transcript

SHARE = 0.5


def known_half(data: Interactions) -> dict[str, Array]:
    """Half of the rows of every user, as arrays of a transcript."""
    some = generator(key(0, "audit", "known")).uniform(len(data.item)) < SHARE
    counts = np.bincount(data.user[some], minlength=len(data.users))
    return {"known/ptr": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), "known/item": data.item[some]}


def known_items(transcript: Transcript) -> BoolArray | None:
    """What the onlooker knew of every user, bool [users, items]; None = nothing."""
    if "known/ptr" not in transcript.model:
        return None
    ptr, found = transcript.model["known/ptr"], np.zeros((transcript.users, transcript.items), np.bool_)
    found[np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), transcript.model["known/item"]] = True
    return found
