"""A training without some of the users, and what its final model shows to somebody who asks whether
a person was in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from entrenous.core.contract.declared import declared
from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key
from entrenous.core.types import Array, BoolArray, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.kernels.generator import generator
from entrenous.privacy.protection import protection_of

from .observe import observe
from .plan import AuditPlan
from .scene import with_cohort
from .side_knowledge import histories_of
from .transcript import Transcript

FIFTHS = 5
SHARE = 1 / FIFTHS  # of the users, drawn at random, who are left out


def in_training(seed: int, users: int) -> BoolArray:
    """The users who train in `trained_without`, bool [users]."""
    return _drawn(seed, users)[0]


def _drawn(seed: int, users: int) -> tuple[BoolArray, Int64Array]:
    """Draws the users who train, bool [users], and the order of candidates, int64 [users]."""
    draws = generator(key(seed, "audit", "left out"))
    inside = draws.uniform(users) >= SHARE
    inside[: int(not inside.any())] = True  # at least one user trains
    order = np.argsort(draws.uniform(users), kind="stable")
    return inside, order.astype(np.int64)


def trained_without(
    plan: AuditPlan, made: Any, data: Interactions, progress: Progress, own: int = 0
) -> tuple[Transcript, BoolArray]:
    """Trains on four fifths of the users. Returns the final model, together with the histories of
    all users in a random order; and which of these candidates were in training, bool [users].

    plan: of the training; its cohort is cut to the users that there are. A protection that asks for
    more people in a sum than there are is not refused here. own: trainings of the onlooker's own,
    each of other users than these; each user is left out of one in five.
    """
    inside, order = _drawn(plan.seed, len(data.users))
    seen = _trained(plan, made, data, inside, progress)
    model = {**_learned(seen), **histories_of("candidates", data, order)}
    if own:
        draws = generator(key(plan.seed, "audit", "own models"))
        place = np.argsort(draws.uniform(len(data.users)), kind="stable")
        members = np.array([place % FIFTHS != number % FIFTHS for number in range(own)])
        for number, some in enumerate(members):
            other = replace(plan, seed=plan.seed + 1 + number)
            learned = _learned(_trained(other, made, data, some, progress))
            model |= {f"own/{number}/{name}": array for name, array in learned.items()}
        model["own/inside"] = members[:, order]
    return seen._replace(model=model), inside[order]


def _learned(seen: Transcript) -> dict[str, Array]:
    """The arrays of a final model, without what else its onlooker knows."""
    return {name: array for name, array in seen.model.items() if "/" not in name}


def _trained(
    plan: AuditPlan, made: Any, data: Interactions, inside: BoolArray, progress: Progress
) -> Transcript:
    """Trains on some users, bool [users]."""
    members = data.of_users(np.flatnonzero(inside))
    if plan.cohort:
        made = with_cohort(made, min(plan.cohort, len(members.users)))
    protect = dict(plan.protect)
    protection = protection_of(plan.profile, protect, declared(made).traits)
    # Devices that decide by themselves make their noise for that many people.
    if protection.sampling == "fixed":
        protect["people"] = 1
    final = replace(plan, view="model", cohort=0, protect=protect)
    return observe(final, members, algorithm=made, progress=progress)
