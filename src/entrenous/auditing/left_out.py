"""A training without some of the users, and what its final model shows to somebody who asks whether
a person was in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.contract.protocols import Progress
from ..core.keys import key
from ..core.types import BoolArray
from ..data.interactions import Interactions
from ..kernels.generator import generator
from .observe import observe
from .plan import AuditPlan
from .scene import with_cohort
from .side_knowledge import histories_of
from .transcript import Transcript

SHARE = 0.2  # of the users, drawn at random, who are left out


def trained_without(
    plan: AuditPlan, made: Any, data: Interactions, progress: Progress
) -> tuple[Transcript, BoolArray]:
    """Trains on four fifths of the users. Returns the final model, together with the histories of
    all users in a random order; and which of these candidates were in training, bool [users].

    plan: of the training; its cohort is cut to the users that there are. A protection that asks for
    more people in a sum than there are is not refused here.
    """
    draws = generator(key(plan.seed, "audit", "left out"))
    inside = draws.uniform(len(data.users)) >= SHARE
    inside[: int(not inside.any())] = True  # at least one user trains
    members = data.of_users(np.flatnonzero(inside))
    if plan.cohort:
        made = with_cohort(made, min(plan.cohort, len(members.users)))
    final = replace(plan, view="model", cohort=0, protect={**plan.protect, "people": 1})
    seen = observe(final, members, algorithm=made, progress=progress)
    order = np.argsort(draws.uniform(len(data.users)), kind="stable")
    model = {name: array for name, array in seen.model.items() if not name.startswith("known/")}
    return seen._replace(model={**model, **histories_of("candidates", data, order)}), inside[order]
