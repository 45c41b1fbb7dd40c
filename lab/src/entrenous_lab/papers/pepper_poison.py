"""What PEPPER's weighting and sampling are worth where a tenth of the peers lie: wrong but
well-formed models (not in the paper).

The paper says that the assessment of models by the node that receives them naturally protects from
poisoning (section 6), and measures nothing. Here colluders join the honest nodes and push what
entrenous_audit/peers.py describes; every system gets the same attacks. HR@10 is that of honest
users; ER@10 is the share of them whose ten best have the item that `pip` promotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from entrenous_audit.plan import AttackPlan
from entrenous_audit.robustness import attack

from entrenous.core.types import Float64Array
from entrenous.data.interactions import Interactions

from .findings import tested_columns, verdict
from .pepper_ablation import BOTH, EVIDENCE, IDEAS, SYSTEMS
from .pepper_accuracy import MOVIELENS
from .result import Context, Found, Row
from .study import System
from .table import PaperTable, seed_row
from .values import worded

ATTACKS = ("sign-flip", "noise", "pip")
COMPARED = (*SYSTEMS, EVIDENCE, System("gossip-age-gmf"), System("gossip-average-gmf"))
PAIRS = {**IDEAS, "evidence for performance": (EVIDENCE, BOTH)}
SHARE, SEEDS, QUICK_SEEDS = 0.1, 5, 2
ROUNDS, QUICK_ROUNDS = 100, 10
CLEAN, HR, ER, COST = "hr@10, nobody lies", "hr@10", "er@10", "hr@10 that it costs"


class PoisonedRuns(NamedTuple):
    """One system under one attack, a value for each seed: HR@10 without and with it, ER@10 of the
    promoted item.
    """

    clean: Float64Array
    attacked: Float64Array
    exposed: Float64Array

    @property
    def cost(self) -> Float64Array:
        """The HR@10 that the attack costs."""
        return self.clean - self.attacked


def measured(context: Context, data: Interactions, system: System, name: str) -> PoisonedRuns:
    """Trains with and without colluders, once a seed."""
    seeds, rounds = (QUICK_SEEDS, QUICK_ROUNDS) if context.quick else (SEEDS, ROUNDS)
    context.uses(system.algorithm, data)
    protocol = MOVIELENS.protocol if context.data is None else "pepper-85-15"
    rows = []
    for seed in context.seed_numbers(seeds):
        plan = AttackPlan(
            algorithm=system.algorithm,
            attack=name,
            share=SHARE,
            settings=dict(system.more),
            defences=("none",),
            rounds=rounds,
            protocol=protocol,
            seed=seed,
        )
        rows.append(attack(plan, data)["rows"][0])
    return PoisonedRuns(
        *(np.array([row[column] for row in rows]) for column in (HR, "hr@10_attacked", ER))
    )


def named(context: Context) -> str:
    """The rows, as tables have them."""
    return str(MOVIELENS) if context.data is None else context.data.name


def rows_of(context: Context, found: Mapping[tuple[str, System], PoisonedRuns]) -> Iterator[Row]:
    """A row for each system, attack and metric."""
    rounds = QUICK_ROUNDS if context.quick else ROUNDS
    for (attacked, system), runs in found.items():
        seeds = [context.seed + n for n in range(len(runs.clean))]
        said = (
            f"{SHARE:.0%} of all peers collude: {attacked}; {rounds} rounds; seeds"
            f" {', '.join(map(str, seeds))}; defaults"
        )
        values = {
            CLEAN: runs.clean,
            HR: runs.attacked,
            COST: runs.cost,
            **({ER: runs.exposed} if attacked == "pip" else {}),
        }
        for metric, some in values.items():
            yield seed_row(
                named(context),
                f"{system}, {attacked}",
                metric,
                some.tolist(),
                None,
                said,
                seeds=seeds,
            )


def tests_of(
    context: Context, found: Mapping[tuple[str, System], PoisonedRuns]
) -> dict[tuple[str, str], dict[str, Any]]:
    """{(attack, idea): what the attack costs with and without the idea}: the test over
    seeds, Holm over all pairs.
    """
    pairs = {(name, said): pair for name in ATTACKS for said, pair in PAIRS.items()}
    columns = [
        (f"{a}, {name}", f"{b}, {name}", found[name, a].cost[:, None], found[name, b].cost[:, None])
        for (name, _), (a, b) in pairs.items()
    ]
    return dict(zip(pairs, tested_columns(named(context), COST, columns), strict=True))


def poisoned(context: Context) -> Found:
    """Every system under every attack."""
    if not context.wants(MOVIELENS.data, str(MOVIELENS)):
        return Found()
    data = MOVIELENS.read() if context.data is None else context.data
    found = {
        (name, system): measured(context, data, system, name)
        for name in ATTACKS
        for system in COMPARED
    }
    tests, notes = tests_of(context, found), []
    for name in ATTACKS:
        cost = ", ".join(f"{system} {found[name, system].cost.mean():.3f}" for system in COMPARED)
        said = "; ".join(f"{idea}: {verdict(tests[name, idea])}" for idea in PAIRS)
        notes.append(worded("pepper", "poison", attack=name, cost=cost, said=said))
    return Found(rows=list(rows_of(context, found)), notes=notes, tests=list(tests.values()))


EXPERIMENTS = {
    "pepper-poison": PaperTable(
        title="PEPPER's weighting and sampling where a tenth of the peers lie (not in the paper)",
        data=lambda context, notes: (),
        before=poisoned,
    )
}
