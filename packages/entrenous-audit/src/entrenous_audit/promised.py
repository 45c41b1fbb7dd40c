"""The promise of differential privacy for the sums that an audit has seen, and the test by
canaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from entrenous.core.contract.declared import is_federated
from entrenous.core.contract.protocols import Progress
from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.federation.shard import Threads
from entrenous.privacy.accountant import SampledGaussian, epsilon_of
from entrenous.privacy.protection import Protection

from .canaries import audited_once, check_canaries
from .observe import with_noise
from .plan import AuditPlan
from .scene import with_cohort
from .transcript import Transcript


class SeenPrivacy(TypedDict):
    """The differential privacy that what was seen has spent; None without a budget."""

    epsilon: float | None
    budget: float | None
    delta: float | None


class CanaryFigures(TypedDict):
    """The findings of canaries."""

    users: int
    """Canaries."""
    rounds: int
    guesses: int
    right: int
    epsilon: float | None
    """As promised for these rounds; None without a promise."""
    epsilon_at_least: float
    """The lower bound, at 95 % confidence."""
    most: float
    """The highest bound that so many canaries can show."""


def spent_by(seen: Transcript, trained: Mapping[str, Any]) -> SeenPrivacy:
    """Returns the epsilon that the releases in a transcript have spent, its budget and delta; all
    None without a budget.

    Each sum that was seen is one release. Where the onlooker's view takes the place of Poisson
    sampling (gateways), every release counts in full. Single messages
    carry no noise, and their epsilon is None.

    trained: the spending of the training of a final model, as `PrivacyBudget.told` says it; {} if
        there is no budget or no such model.
    """
    protect = seen.about["protect"]
    # Noise without a budget promises nothing, so nothing is said of it.
    if protect["epsilon"] is None:
        return {"epsilon": None, "budget": None, "delta": None}
    epsilon = trained.get("epsilon")
    # The onlooker has seen these sums alone, not those of a whole training.
    if seen.about["view"] in ("sum", "difference"):
        mechanism = SampledGaussian(protect["noise"] / protect["clip"], seen.about["rate"])
        epsilon = epsilon_of(mechanism, len(seen.rounds), protect["delta"])
    return {"epsilon": epsilon, "budget": protect["epsilon"], "delta": protect["delta"]}


def by_canaries(
    plan: AuditPlan, made: Any, data: Interactions, protection: Protection, progress: Progress
) -> CanaryFigures:
    """Trains once with the canaries of a plan, to the end or for the rounds of the plan. Returns
    the number of their tosses that were guessed, the lower bound of epsilon that follows, and the
    epsilon that was promised for this training.

    Raises InputError where canaries say nothing: without a server, without a clip, and for more
    canaries than there are users.
    """
    if not is_federated(made):
        raise InputError(
            "--canaries", "there is no sum to read", expected="an algorithm around a server"
        )
    check_canaries(protection, data, plan.canaries)
    # The bound is compared with the promise for the same cohort and number of rounds.
    made = with_cohort(made, plan.in_a_round)
    rounds = plan.rounds or made.configured(data.catalogue).default_rounds(data.catalogue)
    protection = with_noise(protection, made, data, rounds)
    bound, rate = audited_once(
        made,
        data,
        protection,
        plan.canaries,
        rounds,
        seed=plan.seed,
        executor=Threads(plan.threads),
        progress=progress,
    )
    promised = None
    if protection.epsilon is not None:
        mechanism = SampledGaussian(protection.noise / protection.clip, rate)
        promised = epsilon_of(mechanism, rounds, protection.delta)
    return {
        "users": plan.canaries,
        "rounds": rounds,
        "guesses": bound.guesses,
        "right": bound.right,
        "epsilon": promised,
        "epsilon_at_least": _rounded_down(bound.epsilon),
        "most": _rounded_down(bound.most),
    }


def _rounded_down(epsilon: float) -> float:
    """An epsilon to three decimals, never above the given one, which is a lower bound."""
    return float(np.floor(1000 * epsilon) / 1000)
