"""How far default settings carry: every system as it comes on data sets of different density,
beside settings that a search of the same size for all chose there. No paper has this table.

As it comes: the algorithm's own settings and number of rounds. Searched: of these and some settings
drawn at random from the space that the algorithm declares, looked at ten times on the way, the best
on the validation rows of the first seed. Systems without a server train a model for every node:
they are left out where nodes and items are many, and not searched here (PEPPER's tables search
them)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from entrenous.core.keys import key
from entrenous.evaluation.protocol import RANKING

from ..search.before import space_of
from ..search.space import Choices, Range, read_space
from .effort import DEFAULTS
from .findings import SIGNIFICANT, tested_pairs, verdict
from .opened import cali3f
from .remember import Pair
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained, seed_row
from .values import said as in_words
from .values import worded

METRICS = HR, NDCG = ("hr@10", "ndcg@10")
DRAWN, LOOKS = 5, 10  # settings beside the defaults; evaluations of each training
CENTRAL = ("popular", "ials")
NEUMF = (
    "cali3f-neumf",
    "fedavg-neumf",
    "ditto-neumf",
)  # whose search had different budgets in Cali3F's tables
WITH_SERVER = ("pfpl+", "fcf", "fcf-newton", "fedavg-gmf", "fedfast-gmf", "cali3f-gmf", *NEUMF)
BETWEEN_PEERS = ("gossip-average-gmf", "pepper-gmf")
MANY = 2_000_000  # nodes times items; more than that takes an hour
QUICK = ("popular", "fcf-newton", "fedavg-gmf")
SEARCHED = ", searched"  # what the name of a system ends with
POPULAR, AS_IT_COMES, BY = (
    System("popular"),
    "the defaults",
    "the best of the defaults and {} settings drawn at random",
)


def systems_of(study: Study) -> Sequence[System]:
    """Every system; a few in quick runs."""
    size = study.data.catalogue
    peers = BETWEEN_PEERS if size.users * size.items <= MANY else ()
    return [System(name) for name in (QUICK if study.quick else (*CENTRAL, *WITH_SERVER, *peers))]


def train(study: Study, systems: list[System]) -> Trained:
    """Searches on validation rows, then evaluates each system as it comes and as searched on the
    test rows.
    """
    found = {system: searched(study, system) for system in systems}
    variants = [one for system, (best, _) in found.items() for one in dict.fromkeys((system, best))]
    rounds = {system: study.usual_epochs(system) for system in systems} | dict(found.values())
    pairs: list[Pair] = [
        study.pair(one, "test", seed, (rounds[one],)) for one in variants for seed in study.seeds
    ]
    every = iter(study.cells.outcomes_of(pairs))
    outcomes = {one: [next(every) for _ in study.seeds] for one in variants}
    looks = {
        one: [look for outcome in mine for look in outcome.looks] for one, mine in outcomes.items()
    }
    whole = {one: mine if len(mine) == len(study.seeds) else [] for one, mine in looks.items()}
    return Trained(study=study, systems=variants, looks=whole, rounds=rounds)


def searched(study: Study, system: System) -> tuple[System, int]:
    """The best on validation of a system as it comes and with each drawn setting, and its epochs;
    itself where there is nothing to draw.
    """
    most = study.usual_epochs(system)
    looks = (
        tuple(sorted({max(1, most * number // LOOKS) for number in range(1, LOOKS + 1)}))
        if most
        else (0,)
    )
    named = system.algorithm + SEARCHED
    drawn = [
        system.replaced(**settings)._replace(called=named)
        for settings in settings_drawn(system.algorithm, study.seed)
    ]
    tried = [system._replace(called=named), *study.fitting(drawn, [])] if drawn else []
    outcomes = study.cells.outcomes_of(
        [study.pair(one, "validation", study.seed, looks) for one in tried]
    )
    scored = [
        (look.metrics[RANKING.metric], -number, one, look.epochs)
        for number, (one, outcome) in enumerate(zip(tried, outcomes, strict=True))
        for look in outcome.looks
    ]
    return max(scored, key=lambda one: one[:2])[2:] if scored else (system, most)


def settings_drawn(algorithm: str, seed: int) -> list[dict[str, Any]]:
    """Some settings from the space that an algorithm declares; none of one that declares nothing,
    or is not searched here.
    """
    declared = {} if algorithm in BETWEEN_PEERS else space_of(algorithm, {})
    if not declared:
        return []
    space = read_space(algorithm, declared, {})
    return [
        {name: drawn(one, share(seed, algorithm, number, name)) for name, one in space.items()}
        for number in range(DRAWN)
    ]


def share(seed: int, *names: int | str) -> float:
    """A number from 0 to 1, without 1, that the names alone decide."""
    return float(int(key(seed, "defaults", *names)) >> 11) / 2.0**53


def drawn(choice: Range | Choices, at: float) -> Any:
    """The value of a choice at a place from 0 to 1.

    >>> drawn(Range(8, 128, True, True), 0.5), drawn(Range(0.1, 0.5, False, False), 0.25), drawn(
    ...     Choices(("a", "b")), 0.7)
    (32, 0.2, 'b')
    """
    if isinstance(choice, Choices):
        return choice.values[int(at * len(choice.values))]
    low, high = choice.low, choice.high + (1 if choice.whole else 0)
    return choice.rounded(
        math.exp(math.log(low) + at * math.log(high / low))
        if choice.log
        else low + at * (high - low)
    )


# ---- what it says --------------------------------------------------------------------------------


def rows_of(trained: Trained) -> list[Row]:
    """A row for each system and metric, with how its settings and rounds were chosen."""
    study = trained.study
    candidates = study.part("test").held.candidates
    where = f"{study.name}, {study.source.protocol}" + (
        "" if candidates is None else f", {candidates.shape[1]} candidates"
    )
    seeds = f"seeds {', '.join(map(str, study.seeds))}"
    rows = []
    for system in trained.systems:
        settings, rounds, looks = (
            study.settings(system),
            trained.rounds[system],
            trained.looks[system],
        )
        how = (
            f"{BY.format(DRAWN)}, on validation: {in_words(settings) or 'the defaults'}"
            if str(system).endswith(SEARCHED)
            else AS_IT_COMES
        )
        protocol = "; ".join([where, how, *([f"{rounds} rounds"] if rounds else []), seeds])
        more = {"settings": settings, "seeds": list(study.seeds), "epochs": rounds}
        for metric in METRICS:
            values = [look.metrics[metric] for look in looks]
            rows.append(seed_row(study.name, str(system), metric, values, None, protocol, **more))
    return rows


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Every system as it comes against popular, and as searched against itself as it comes; Cali3F
    against FedAvg and Ditto, all searched with one budget. Holm over each kind."""
    there = {str(system): system for system in trained.systems if trained.looks[system]}
    usual = [
        system
        for name, system in there.items()
        if not name.endswith(SEARCHED) and system != POPULAR
    ]
    better = [
        (system, there[name.removesuffix(SEARCHED)])
        for name, system in there.items()
        if name.endswith(SEARCHED)
    ]
    first, *others = (there.get(name + SEARCHED) for name in NEUMF)
    neumf = [(first, other) for other in others if first and other]
    over_popular = [(system, POPULAR) for system in usual if "popular" in there]
    return [
        test
        for pairs in (over_popular, better, neumf)
        if pairs
        for test in tested_pairs(trained, pairs, METRICS)
    ]


