"""The profile `dp` across a network: an epsilon as settings that each device can keep by itself.

Each device decides by its own lot whether it takes part, clips what it sends, adds its share of the
noise, and counts its answers: after as many as the terms say it only downloads. The epsilon is of
all of these answers, without sampling (`privacy/unsampled.py`), since a server sees who answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any, Final

from ...core.contract.declarations import Traits
from ...core.errors import InputError
from ...privacy.protection import DP, PRIVATE, PROFILES, PROTECT, protection_of
from ...privacy.unsampled import multiplier_without_sampling
from ..agreement.terms import FederationTerms, most_by_lot
from ..frames.contribution import contract_of
from .plans import FoundingPlan

EPSILON: Final = 8.0
"""The epsilon that is proven unless another is asked for."""
PART: Final = 5 / 6
"""The share of the cohort without which no sum is opened, unless `people` is asked for: a lot
seldom draws fewer."""
# Settings that others may be asked for in place of; the first three stand in for those that follow
# from the epsilon, until these are known.
USUAL: Final[Mapping[str, Any]] = {"answers": 1, "people": 2, "noise": 1.0, "parties": 3}
ANSWERS: Final = 100
"""The sums in which a device answers at most, as a line proposes where nobody said a number."""
# Settings that the profile has, whatever is asked for.
FIXED: Final[Mapping[str, Any]] = {
    "days": 0,
    "epsilon": None,
    "noise_by": "devices",
    "noise_from": "system",
    "sampling": "poisson",
    "secure_sum": True,
}


def check_lot(plan: FoundingPlan, users: int, has_cohort: bool) -> None:
    """Raises InputError for a `private` federation without end, or that begins with nobody, whose
    plan does not say how devices take part by lot. The line has all options that the plan lacks for
    so many users, with values that go together.

    has_cohort: True where a setting of the algorithm says how many are in a round.
    """
    wanted: dict[str, Any] = {"sampling": "poisson", "answers": ANSWERS}
    if wanted.keys() <= plan.protect.keys():
        return
    missing = []
    if has_cohort and "cohort" not in plan.settings:
        cohort = most_by_lot(users)
        missing.append(f"--set cohort={cohort}")
        wanted["people"] = min(ceil(PART * cohort), PROFILES[PRIVATE]["people"])
    for name, value in wanted.items():
        if name not in plan.protect:
            missing.append(f"{PROTECT} {name}={value}")
    raise InputError(
        "federation new",
        "under masks, people come and go, and rounds have no end, only where each device takes part"
        " by lot, in so many sums at most",
        fix=f"add {' '.join(missing)}, or other numbers",
    )


def first_protection(asked: Mapping[str, Any], traits: Traits) -> dict[str, Any]:
    """Returns the protection of a federation under `dp`, whose noise, answers and people are not
    known before its algorithm is; as a field of the terms. asked: settings of the operator. Raises
    InputError.
    """
    for name in FIXED.keys() & asked.keys() - {"epsilon"}:
        problem = f"{name} is decided by --profile dp across a network"
        raise InputError(
            f"{PROTECT} {name}", problem, fix="leave it out, or take --profile private"
        )
    if "noise" in asked:
        problem = "the noise follows from epsilon, clip and answers"
        fix = "leave it out, or take --profile private, whose terms say what its noise proves"
        raise InputError(f"{PROTECT} noise", problem, fix=fix)
    protection = protection_of(DP, {**USUAL, **asked, **FIXED}, traits)
    return protection.model_dump(mode="json")


def with_epsilon(terms: FederationTerms, plan: FoundingPlan, own: str) -> FederationTerms:
    """Returns terms under `dp` with the answers, people and noise that prove the epsilon that was
    asked for. own: the place of an algorithm of the user's own. Raises InputError for rounds
    without end of which nobody said how many a device answers.
    """
    protection = terms.protection
    contract = contract_of(terms, own)
    epsilon = _number(plan.protect.get("epsilon", EPSILON))
    people = protection.people
    if "people" not in plan.protect:
        people = max(2, int(PART * contract.cohort / protection.groups))
    answers = protection.answers
    if "answers" not in plan.protect:
        if terms.endless:
            problem = "missing, and rounds go on without end"
            expected = "the rounds in which a device answers, at most"
            raise InputError(f"{PROTECT} answers", problem, expected=expected)
        answers = usual_answers(terms.rounds, contract.cohort / terms.users)
    multiplier = multiplier_without_sampling(epsilon, answers, protection.delta)
    told = terms.model_dump(mode="json")
    noise = multiplier * protection.clip
    known = {**told["protection"], "people": people, "answers": answers, "noise": noise}
    return FederationTerms.parse({**told, "protection": known}, "terms")


def usual_answers(rounds: int, rate: float) -> int:
    """Returns the rounds in which nearly everybody takes part at most, of whom each takes part with
    a probability: two standard deviations more than the mean.

    >>> usual_answers(20, 300 / 943)
    11
    """
    mean = rounds * rate
    return min(rounds, ceil(mean + 2 * sqrt(mean * (1 - rate))))


def _number(epsilon: object) -> float:
    """Returns an epsilon that was asked for as a number. Raises InputError."""
    try:
        number = float(str(epsilon))
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e4:
        raise InputError(f"{PROTECT} epsilon", f"got {epsilon}", expected="above 0, at most 10000")
    return number
