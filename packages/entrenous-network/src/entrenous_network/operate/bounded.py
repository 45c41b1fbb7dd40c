"""Lots across a network: what `private` brings, and the profile `dp`, whose epsilon is settings
that each device can keep by itself.

Each device decides by its own lot whether it takes part, clips what it sends, adds its share of the
noise, and counts its answers: after as many as the terms say it only downloads. The epsilon is of
all of these answers, without sampling (`agreement/unsampled.py`), since a server sees who answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any, Final

from entrenous.core.contract.declarations import Traits
from entrenous.core.errors import InputError
from entrenous.privacy.protection import DP, PRIVATE, PROFILES, PROTECT, protection_of
from entrenous.privacy.turnout import usual_answers

from ..agreement.terms import FederationTerms, most_by_lot
from ..agreement.unsampled import multiplier_without_sampling
from ..frames.contribution import contract_of
from .plans import FoundingPlan

EPSILON: Final = 8.0
"""The epsilon that is proven unless another is asked for."""
PART: Final = 5 / 6
"""The share of the cohort without which no sum is opened, unless `people` is asked for: a lot
seldom draws fewer."""
SHARE: Final = 3
"""A cohort is at least one user in so many."""
NOT_KNOWN: Final = 1
"""Stands for the answers of a device until its algorithm is known."""
# Settings that others may be asked for in place of; the first three stand in for those that follow
# from the epsilon, until these are known.
USUAL: Final[Mapping[str, Any]] = {"answers": NOT_KNOWN, "people": 2, "noise": 1.0}
ANSWERS: Final = 100
"""The answers of a device that a line proposes where rounds have no end."""
# Settings that the profile has, whatever is asked for.
FIXED: Final[Mapping[str, Any]] = {
    "days": 0,
    "epsilon": None,
    "noise_by": "devices",
    "noise_from": "system",
    "sampling": "poisson",
    "secure_sum": True,
}


def taking_part(plan: FoundingPlan, users: int, has_cohort: bool) -> FoundingPlan:
    """Returns a plan under `private` in which devices take part by lot, in a cohort for which there
    are enough users. The plan's own settings stay. Raises InputError, with all options that the
    plan lacks, where sums have fewer people than the profile says, or rounds have no end.

    has_cohort: True where a setting of the algorithm says how many are in a round.
    """
    settings = dict(plan.settings)
    protect = {"sampling": "poisson", **plan.protect}
    lacks: dict[str, int] = {}
    problems = []
    groups = _groups(protect)
    least = PROFILES[PRIVATE]["people"]
    if has_cohort and "cohort" not in settings:
        usual = max(groups * ceil(least / PART), users // SHARE)
        cohort = min(usual, most_by_lot(users, groups))
        settings["cohort"] = cohort
        people = ceil(PART * cohort / groups)
        if "people" not in protect and people < least:
            problems.append(f"of {users} users no lot draws the {least} of a sum")
            lacks["people"] = people
    if plan.endless and "answers" not in protect:
        problems.append("rounds have no end, and nobody said in how many a device answers")
        lacks["answers"] = ANSWERS
    if lacks:
        added = " ".join(f"{PROTECT} {name}={value}" for name, value in lacks.items())
        fix = f"add {added}, or other numbers"
        raise InputError("--profile private", "; ".join(problems), fix=fix)
    return replace(plan, settings=settings, protect=protect)


def _groups(protect: Mapping[str, Any]) -> int:
    """Returns the groups of a round, which the shell hands over as text. What is no number of
    groups counts as one, and is refused with the other settings of the protection.
    """
    asked = str(protect.get("groups", 1))
    return max(1, int(asked)) if asked.isdecimal() else 1


def with_answers(terms: FederationTerms, plan: FoundingPlan, own: str) -> FederationTerms:
    """Returns terms under masks with the answers of a device, where nobody asked for a number: as
    many as nearly everybody gives. own: the place of an algorithm of the user's own. Raises
    InputError for rounds without end of which nobody said how many a device answers.
    """
    if "answers" in plan.protect:
        return terms
    return with_protection(terms, answers=_answers(terms, contract_of(terms, own).cohort))


def _answers(terms: FederationTerms, cohort: int) -> int:
    """Returns the usual answers of a device. Raises InputError for rounds without end."""
    if terms.endless:
        problem = "missing, and rounds go on without end"
        expected = "the rounds in which a device answers, at most"
        raise InputError(f"{PROTECT} answers", problem, expected=expected)
    return usual_answers(terms.rounds, cohort / terms.users)


def with_protection(terms: FederationTerms, **settings: float) -> FederationTerms:
    """Returns the terms with some settings of the protection. Raises InputError for a value that
    there may not be."""
    told = terms.model_dump(mode="json")
    protection = {**told["protection"], **settings}
    return FederationTerms.parse({**told, "protection": protection}, "terms")


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
        answers = _answers(terms, contract.cohort)
    multiplier = multiplier_without_sampling(epsilon, answers, protection.delta)
    noise = multiplier * protection.clip
    return with_protection(terms, people=people, answers=answers, noise=noise)


def _number(epsilon: object) -> float:
    """Returns an epsilon that was asked for as a number. Raises InputError."""
    try:
        number = float(str(epsilon))
    except ValueError:
        number = 0.0
    if not 0 < number <= 1e4:
        raise InputError(f"{PROTECT} epsilon", f"got {epsilon}", expected="above 0, at most 10000")
    return number