def notes_of(trained: Trained) -> list[str]:
    """Whether every system as it comes is above a list of the most popular items, and what a search
    gained.
    """
    study, tests = trained.study, trained.tests
    level = [
        f"{test['a']} ({test['metric']} {test['difference']:+.3f}, p = {test['p_holm']:.2g})"
        for test in tests
        if test["b"] == "popular" and not (test["difference"] > 0 and test["p_holm"] < SIGNIFICANT)
    ]
    mine = [test for test in tests if test["metric"] == NDCG and test["a"].endswith(SEARCHED)]
    gains = [
        f"{test['b']} {test['difference']:+.3f}"
        for test in mine
        if not test["b"].endswith(SEARCHED)
    ]
    equal = [verdict(test) for test in mine if test["b"].endswith(SEARCHED)]
    return [
        worded(
            "findings",
            "defaults",
            study=study,
            sizes=study.sizes,
            seeds=len(study.seeds),
            drawn=DRAWN,
        ),
        worded("findings", "above-popular", name=trained.name, said=", ".join(level) or "none"),
        worded(
            "findings",
            "searched",
            name=trained.name,
            metric=NDCG,
            drawn=DRAWN,
            said=", ".join(gains) or "none",
        ),
        *(
            [
                worded(
                    "findings",
                    "equal-budgets",
                    name=trained.name,
                    metric=NDCG,
                    said="; ".join(equal),
                )
            ]
            if equal
            else []
        ),
    ]


EXPERIMENTS = {
    "defaults": PaperTable(
        title=(
            "default settings on data sets of different density, beside settings searched there (in"
            " no paper)"
        ),
        data=cali3f(efforts=DEFAULTS, family=""),
        systems=systems_of,
        train=train,
        rows=rows_of,
        tests=tests_of,
        findings=(notes_of,),
    )
}
