"""The centralised anchors of the field beside our federated systems: EASE (Steck 2019), iALS,
BPR-MF and neural matrix factorisation, by the protocol of NCF (He et al. 2017), with the settings
that validation rows chose. No paper has this table.

The rows of MovieLens-1M and their candidates are NCF's own, so that its printed figures, and those
of Rendle et al. (2020) for a tuned matrix factorisation, are of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .effort import ANCHORS
from .findings import bars_figure, tested_pairs
from .opened import cali3f
from .study import Study, System
from .table import PaperTable, Trained
from .values import printed, worded

METRICS = HR, NDCG = ("hr@10", "ndcg@10")
EASE, IALS, NEWTON, FCF = map(System, ("ease", "ials", "fcf-newton", "fcf"))
PFPL, PART = (
    System("pfpl+"),
    System("pfpl+", "pfpl+, a part of the devices", called="pfpl+, a part of the devices"),
)
CENTRAL = (EASE, IALS, *map(System, ("bpr-mf", "central-gmf", "central-neumf")))
FEDERATED = (NEWTON, FCF, PFPL, PART, System("cali3f-neumf"))
FEW = (EASE, IALS, NEWTON, System("popular"))


def systems_of(study: Study) -> Sequence[System]:
    """Every system; a few in quick runs."""
    return FEW if study.quick else (*CENTRAL, *FEDERATED, System("popular"))


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Our most accurate federated systems against the anchors."""
    pairs = [(ours, anchor) for ours in (NEWTON, FCF) for anchor in (EASE, IALS)]
    there = [pair for pair in pairs if all(trained.looks.get(system) for system in pair)]
    return tested_pairs(trained, there, METRICS) if there else []


def protocol_note(trained: Trained) -> list[str]:
    """How the figures came about, once."""
    study = trained.study
    return [worded("findings", "anchors", study=study, sizes=study.sizes, seeds=len(study.seeds))]


EXPERIMENTS = {
    "anchors": PaperTable(
        title="centralised anchors and our federated systems by the protocol of NCF (in no paper)",
        data=cali3f(efforts=ANCHORS, family="anchors"),
        systems=systems_of,
        metrics=METRICS,
        printed=printed("anchors", "published"),
        tests=tests_of,
        findings=(protocol_note,),
        figures=bars_figure("ndcg-{}", NDCG, "NDCG@10", "Anchors: {}"),
    )
}
