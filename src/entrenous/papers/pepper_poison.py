"""What PEPPER's weighting and sampling are worth where a tenth of the peers lie: wrong but well-formed models (not in the paper).

The paper says that the assessment of models by the node that receives them naturally protects from poisoning (section 6), and measures
nothing. Here colluders join the honest nodes and push what audit/peers.py describes; every system gets the same attacks. HR@10 is that of
honest users; ER@10 is the share of them whose ten best have the item that `pip` promotes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..audit.robustness import attack
from ..core.types import Float64Array
from ..evaluate.significance import holm, paired_t
from .pepper_ablation import EVIDENCE, IDEAS, SYSTEMS
from .pepper_accuracy import MOVIELENS
from .result import Context, Found, Row
from .study import System
from .table import PaperTable, seed_row
from .values import worded

ATTACKS = ("sign-flip", "noise", "pip")
COMPARED = (*SYSTEMS, EVIDENCE, System("gossip-age-gmf"), System("gossip-average-gmf"))
SHARE, SEEDS, QUICK_SEEDS = 0.1, 3, 2
ROUNDS, QUICK_ROUNDS = 100, 10
CLEAN, HR, ER = "hr@10, nobody lies", "hr@10", "er@10"


class PoisonedRuns(NamedTuple):
    """One system under one attack, a value for each seed: HR@10 without and with it, ER@10 of the promoted item."""

    clean: Float64Array
    attacked: Float64Array
    exposed: Float64Array

    @property
    def cost(self) -> Float64Array:
        """The HR@10 that the attack costs."""
        return self.clean - self.attacked


def measured(context: Context, system: System, name: str) -> PoisonedRuns:
    """Trains with and without colluders, once a seed."""
    seeds, rounds = (QUICK_SEEDS, QUICK_ROUNDS) if context.quick else (SEEDS, ROUNDS)
    data: Any = MOVIELENS.read() if context.data is None else context.data
    protocol = MOVIELENS.protocol if context.data is None else "pepper-85-15"
    rows = [
        attack(system.algorithm, data, attack=name, share=SHARE, settings=dict(system.more), defences=("none",), rounds=rounds,
               protocol=protocol, seed=seed)["rows"][0]
        for seed in range(context.seed, context.seed + seeds)
    ]  # fmt: skip
    return PoisonedRuns(*(np.array([row[column] for row in rows]) for column in (HR, "hr@10_attacked", ER)))


def rows_of(context: Context, found: Mapping[tuple[str, System], PoisonedRuns]) -> Iterator[Row]:
    """A row for each system, attack and metric."""
    name = str(MOVIELENS) if context.data is None else context.data.name
    for (attacked, system), runs in found.items():
        rounds, seeds = QUICK_ROUNDS if context.quick else ROUNDS, len(runs.clean)
        said = f"{SHARE:.0%} of all peers collude: {attacked}; {rounds} rounds; {seeds} seeds from {context.seed}; defaults"
        values = {CLEAN: runs.clean, HR: runs.attacked, **({ER: runs.exposed} if attacked == "pip" else {})}
        for metric, some in values.items():
            yield seed_row(name, f"{system}, {attacked}", metric, some.tolist(), None, said)


def tests_of(found: Mapping[tuple[str, System], PoisonedRuns]) -> list[dict[str, Any]]:
    """What an attack costs with and without each idea: Student's paired t over seeds, Holm over all pairs."""
    pairs = [(name, said, *pair) for name in ATTACKS for said, pair in IDEAS.items()]
    tests = [paired_t(found[name, a].cost, found[name, b].cost) for name, _, a, b in pairs]
    adjusted = holm([test.p for test in tests])
    return [
        {"data": name, "effect": said, "a": str(a), "b": str(b), "metric": "HR@10 that the attack costs",
         "difference": test.difference, "p": test.p, "p_holm": float(p), "seeds": test.pairs}
        for (name, said, a, b), test, p in zip(pairs, tests, adjusted, strict=True)
    ]  # fmt: skip


def said_of(test: Mapping[str, Any]) -> str:
    """A test in words.

    >>> said_of({"effect": "weighting", "difference": -0.02, "p_holm": 0.01})
    'weighting saves 0.0200 (p = 0.01)'
    """
    verb = (
        "saves nothing that can be told from chance,"
        if test["p_holm"] >= 0.05
        else "saves"
        if test["difference"] < 0
        else "costs"
    )
    size = f"{-test['difference']:+.4f}" if test["p_holm"] >= 0.05 else f"{abs(test['difference']):.4f}"
    return f"{test['effect']} {verb} {size} (p = {test['p_holm']:.2g})"


def poisoned(context: Context) -> Found:
    """Every system under every attack."""
    found = {(name, system): measured(context, system, name) for name in ATTACKS for system in COMPARED}
    tests = tests_of(found)
    notes = []
    for name in ATTACKS:
        cost = ", ".join(f"{system} {found[name, system].cost.mean():.3f}" for system in COMPARED)
        said = "; ".join(said_of(test) for test in tests if test["data"] == name)
        notes.append(worded("pepper", "poison", attack=name, cost=cost, said=said))
    return Found(rows=list(rows_of(context, found)), notes=notes, tests=tests)


EXPERIMENTS = {
    "pepper-poison": PaperTable(
        title="PEPPER's weighting and sampling where a tenth of the peers lie (not in the paper)",
        data=lambda context, notes: (),
        before=poisoned,
    )
}
