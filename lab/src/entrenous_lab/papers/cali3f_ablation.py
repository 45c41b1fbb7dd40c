"""Cali3F taken apart, beyond the paper's own figures: each part off, other readings, and other
values of phi, lambda, m and P.

The paper says where its gains come from (sections III to V, RQ4) and prints no experiment on it.
`cali3f-speed` has the two parts that section V names, on validation rows and with five seeds.
"""

from __future__ import annotations

from typing import Any

from .cali3f_rounds import NEAR, convergence_of, on_every_seed
from .findings import SIGNIFICANT, against, still_rising
from .measures import (
    CPU_SECONDS,
    FAIRNESS,
    MB_SENT,
    STD_HR,
    WITHIN,
    each,
    near_round,
    paces,
)
from .opened import cali3f
from .study import Study, System
from .table import PaperTable, Trained, Values, on_test_rows
from .values import listed, worded

HR, NDCG = "hr@10", "ndcg@10"
CALI3F = System("cali3f-neumf")
CHANGES: tuple[dict[str, Any], ...] = (
    {"personalised": False},
    {"fast": False},
    {"sampled": False},
    {"personalised": False, "fast": False, "sampled": False},
    {"one_pass": True},
    *({"phi": phi} for phi in (0.0, 1.0, 10.0)),
    *({"phi": phi, "pull": "bounded"} for phi in (1.0, 10.0)),
    *({"discount": discount} for discount in (0.0, 0.5)),
    *({"discount": discount, "fading": False} for discount in (0.1, 0.5)),
    *({"clusters": clusters} for clusters in (5, 50)),
    {"cohort": 200},
)
QUICK = CHANGES[:5]
# Delegates, and sharing within clusters.
NAMED = ({"sampled": False}, {"fast": False})
MEASURED = (HR, NDCG, STD_HR, *FAIRNESS, CPU_SECONDS, MB_SENT)


def changed(study: Study) -> list[System]:
    """The system as it is, and with each change, for as many rounds as validation says of each."""
    changes = QUICK if study.quick else CHANGES
    return [CALI3F, *(CALI3F.replaced(**change)._replace(own_rounds=True) for change in changes)]


def values_of(trained: Trained, system: System) -> Values:
    """What is measured on test rows, and how soon the curve on validation rows is near its best."""
    tested = {name: each(trained.looks[system], name) for name in MEASURED}
    curve = trained.study.curves([system])[system]
    return {**tested, NEAR: [pace.near.rounds for pace in paces(curve)]}


def gains(trained: Trained) -> list[str]:
    """Which changes make a difference."""
    tests = [test for test in trained.tests if test["metric"] == NDCG]
    sure = [
        f"{test['b']} {-test['difference']:+.4f}" for test in tests if test["p_holm"] < SIGNIFICANT
    ]
    return [
        worded(
            "cali3f",
            "ablated",
            name=trained.name,
            several=len(tests),
            sure="; ".join(sure) or "none",
        )
    ]


def speed(trained: Trained) -> list[str]:
    """How soon each form is near its best."""
    near = {system: near_round(mine) for system, mine in trained.more.items() if mine}
    said = listed(near, ".0f")
    return [
        worded("cali3f", "speed", name=trained.name, within=WITHIN, said=said),
        *still_rising(trained, trained.more),
    ]


EXPERIMENTS = {
    "cali3f-speed": PaperTable(
        title="where the gain in speed comes from: without delegates, without sharing within"
        " clusters (Cali3F, section V)",
        data=cali3f(("ml-100k",)),
        systems=[CALI3F, *(CALI3F.replaced(**change) for change in NAMED)],
        train=on_every_seed,
        metrics=convergence_of,
        findings=(speed,),
    ),
    "cali3f-ablation": PaperTable(
        title="Cali3F without each of its parts, and over its settings (beyond the paper)",
        data=cali3f(("ml-100k",)),
        systems=changed,
        train=lambda study, systems: on_test_rows(study, systems, study.curve_seeds),
        metrics=values_of,
        tests=lambda trained: against(trained, CALI3F, trained.systems[1:], (NDCG,)),
        findings=(gains,),
    ),
}
