"""What differential privacy promises of what an audit has seen, and what canaries say against
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.contract.declared import is_federated
from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..data.interactions import Interactions
from ..federation.executors import Executor
from ..privacy.accountant import SampledGaussian, epsilon_of
from ..privacy.protection import Protection
from .canaries import audited_once, check_canaries
from .observe import as_trained
from .scene import Scene
from .transcript import Transcript

NOTHING: Mapping[str, Any] = {"epsilon": None, "budget": None, "delta": None}


class Audited(NamedTuple):
    """What canaries are put into: an algorithm with its settings, the rows it trains on, how it is
    observed, and its protection.
    """

    made: Any
    data: Interactions
    scene: Scene
    protection: Protection


def spent_by(seen: Transcript, trained: Mapping[str, Any]) -> dict[str, Any]:
    """The epsilon that what was seen has spent, and the budget it is from. trained: what the
    training of a final model has spent, as `PrivacyBudget.told` says it; {} = nothing, or there is
    no such model.

    Sums are counted one by one. Where the onlooker's view takes the place of Poisson sampling
    (parties that are fixed, or gateways), every one counts in full. Single messages have no noise
    of their own: None, as without a budget.
    """
    own = seen.about["protect"]
    if own["epsilon"] is None:
        return dict(NOTHING)
    epsilon = trained.get("epsilon")
    if seen.about["view"] in ("sum", "difference"):
        mechanism = SampledGaussian(own["noise"] / own["clip"], seen.about["rate"])
        epsilon = epsilon_of(mechanism, len(seen.rounds), own["delta"])
    return {"epsilon": epsilon, "budget": own["epsilon"], "delta": own["delta"]}


def by_canaries(
    audited: Audited, many: int, *, executor: Executor, progress: Progress
) -> dict[str, Any]:
    """What `many` canaries say of one training to its end, or of as many rounds as the scene has:
    how many of their tosses were guessed, the epsilon that these guesses leave possible at least,
    and the one that was promised for this training.
    """
    scene, data = audited.scene, audited.data
    made = audited.made
    if "cohort" in dict(made):
        made = made.model_copy(update={"cohort": scene.in_a_round})
    own = made.configured(data.catalogue)
    until = scene.rounds or own.default_rounds(data.catalogue)
    protection = as_trained(audited.protection, made, data, until)
    found, rate = audited_once(
        made, data, protection, many, until, seed=scene.seed, executor=executor, progress=progress
    )
    promised = None
    if protection.epsilon is not None:
        promised = epsilon_of(
            SampledGaussian(protection.noise / protection.clip, rate), until, protection.delta
        )
    return {
        "users": many,
        "rounds": until,
        "guesses": found.guesses,
        "right": found.right,
        "epsilon": promised,
        "epsilon_at_least": float(np.floor(1000 * found.epsilon) / 1000),
        "most": float(np.floor(1000 * found.most) / 1000),
    }


def check_asked(audited: Audited, many: int) -> None:
    """Refuses canaries where they say nothing: without a server, without a clip, and more of them
    than there are users.
    """
    if not is_federated(audited.made):
        raise InputError(
            "--canaries", "there is no sum to read", expected="an algorithm around a server"
        )
    check_canaries(audited.protection, audited.data, many)
