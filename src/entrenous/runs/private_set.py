"""The set that the profile `private` brings: settings of an algorithm and of its protection that
were tested together (`private_set` of the algorithm). A plan gets them before anything is made of
it, so that a manifest and the terms of a federation say them, and a later set changes no run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol, TypeVar

from ..core.contract.declared import declared, is_federated, private_set
from ..core.registry.discover import short
from ..core.values import SettingValue
from ..privacy.protection import OF_A_HUNDRED, PRIVATE, Protection, protection_of
from .options import RunPlan
from .plan import algorithm_of

# Settings of the length of training, which an asked number of rounds takes the place of.
LENGTHS: Final = frozenset({"rounds", "epochs"})
FEW: Final = 1000  # people, below whom a model with more than NARROW factors tells of them
NARROW: Final = 8
SHARE: Final = 3  # a cohort is at least one user in so many


class Asked(Protocol):
    """The options of a training that a set may complete."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def algorithm(self) -> str: ...
    @property
    def profile(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, SettingValue]: ...
    @property
    def protect(self) -> Mapping[str, SettingValue]: ...
    @property
    def rounds(self) -> int | None: ...


PlanT = TypeVar("PlanT", bound=Asked)


def with_set(plan: PlanT, users: int, *, everybody: bool = False) -> PlanT:
    """Returns a plan with the settings of its algorithm's set, except those that were asked for.

    users: of the federation, of which a cohort has no more. everybody: rounds ask all users, as
    across a network, and no cohort is drawn.
    """
    settings = dict(plan.settings)
    protect = dict(plan.protect)
    for name, value in _tested(plan, users, everybody).items():
        own = protect if name in Protection.model_fields else settings
        own.setdefault(name, value)
    return replace(plan, settings=settings, protect=protect)


def said(plan: Asked, users: int, *, everybody: bool = False) -> list[str]:
    """Returns lines for before the training: what `private` brings, what was changed of it, and
    what a model of few people tells. [] under other profiles. Arguments as of `with_set`.
    """
    made = _made(plan)
    if plan.profile != PRIVATE or not is_federated(made):
        return []
    tested = _tested(plan, users, everybody)
    whole = with_set(plan, users, everybody=everybody)
    made = _made(whole)
    values = {**dict(protection_of(PRIVATE, whole.protect, declared(made).traits)), **dict(made)}
    changed = {name: values[name] for name in tested if values[name] != tested[name]}
    # Asked rounds are the length of training, whatever the settings say.
    for name in LENGTHS & tested.keys():
        if plan.rounds:
            changed[name] = f"replaced by {plan.rounds} rounds"
    kept = {name: value for name, value in tested.items() if name not in changed}
    lines = [f"{PRIVATE} brings: {in_words(kept or {'noise': values['noise']})}"]
    if not tested:
        lines[0] += f" alone: no settings of {short(plan.algorithm)} were tested with it"
    elif tested.get("cohort") in (0, users):
        lines.append(f"all {users} users are in each round: the set was tested on more people")
    if changed:
        was = in_words({name: tested[name] for name in changed})
        lines.append(f"this is not the set that was tested: {in_words(changed)}; tested: {was}")
    factors = values.get("factors", 0)
    if users < FEW and isinstance(factors, int) and factors > NARROW:
        lines.append(f"{factors} factors for {users} people: {OF_A_HUNDRED}")
    return lines


def tested(algorithm: str, users: int) -> dict[str, SettingValue]:
    """Returns the set of an algorithm for so many users; {} = it has none."""
    return _tested(RunPlan(algorithm=algorithm, profile=PRIVATE), users, False)


def in_words(settings: Mapping[str, SettingValue]) -> str:
    """Returns settings in one line.

    >>> in_words({"factors": 8, "noise": 0.3})
    'factors 8, noise 0.3'
    """
    words = []
    for name, value in settings.items():
        number = f"{value:g}" if isinstance(value, float) else value
        words.append(f"{name} {number}")
    return ", ".join(words)


def _made(plan: Asked) -> Any:
    """The algorithm of a plan, without the settings that are in files."""
    settings = {
        name: value
        for name, value in plan.settings.items()
        if not (isinstance(value, str) and value.startswith("@"))
    }
    return algorithm_of(plan.algorithm, settings, plan.profile)


def _tested(plan: Asked, users: int, everybody: bool) -> dict[str, SettingValue]:
    """The set of a plan's algorithm for so many users; {} under other profiles."""
    if plan.profile != PRIVATE:
        return {}
    tested = private_set(_made(plan), users)
    if "cohort" in tested:
        # In a larger federation larger sums cost a person no more answers.
        cohort = max(int(str(tested["cohort"])), users // SHARE)
        tested["cohort"] = 0 if everybody else min(cohort, users)
    return tested
