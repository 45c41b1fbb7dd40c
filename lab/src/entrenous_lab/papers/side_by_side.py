"""The systems of the four papers side by side: one split, one metric, and what each costs. No paper
has this table.

Every system has its default settings; its number of rounds alone is chosen on validation rows.
Predictors of ratings (FBALF and those it is compared with) rank by predicted rating, which is not
what they are trained for; on data without ratings they learn nothing. Centralised systems stand
below for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from entrenous.core.contract.declared import is_gossip, predicts_ratings
from entrenous.report.figures import FigureFormat, scatter

from .effort import TOGETHER
from .findings import tested_pairs
from .measures import CPU_SECONDS, KB_DOWN, KB_UP, MB_SENT, ROUNDS, WORST, each
from .opened import cali3f
from .study import Study, System
from .table import PaperTable, Trained, Values
from .values import worded

RANKED = HR, NDCG = ("hr@10", "ndcg@10")
MB_USER, CPU_DEVICE = "MB a user", "CPU s a device"
FOUR = tuple(map(System, ("pfpl+", "cali3f-neumf", "fbalf", "pepper-gmf")))  # one of each paper
FEDERATED = (
    *("sfpl", "sfpl+", "pfpl", "pfpl+", "fcf", "fcf-newton", "fcf-huawei"),
    *(
        "fedavg-gmf",
        "fedavg-neumf",
        "fedfast-gmf",
        "fedfast-neumf",
        "ditto-neumf",
        "reptile-gmf",
        "reptile-neumf",
    ),
    *("cali3f-gmf", "cali3f-mlp", "cali3f-neumf"),
    *("fbalf", "fbalf-bayes", "fedmf-ratings", "fedrec", "fedrec++", "metamf", "rfrec"),
)
GOSSIP = (
    "gossip-average-gmf",
    "gossip-age-gmf",
    "gossip-reptile-gmf",
    "pepper-gmf",
    "pepper-evidence-gmf",
)
CENTRAL = ("ials", "ease", "bpr-mf", "central-neumf", "popular", "random")
QUICK = (
    *("pfpl+", "fcf", "fedavg-gmf", "cali3f-neumf", "fbalf", "gossip-average-gmf", "pepper-gmf"),
    "ials",
    "popular",
)


def systems_of(study: Study) -> Sequence[System]:
    """Every system; one or two of each paper in quick runs."""
    return [System(name) for name in (QUICK if study.quick else (*FEDERATED, *GOSSIP, *CENTRAL))]


def values_of(trained: Trained, system: System) -> Values:
    """Accuracy, the AUC of the worst tenth of users, and what a device sends, receives and
    computes; of centralised systems accuracy.
    """
    looks, users = trained.looks[system], trained.study.sizes["users"]
    values: dict[str, Sequence[float]] = {name: each(looks, name) for name in (*RANKED, WORST)}
    if trained.study.looks(system) == (0,):
        return values
    spent = {name: each(looks, name) for name in (KB_UP, KB_DOWN, MB_SENT, CPU_SECONDS, ROUNDS)}
    a_user = {MB_USER: spent.pop(MB_SENT), CPU_DEVICE: spent.pop(CPU_SECONDS)}
    return {
        **values,
        **spent,
        **{name: [value / users for value in some] for name, some in a_user.items()},
    }


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """The four papers' systems against each other, and FCF against each of them."""
    there = [system for system in (*FOUR, System("fcf")) if trained.looks.get(system)]
    return tested_pairs(trained, list(combinations(there, 2)), RANKED)


def kind_of(trained: Trained, system: System) -> str:
    """Between whom it trains: a server and devices, peers, or nobody."""
    made = trained.study.made(system)
    if trained.study.looks(system) == (0,):
        return "central"
    return (
        "no server" if is_gossip(made) else "ratings" if predicts_ratings(made) else "with a server"
    )


def front_note(trained: Trained) -> list[str]:
    """Which systems no other one beats in accuracy and in what a user sends and receives."""
    points = {
        system: (float(np.mean(each(looks, NDCG))), float(np.mean(each(looks, MB_SENT))))
        for system, looks in trained.looks.items()
        if looks and kind_of(trained, system) != "central"
    }
    best = [
        a
        for a, (up, mb) in points.items()
        if not any(v >= up and m <= mb and (v, m) != (up, mb) for v, m in points.values())
    ]
    said = "; ".join(
        f"{system} ({points[system][0]:.4f}, {points[system][1]:,.1f} MB)" for system in best
    )
    return [worded("findings", "front", name=trained.name, metric=NDCG, said=said)]


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once."""
    study = trained.study
    return [
        worded("findings", "side-by-side", study=study, sizes=study.sizes, seeds=len(study.seeds))
    ]


def rising_note(trained: Trained) -> list[str]:
    """Which systems were best at the last round that was tried: they might gain from more."""
    last = {
        system: max(trained.study.looks(system))
        for system in trained.systems
        if kind_of(trained, system) != "central"
    }
    rising = [
        str(system) for system, rounds in last.items() if trained.rounds.get(system) == rounds
    ]
    return (
        [worded("findings", "rising", name=trained.name, said=", ".join(rising))] if rising else []
    )


def figure(trained: Trained) -> dict[str, str]:
    """Accuracy over what a user sends and receives."""
    series: dict[str, tuple[list[float], list[float]]] = {}
    for system, looks in trained.looks.items():
        kind = kind_of(trained, system)
        if looks and kind != "central":
            across, up = series.setdefault(kind, ([], []))
            across.append(float(np.mean(each(looks, MB_SENT))))
            up.append(float(np.mean(each(looks, NDCG))))
    return {
        f"bytes-{trained.slug}": scatter(
            series, FigureFormat(title=trained.name, x_label="MB in all", y_label="NDCG@10")
        )
    }


EXPERIMENTS = {
    "side-by-side": PaperTable(
        title="all federated and gossip systems of the four papers on one split (in no paper)",
        data=cali3f(efforts=TOGETHER, family=""),
        systems=systems_of,
        metrics=values_of,
        tests=tests_of,
        findings=(protocol_note, front_note, rising_note),
        figures=figure,
    )
}
