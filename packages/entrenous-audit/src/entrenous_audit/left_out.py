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
from entrenous.core.types import BoolArray, Int64Array
from entrenous.data.interactions import Interactions
from entrenous.kernels.generator import generator
from entrenous.privacy.protection import protection_of

from .observe import observe
from .plan import AuditPlan
from .scene import with_cohort
from .side_knowledge import histories_of
from .transcript import Transcript

SHARE = 0.2  # of the users, drawn at random, who are left out


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
    plan: AuditPlan, made: Any, data: Interactions, progress: Progress
) -> tuple[Transcript, BoolArray]:
    """Trains on four fifths of the users. Returns the final model, together with the histories of
    all users in a random order; and which of these candidates were in training, bool [users].

    plan: of the training; its cohort is cut to the users that there are. A protection that asks for
    more people in a sum than there are is not refused here.
    """
    inside, order = _drawn(plan.seed, len(data.users))
    members = data.of_users(np.flatnonzero(inside))
    if plan.cohort:
        made = with_cohort(made, min(plan.cohort, len(members.users)))
    protect = dict(plan.protect)
    protection = protection_of(plan.profile, protect, declared(made).traits)
    # Devices that decide by themselves make their noise for that many people.
    if protection.sampling == "fixed":
        protect["people"] = 1
    final = replace(plan, view="model", cohort=0, protect=protect)
    seen = observe(final, members, algorithm=made, progress=progress)
    model = {name: array for name, array in seen.model.items() if not name.startswith("known/")}
    return seen._replace(model={**model, **histories_of("candidates", data, order)}), inside[order]
