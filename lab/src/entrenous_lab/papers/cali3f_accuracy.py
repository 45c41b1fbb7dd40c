"""Cali3F, table II: HR@10 and NDCG@10 of central and federated neural collaborative filtering on
three data sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .findings import SIGNIFICANT, against, agrees, bars_figure, verdict
from .opened import cali3f
from .study import Study, System
from .table import PaperTable, Trained, Values
from .values import printed, worded

METRICS = HR, NDCG = ("hr@10", "ndcg@10")
CALI3F, FEDAVG, SHARED = (
    System("cali3f-neumf"),
    System("fedavg-neumf"),
    System("fedavg-neumf", shared=True),
)
CENTRAL = System("central-neumf")
PRINTED = (
    *map(System, ("central-gmf", "central-mlp", "central-neumf", "bpr-mf")),
    FEDAVG,
    SHARED,
    *map(System, ("cali3f-gmf", "cali3f-mlp", "cali3f-neumf")),
)
CLAIMS = (
    (FEDAVG, "Cali3F outperforms FedAvg", 1),
    (CENTRAL, "central training is an upper bound", -1),
)  # section IV-D


def systems_of(study: Study) -> list[System]:
    """Those of the paper, and those beyond it."""
    return [*PRINTED, *map(System, study.budget.beyond)]


def values_of(trained: Trained, system: System) -> Values:
    """The ranking of the protocol beside the paper's; the further one of section IV-B and the full
    ranking beside it.
    """
    looks = trained.looks[system]
    values = {metric: [look.metrics[metric] for look in looks] for metric in METRICS}
    for name in trained.study.part("test").also:
        values |= {
            f"{metric}, {name}": [look.also[name][metric] for look in looks] for metric in METRICS
        }
    if all(look.full for look in looks):
        values |= {
            f"{metric}, full ranking": [look.full[metric] for look in looks] for metric in METRICS
        }
    return values


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Cali3F against the other federated systems and against what is trained in one place."""
    others = [
        s
        for s in trained.systems
        if trained.study.looks(s) != (0,) and not s.algorithm.startswith("cali3f")
    ]
    return against(trained, CALI3F, [*others, CENTRAL], METRICS)


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once."""
    study, more = (
        trained.study,
        "".join(worded("cali3f", "also", name=name) for name in trained.study.part("test").also),
    )
    return [
        worded(
            "cali3f", "protocol", study=study, sizes=study.sizes, seeds=len(study.seeds), more=more
        )
    ]


def claims(data: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The two claims of section IV-D: Cali3F outperforms FedAvg, and what is trained in one place
    is better still.
    """
    of, said = {test["b"]: test for test in tests if test["metric"] == NDCG}, []
    for other, claim, lead in CLAIMS:
        if test := of.get(str(other)):
            seen = test["p_holm"] < SIGNIFICANT and lead * test["difference"] > 0
            here = "this is seen here" if seen else "this is not seen here"
            said.append(
                worded("cali3f", "claim", data=data, claim=claim, here=here, verdict=verdict(test))
            )
    return said


def readings(trained: Trained) -> list[str]:
    """What "the same hyper-parameter setting" does to FedAvg."""
    if trained.study.made(FEDAVG) == trained.study.made(SHARED):
        return [worded("cali3f", "same-settings", name=trained.name)]
    test = next(
        (test for test in trained.tests if (test["b"], test["metric"]) == (str(SHARED), NDCG)), None
    )
    if test is None or not trained.looks[FEDAVG]:
        return []
    own, theirs = trained.means((FEDAVG, SHARED), NDCG).values()
    return [
        worded(
            "cali3f", "readings", name=trained.name, own=own, theirs=theirs, verdict=verdict(test)
        )
    ]


EXPERIMENTS = {
    "cali3f-table2": PaperTable(
        title="accuracy of central and federated NCF (Cali3F, table II)",
        data=cali3f(),
        systems=systems_of,
        metrics=values_of,
        printed=printed("cali3f", "table2"),
        tests=tests_of,
        findings=(
            protocol_note,
            agrees(NDCG, without="Cali3F's settings"),
            lambda trained: claims(trained.name, trained.tests),
            readings,
        ),
        figures=bars_figure("ndcg-{}", NDCG, "NDCG@10", "Table II: {}"),
    )
}
