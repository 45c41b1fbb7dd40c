"""Cali3F, table II: HR@10 and NDCG@10 of central and federated neural collaborative filtering on three data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .findings import SIGNIFICANT, against, agrees, bars_beside_paper, verdict
from .opened import cali3f
from .study import Study, System
from .table import PaperTable, Trained, Values
from .values import printed

METRICS = ("hr@10", "ndcg@10")
CALI3F, FEDAVG, SHARED = System("cali3f-neumf"), System("fedavg-neumf"), System("fedavg-neumf", shared=True)
CENTRAL = System("central-neumf")
PRINTED = (
    *(System(name) for name in ("central-gmf", "central-mlp", "central-neumf", "bpr-mf")),
    FEDAVG,
    SHARED,
    *(System(name) for name in ("cali3f-gmf", "cali3f-mlp", "cali3f-neumf")),
)


def systems_of(study: Study) -> list[System]:
    """Those of the paper, and those beyond it."""
    return [*PRINTED, *(System(name) for name in study.budget.beyond)]


def values_of(trained: Trained, system: System) -> Values:
    """The ranking of the protocol beside the paper's; the further one of section IV-B and the full ranking beside it."""
    looks = trained.looks[system]
    values = {metric: [look.metrics[metric] for look in looks] for metric in METRICS}
    for name in trained.study.part("test").also:
        values |= {f"{metric}, {name}": [look.also[name][metric] for look in looks] for metric in METRICS}
    if all(look.full for look in looks):
        values |= {f"{metric}, full ranking": [look.full[metric] for look in looks] for metric in METRICS}
    return values


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Cali3F against the other federated systems and against what is trained in one place."""
    others = [s for s in trained.systems if not trained.study.central(s) and not s.algorithm.startswith("cali3f")]
    return against(trained.name, trained.looks, CALI3F, [*others, CENTRAL], METRICS)


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once."""
    study = trained.study
    test, validation = study.part("test"), study.part("validation")
    more = "".join(f" {name}: the same rows against as many other items, drawn." for name in test.also)
    return [
        f"{study.name}, {study.source.protocol}: {len(test.rows)} training, {len(validation.held.rows)} validation and "
        f"{len(test.held.rows)} test rows. Settings and rounds are chosen on validation alone; the test rows are opened once "
        f"training is over. ± is the standard deviation over {len(study.seeds)} seeds.{more}"
    ]


def claims(data: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The two claims of section IV-D: Cali3F outperforms FedAvg, and what is trained in one place is better still."""
    of = {test["b"]: test for test in tests if test["metric"] == METRICS[1]}
    said = []
    for other, claim, lead in ((FEDAVG, "Cali3F outperforms FedAvg", 1), (CENTRAL, "central training is an upper bound", -1)):
        test = of.get(str(other))
        if test is not None:
            sure = test["p_holm"] < SIGNIFICANT
            here = "this is seen here" if sure and lead * test["difference"] > 0 else "this is not seen here"
            said.append(f"{data}: the paper says that {claim}; {here}: {verdict(test)}, NDCG@10, paired t over users, Holm.")
    return said


def readings(trained: Trained) -> list[str]:
    """What "the same hyper-parameter setting" does to FedAvg."""
    if trained.study.made(FEDAVG) == trained.study.made(SHARED):
        return [f"{trained.name}: FedAvg's own settings and Cali3F's are the same here."]
    test = next((test for test in trained.tests if test["b"] == str(SHARED) and test["metric"] == METRICS[1]), None)
    if test is None or not trained.looks[FEDAVG]:
        return []
    own, theirs = trained.means((FEDAVG, SHARED), METRICS[1]).values()
    return [
        f"{trained.name}, both readings of FedAvg: NDCG@10 {own:.4f} with its own settings, {theirs:.4f} with Cali3F's (the paper has "
        f"one setting for both). With Cali3F's: {verdict(test)}."
    ]


def _figure(trained: Trained) -> dict[str, str]:
    return {f"ndcg-{trained.name}": bars_beside_paper(trained.rows, METRICS[1], "NDCG@10", f"Table II: {trained.name}")}


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
            agrees(METRICS[1], without="Cali3F's settings"),
            lambda trained: claims(trained.name, trained.tests),
            readings,
        ),
        figures=_figure,
    )
}
