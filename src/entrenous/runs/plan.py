"""The plan of a run, checked before anything is loaded; and the algorithm, protection and network
that it asks for. A plan gets the set of its profile (`with_set`) before anything is made of it, so
that manifests and the terms of federations say it, and a later set changes no run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Protocol, TypeVar, get_args

import numpy as np

from ..core.contract.declarations import Traits
from ..core.contract.declared import (
    bound,
    declared,
    is_federated,
    is_gossip,
    predicts_ratings,
    private_set,
)
from ..core.errors import InputError, did_you_mean
from ..core.keys import key
from ..core.keywords import at_least
from ..core.registry.discover import short
from ..core.values import FEW_PEOPLE, SettingValue
from ..data.dataset import datasets
from ..data.divided import present as divided_here
from ..data.interactions import Interactions
from ..data.likes import check_said
from ..data.load import load_arguments
from ..data.read_groups import read_groups
from ..data.scales import check_counts
from ..data.split.protocol import GIVEN, is_given, is_stream
from ..data.split.types import Split
from ..federation.network import Network
from ..kernels.sampling import cohort as drawn
from ..privacy.choice import read_choice
from ..privacy.lengths import LIMITS, usual_limits
from ..privacy.noise import most_bits
from ..privacy.protection import (
    DP,
    OF_A_HUNDRED,
    PAPER,
    PRIVATE,
    PROTECT,
    Protection,
    ProtectionInForce,
    protection_of,
    refuse_of_networks,
)
from ..systems.named import kind_of
from .options import Negatives, RunPlan
from .recommenders import Algorithm, check_trainable, federated

# Seeds are below: keys hold 64 bits, and one seed must not stand for two.
SEEDS = 1 << 63
LEAVE_ONE_OUT = "loo-99"
CROSS_VALIDATION = "kfold-5"
# Settings of the length of training, which an asked number of rounds takes the place of.
LENGTHS: Final = frozenset({"rounds", "epochs"})
NARROW: Final = 8  # factors: a wider model of FEW_PEOPLE tells of them
# Bits of one answer from which on noise hides almost nothing: a hundred films in 1,682 are 542.
LITTLE_HIDDEN = 100
# Data on which a list of popular items is as good as what `private` trains.
AS_GOOD: Final[Mapping[str, str]] = {
    "gowalla-nyc": "a list of popular items is as good, and tells of nobody: HR@10 0.516, which fcf"
    " and pfpl+ under private do not reach",
}


def usual_protocol(data: str | Interactions, *algorithms_named: str) -> str:
    """The protocol that is usual for every one of the algorithms on this data, `loo-99` if they
    differ.

    An algorithm may declare its usual protocols (`Traits.usual_protocols`). Raises InputError for
    an unknown algorithm.
    """
    name = data if isinstance(data, str) else data.name
    usual = set()
    for algorithm in algorithms_named:
        traits = declared(algorithm_of(algorithm, {})).traits
        usual.add(_usual(traits, name))
    if len(usual) == 1:
        return usual.pop()
    return LEAVE_ONE_OUT


def _usual(traits: Traits, data: str) -> str:
    """The first usual protocol that the data allows: X-given needs the parts that X published."""
    # kfold-5 is FBALF's, section 5.1.4.
    usual = (CROSS_VALIDATION,) if traits.predicts_ratings else (LEAVE_ONE_OUT,)
    known = datasets()
    parts: tuple[str, ...] = ()
    if data in known and divided_here(known[data].path):
        parts = tuple(known[data].published)
    return next(
        protocol
        for protocol in traits.usual_protocols or usual
        if "-given" not in protocol or protocol.removesuffix("-given") in parts
    )


def check(plan: RunPlan) -> None:
    """Raises InputError for an unknown algorithm, settings that it does not have and numbers that
    make no sense, before anything is loaded.
    """
    for name, least in (("rounds", 1), ("seed", 0), ("patience", 0), ("every", 0)):
        at_least(f"--{name}", getattr(plan, name), least)
    # A larger seed would be cut, silently, and be another one.
    if plan.seed >= SEEDS:
        raise InputError("--seed", f"got {plan.seed}", expected=f"less than 2^63 = {SEEDS}")
    # Files are read in `make`, where the ids that they name are known.
    made = _made(plan)
    if leaky(plan):
        _check_draws(plan.algorithm, made)
    # Patience counts looks, so there must be some.
    if plan.patience and not plan.every:
        raise InputError(
            "--patience",
            "there are no looks at validation",
            fix="say how often to look with --every ROUNDS",
        )
    _check_protection(plan, made)
    if plan.network:
        network_of(plan)
        if not is_gossip(made):
            raise InputError(
                "--network",
                f"{plan.algorithm} does not gossip",
                expected="an algorithm whose peers do",
                fix="leave it out, or choose an algorithm without a server, such as pepper-gmf",
            )
    load_arguments(plan.load)
    takes_given = is_given(plan.protocol) or is_stream(plan.protocol)
    if plan.given is not None and not takes_given:
        protocol = plan.protocol or usual_protocol(plan.data, plan.algorithm)
        raise InputError("--given", f"the protocol is {protocol}", expected=f"--protocol {GIVEN}")


def network_of(plan: RunPlan) -> Network:
    """Returns the network between the peers of a plan. Raises InputError for a setting that makes
    no sense.
    """
    return Network.read(plan.network)


def algorithm_of(name: str, settings: Mapping[str, Any], profile: str = PAPER) -> Algorithm:
    """An algorithm by its name, with settings that are numbers and text, and with the settings that
    it declares for a private profile.

    Raises InputError for a name or a setting that does not exist.
    """
    kind, preset = kind_of(name)
    if profile in (PRIVATE, DP):
        traits = declared(kind.parse(preset)).traits
        preset = {**preset, **traits.private_settings}
    # The user's own settings are stronger than the profile's.
    made: Algorithm = kind.parse({**preset, **settings})
    return made


def protection_in(plan: RunPlan, algorithm: Algorithm) -> Protection:
    """The protection of a plan. Raises InputError for a profile or a setting that does not
    exist.
    """
    return protection_of(plan.profile, plan.protect, declared(algorithm).traits)


def _check_protection(plan: RunPlan, algorithm: Algorithm) -> None:
    """Refuses a protection where there are no rounds around a server, and a choice by validation
    under a budget that does not cover it.
    """
    protection = protection_in(plan, algorithm)
    refuse_of_networks(protection)
    # Peers have no server to protect from, but may declare settings that tell each other less.
    allowed = [PAPER]
    if is_gossip(algorithm) and declared(algorithm).traits.private_settings:
        allowed.append(PRIVATE)
    if not is_federated(algorithm) and (plan.protect or plan.profile not in allowed):
        raise InputError(
            "--profile",
            f"{plan.algorithm} has no rounds around a server",
            expected="a server-coordinated algorithm, such as fpl",
            fix="leave --profile and --protect out",
        )
    # The choice would look at the data more often than the accountant counts.
    if protection.epsilon is not None and plan.patience:
        problem = "choosing the best round by validation is not in the budget of epsilon"
        raise InputError("--patience", problem, expected="a number of rounds", fix="leave it out")


def make(plan: RunPlan, rows: Interactions) -> Algorithm:
    """Makes the algorithm of a plan, with its settings. `pi=@file.csv` and `groups=@file.csv` are
    read here, where ids are known.

    Raises InputError for settings that do not fit the rows, such as more clusters than users.
    """
    settings = {name: _value(name, value, rows) for name, value in plan.settings.items()}
    made: Any = algorithm_of(plan.algorithm, settings, plan.profile)
    _check_values(plan, rows, made)
    cohort = dict(made).get("cohort", 0)
    # A default cohort is an upper limit; one that was asked for must be there.
    if "cohort" in plan.settings and cohort > len(rows.users):
        raise InputError(
            "--set cohort",
            f"got {cohort}",
            expected=f"at most {len(rows.users)}, the users of {rows.name}",
        )
    if federated(made):
        # Both are made here for what they refuse, before anything is written.
        concrete = made.configured(rows.catalogue)
        if is_federated(made):
            ProtectionInForce(protection_in(plan, made), bound(concrete, rows.catalogue))
    return made


def _check_values(plan: RunPlan, rows: Interactions, algorithm: Algorithm) -> None:
    """Refuses values that mean nothing certain to the algorithm."""
    name = short(plan.algorithm)
    ratings = predicts_ratings(algorithm)
    # A declared scale says enough for an algorithm that predicts ratings.
    scaled = ratings and rows.scale is not None and rows.reading.scaled
    said = scaled or bool(rows.reading.likes)
    check_said(f"{rows.name} for {name}", rows.value, said, None)
    if ratings:
        check_counts(rows, name)


def check_parts(plan: RunPlan, parts: list[Split], algorithm: Algorithm) -> None:
    """Refuses splits on which the plan cannot be carried out, by the algorithm that `make` made of
    it.
    """
    # A budget holds for one training on these people.
    bounded = plan.profile == DP or "epsilon" in plan.protect
    for part in parts:
        check_trainable(part.train)
        if part.windows is not None:
            continue
        if len(parts) > 1 and bounded:
            problem = f"{len(parts)} trainings on the same people would each spend the budget"
            raise InputError(
                "--protocol", problem, expected="one split", fix="such as --protocol random-80-20"
            )
        if plan.every and part.refit and bounded:
            problem = (
                "looks at validation rows, on which the final model trains, need a training of"
                " their own, which is not in the budget"
            )
            raise InputError(
                "--every", problem, expected="one training", fix="leave it out, or add --no-refit"
            )
        if plan.patience and part.validation is None:
            problem = f"protocol {part.name} has no validation rows"
            raise InputError("--patience", problem, fix="train for a fixed number of rounds")


def leaky(plan: RunPlan) -> bool:
    """Returns True where devices do not draw held-out items as negatives. Raises InputError for
    an unknown choice.
    """
    choices = get_args(Negatives)
    if plan.negatives not in choices:
        fix = did_you_mean(plan.negatives, choices)
        problem = f"unknown choice '{plan.negatives}'"
        raise InputError("--negatives", problem, expected=" or ".join(choices), fix=fix)
    return plan.negatives == "leaky"


def _check_draws(name: str, algorithm: Any) -> None:
    """Refuses an algorithm in which the choice of negatives would change nothing: its figures would
    be called leaky and not be.
    """
    if federated(algorithm) and declared(algorithm).traits.draws_negatives:
        return
    why = "is trained in one place, where no device draws negatives"
    if federated(algorithm):
        why = "draws no negatives"
    raise InputError(
        "--negatives",
        f"{name} {why}",
        expected="an algorithm whose devices draw them, such as fpl",
        fix="leave it out",
    )


def _value(name: str, value: Any, rows: Interactions) -> Any:
    """A setting as it is, or as the file that it names says."""
    if not names_a_file(value):
        return value
    read: Callable[[str, Interactions], Any] = read_groups if name == "groups" else read_choice
    return read(value[1:], rows)


def names_a_file(value: Any) -> bool:
    """True for a setting whose values are in a file, such as `@pi.csv`."""
    return isinstance(value, str) and value.startswith("@")


# ---- the set that the profile `private` brings: settings that were tested together ---------------


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


def with_set(plan: PlanT, users: int) -> PlanT:
    """Returns a plan with the settings of its algorithm's set, except those that were asked for.

    users: of the federation, of which a cohort has no more.
    """
    settings = dict(plan.settings)
    protect = dict(plan.protect)
    for name, value in _tested(plan, users).items():
        if name == "multiple" and "noise" in protect:
            continue
        own = protect if name in Protection.model_fields else settings
        own.setdefault(name, value)
    if plan.profile == PRIVATE and is_federated(_made(plan)):
        _check_bound(plan.algorithm, protect)
    return replace(plan, settings=settings, protect=protect)


def _check_bound(algorithm: str, protect: Mapping[str, SettingValue]) -> None:
    """Raises InputError for `private` without a clip and noise: a model decides how large a
    person's numbers are, so that only a bound on the device keeps them within the noise.
    """
    if float(str(protect.get("clip", 0))) and {"multiple", "noise"} & protect.keys():
        return
    raise InputError(
        "--profile private",
        f"no clip and noise are asked for, and a message of {short(algorithm)} was not measured"
        " or shall not be clipped",
        expected="a clip, in whose noise a person can be lost",
        fix=f"{PROTECT} clip=10 {PROTECT} multiple=0.3, and measure it with `entrenous audit`,"
        " or fcf, fpl",
    )


def brought(plan: Asked, users: int) -> list[str]:
    """Returns lines for before the training: what `private` brings, what was changed of it, and
    what a model of few people tells. [] under other profiles. Arguments as of `with_set`.
    """
    made = _made(plan)
    if plan.profile != PRIVATE or not is_federated(made):
        return []
    tested = _tested(plan, users)
    whole = with_set(plan, users)
    made = _made(whole)
    values = {**dict(protection_of(PRIVATE, whole.protect, declared(made).traits)), **dict(made)}
    if values["multiple"] is None and values["clip"]:
        # Noise that was asked for as a number is said as what it hides of a person.
        values["multiple"] = float(f"{values['noise'] / values['clip']:.2g}")
    changed = {name: values[name] for name in tested if values[name] != tested[name]}
    # Asked rounds are the length of training, whatever the settings say.
    if plan.rounds:
        replaced = f"replaced by {plan.rounds} rounds"
        changed |= dict.fromkeys(LENGTHS & tested.keys(), replaced)
    kept = {name: value for name, value in tested.items() if name not in changed}
    lines = [f"{PRIVATE} brings: {in_words(kept)}"] if kept else []
    if kept and tested.keys() <= set(LIMITS):
        name = short(plan.algorithm)
        lines = [f"{PRIVATE} brings: {in_words(kept)}: no settings of {name} were tested with it"]
    bits = most_bits(values["multiple"] ** -2) if values["multiple"] else None
    if bits is not None and bits > LITTLE_HIDDEN:
        lines.append(
            f"this noise hides almost nothing: one answer may tell {bits:,.0f} bits of a person,"
            " whatever model comes; fcf and fpl bear more noise"
        )
    if changed:
        was = in_words({name: tested[name] for name in changed})
        lines.append(f"this is not the set that was tested: {in_words(changed)}; tested: {was}")
    factors = values.get("factors", 0)
    most = int(str(tested.get("factors", NARROW)))
    if users < FEW_PEOPLE and isinstance(factors, int) and factors > most:
        lines.append(f"{factors} factors for {users} people: {OF_A_HUNDRED}")
    return lines


def of_rows(plan: Asked, rows: Interactions) -> list[str]:
    """Returns lines for before the training, on its rows: how many people have an item that nobody
    else in a sum has, and where a list of popular items is as good. [] as of `brought`.
    """
    if plan.profile != PRIVATE or not is_federated(_made(plan)):
        return []
    users = len(rows.users)
    made = _made(with_set(plan, users))
    size = bound(made.configured(rows.catalogue), rows.catalogue).cohort
    # One sum, drawn as any other may be.
    inside = np.zeros(users, np.bool_)
    inside[drawn(key(0, "rare items"), size, users)] = True
    there = inside[rows.user]
    owners = np.bincount(rows.item[there], minlength=len(rows.items))
    alone = np.unique(rows.user[there & (owners[rows.item] == 1)])
    lines = [
        f"{len(alone) / size:.0%} of {size} people in a sum have an item that nobody else there"
        " has: such an item is told best"
    ]
    if rows.name in AS_GOOD:
        lines.append(f"{AS_GOOD[rows.name]} (entrenous experiment privacy-sets)")
    return lines


def tested(algorithm: str, users: int) -> dict[str, SettingValue]:
    """Returns the set of an algorithm for so many users; {} = it has none."""
    return _tested(RunPlan(algorithm=algorithm, profile=PRIVATE), users)


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
    settings = {name: value for name, value in plan.settings.items() if not names_a_file(value)}
    return algorithm_of(plan.algorithm, settings, plan.profile)


def _tested(plan: Asked, users: int) -> dict[str, SettingValue]:
    """The set of a plan's algorithm for so many users; {} under other profiles."""
    if plan.profile != PRIVATE:
        return {}
    return {**private_set(_made(plan), users), **usual_limits(short(plan.algorithm), users)}
