"""The knowledge of an onlooker on top of what it sees, where an attack needs that: sets of items,
in a transcript as arrays of its `model`.

* `known/ptr`, `known/item`: a share of every user's history, drawn at random, as from a leaked
  profile: as much as the plan says, and half with a final model unless it says another. A model
  without anybody's vector says nothing of a named user by itself; an onlooker that knows some of a
  person's items asks it for the others. Known items are no find: measures leave them out.
  In the view `list`: the items that each user is served, best first, with `known/score`, float32,
  where scores are shown. It is known of them that their user has not consumed them.
* `candidates/ptr`, `candidates/item`, with a final model: whole histories of people of whom some
  were in training, in a random order. An onlooker that has such a history asks whether its owner
  took part. For that it trains models: `own/NUMBER/NAME` are their arrays, and `own/inside`, bool
  [models, candidates], says who is in which.
* `targets/ptr`, `targets/item`, with single messages: sets of items that stand for a taste. They
  are histories of some users, and `targets/owner` says whose: a peer that asks who is like itself.
* `changed/user`, with two sums of the same people: who of them has a new row, pair by pair. All
  other rows are in `known`.

ptr: int64 [sets + 1]; item: int32.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.keys import key
from entrenous.core.lanes.memory import owners_of, starts_of
from entrenous.core.types import Array, BoolArray, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.kernels.generator import generator
from entrenous.kernels.sampling import cohort

from .transcript import Transcript

SHARE = 0.5  # of a history
# tastes that are asked for, and interactions of their owners
TARGETS = 50
LEAST = 10


def known_share(data: Interactions, share: float = SHARE) -> dict[str, Array]:
    """A share of the rows of every user, as arrays of a transcript; {} for a share of 0."""
    if not share:
        return {}
    draws = generator(key(0, "audit", "known"))
    some = draws.uniform(len(data.item)) < share
    counts = np.bincount(data.user[some], minlength=len(data.users))
    ptr = starts_of(counts)
    return {"known/ptr": ptr, "known/item": data.item[some]}


def target_sets(data: Interactions) -> dict[str, Array]:
    """The histories of some users, as arrays of a transcript."""
    owners = np.flatnonzero(data.counts >= LEAST)
    if len(owners):
        drawn = cohort(key(0, "audit", "targets"), min(TARGETS, len(owners)), len(owners))
        owners = owners[drawn]
    return {**histories_of("targets", data, owners), "targets/owner": owners}


def histories_of(name: str, data: Interactions, users: Int64Array) -> dict[str, Array]:
    """The histories of users, in their order, as sets of a transcript."""
    histories = data.histories(users)
    return {f"{name}/ptr": histories.ptr, f"{name}/item": histories.item}


def sets_of(transcript: Transcript, name: str) -> BoolArray:
    """Sets of items that the onlooker knows, bool [sets, items]. name: known, candidates or
    targets.
    """
    model = transcript.model
    return table_of_sets(model[f"{name}/ptr"], model[f"{name}/item"], transcript.items)


def table_of_sets(ptr: Array, item: Array, items: int) -> BoolArray:
    """Sets of items as a table, bool [sets, items]; set s is item[ptr[s]:ptr[s + 1]]."""
    table = np.zeros((len(ptr) - 1, items), np.bool_)
    table[owners_of(ptr), item] = True
    return table


def known_items(transcript: Transcript) -> BoolArray | None:
    """The items that the onlooker knew of every user, bool [users, items]; None = nothing."""
    if "known/ptr" in transcript.model:
        return sets_of(transcript, "known")
    return None
