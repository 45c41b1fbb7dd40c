"""A training without some of the users, and what its final model shows to who asks whether a person
was in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.contract.protocols import Progress
from ..core.keys import key
from ..core.types import BoolArray
from ..data.interactions import Interactions
from ..federation.executors import Executor
from ..kernels.generator import generator
from .observe import observe
from .scene import Scene
from .side_knowledge import candidate_histories
from .transcript import Transcript

SHARE = 0.2  # of the users, drawn at random, who are left out


def trained_without(
    made: Any,
    data: Interactions,
    scene: Scene,
    protect: Mapping[str, Any],
    *,
    executor: Executor,
    progress: Progress,
) -> tuple[Transcript, BoolArray]:
    """The final model of a training of four fifths of the users, beside the histories of all of
    them in an order that says nothing; and which of these candidates were in it, bool [users].

    scene: of the training; its rounds and cohort, as many as there are users for. Few users are no
        reason to refuse a protection here.
    """
    draws = generator(key(scene.seed, "audit", "left out"))
    inside = draws.uniform(len(data.users)) >= SHARE
    inside[: int(not inside.any())] = True
    own = data.of_users(np.flatnonzero(inside))
    many = (
        {"cohort": min(scene.cohort, len(own.users))}
        if scene.cohort and "cohort" in dict(made)
        else {}
    )
    seen = observe(
        made.model_copy(update=many),
        own,
        view="model",
        rounds=scene.rounds,
        seed=scene.seed,
        profile=scene.profile,
        protect={**protect, "people": 1},
        executor=executor,
        progress=progress,
    )
    order = np.argsort(draws.uniform(len(data.users)), kind="stable")
    model = {name: array for name, array in seen.model.items() if not name.startswith("known/")}
    return seen._replace(model={**model, **candidate_histories(data, order)}), inside[order]
