"""PEPPER, tables 2 to 7: hit ratio, NDCG and F1 of federated and decentralised systems, ours beside
the paper's.

Tables 2 and 3 are Foursquare-NYC with GMF, 4 and 5 MovieLens-100K with GMF, 6 and 7 Foursquare-NYC
and Gowalla-NYC with PRME-G. The paper's numbers stand beside the split that its authors published;
the whole data under the text's 85-15 rule, or under their split of all users, stand below without.
Centralised systems are not in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .effort import RowSource
from .findings import SIGNIFICANT, against, agrees, bars_figure, verdict
from .opened import LENGTHS, pepper
from .study import System
from .table import PaperTable, Trained
from .values import printed, worded

FEDERATED, GOSSIP = (
    ("fedavg", "reptile", "fedfast"),
    ("gossip-average", "gossip-age", "gossip-reptile", "pepper"),
)
CENTRAL = ("ials", "popular")
MOVIELENS, FOURSQUARE, GOWALLA = (
    RowSource("ml-100k"),
    RowSource("foursquare-nyc"),
    RowSource("gowalla-nyc-pepper"),
)
WHOLE_MOVIELENS, WHOLE_FOURSQUARE = (
    RowSource("ml-100k", "pepper-given-943"),
    RowSource("foursquare-nyc", "pepper-85-15", 10),
)
WHOLE_GOWALLA = RowSource("gowalla-nyc", "pepper-85-15", 10)
TARGET = {
    "hr@20": 0.793,
    "hr@10": 0.612,
    "hr@5": 0.476,
}  # what PEPPER must reach on the authors' users of MovieLens-100K


def systems_of(model: str, central: Sequence[str] = CENTRAL) -> list[System]:
    """In the order of the tables, PEPPER last, and the centralised systems below."""
    return [*(System(f"{name}-{model}") for name in (*FEDERATED, *GOSSIP)), *map(System, central)]


def pepper_of(trained: Trained) -> System:
    """PEPPER among the systems of a table, whether it fits or not."""
    return next(
        (system for system in trained.systems if system.algorithm.startswith("pepper-")),
        System("pepper-gmf"),
    )


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """PEPPER against every other system."""
    own, metrics = pepper_of(trained), list(dict.fromkeys(row["metric"] for row in trained.rows))
    return against(trained, own, [system for system in trained.systems if system != own], metrics)


# ---- findings ------------------------------------------------------------------------------------


def split_note(trained: Trained) -> list[str]:
    """What was split how, once for a table."""
    study, test = trained.study, trained.study.part("test")
    cold, seeds = int((test.rows.popularity[test.held.rows.item] == 0).sum()), len(study.seeds)
    more = {
        "cold": worded("pepper", "split-cold", cold) if cold else "",
        "spread": worded("pepper", "split-spread", seeds) if seeds > 1 else "",
    }
    return [worded("pepper", "split", study=study, sizes=study.sizes, **more)]


def claims(data: str, model: str, metric: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paper: PEPPER always outperforms its decentralised competitors, and competes with those
    that have a server (RQ1).
    """
    said = []
    for who, names in (
        ("without a server", GOSSIP),
        ("with a server", FEDERATED),
        ("in one place", CENTRAL),
    ):
        mine = [
            test
            for test in tests
            if test["metric"] == metric and test["b"].removesuffix(f"-{model}") in names
        ]
        if mine:
            above = sum(test["difference"] > 0 and test["p_holm"] < SIGNIFICANT for test in mine)
            of = {"data": data, "metric": metric, "above": above, "several": len(mine), "who": who}
            said.append(worded("pepper", "claim", listed="; ".join(map(verdict, mine)), **of))
    return said


def target(trained: Trained) -> list[str]:
    """Whether PEPPER reaches what it must on MovieLens-100K, and how far it is from iALS."""
    ours, ials = (
        [mean for metric in TARGET for mean in trained.means([System(name)], metric).values()]
        for name in ("pepper-gmf", "ials")
    )
    if trained.study.source.data != MOVIELENS.data or not ours:
        return []
    said, of = [], {"name": trained.name, "ours": _slashed(ours)}
    if trained.study.source == MOVIELENS:
        met = all(mean >= least for mean, least in zip(ours, TARGET.values(), strict=True))
        said.append(
            worded(
                "pepper",
                "target",
                wanted=_slashed(list(TARGET.values())),
                met="reached" if met else "missed",
                **of,
            )
        )
    if ials:
        gap = [theirs - mean for theirs, mean in zip(ials, ours, strict=True)]
        said.append(
            worded(
                "pepper", "target-ials", name=trained.name, ials=_slashed(ials), gap=_slashed(gap)
            )
        )
    return said


def _slashed(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


def accuracy(number: int, what: str, model: str, metric: str, *sources: RowSource) -> PaperTable:
    """One of the tables 2 to 7."""
    metrics = [f"{metric}@{n}" for n in sorted(LENGTHS, reverse=True)]
    at = metrics[1]  # findings and figures are of length 10
    found = (split_note, lambda trained: claims(trained.name, model, at, trained.tests), agrees(at))
    return PaperTable(
        title=f"{what} (PEPPER, table {number})",
        data=pepper(*sources),
        systems=systems_of(model),
        metrics=metrics,
        printed=printed("pepper", f"table{number}"),
        tests=tests_of,
        findings=(*found, target) if metric == "hr" else found,
        figures=bars_figure(f"{metric}-{{slug}}", at, at, "{}"),
    )


EXPERIMENTS = {
    "pepper-table2": accuracy(
        2, "hit ratio on Foursquare-NYC, GMF", "gmf", "hr", FOURSQUARE, WHOLE_FOURSQUARE
    ),
    "pepper-table3": accuracy(
        3, "NDCG on Foursquare-NYC, GMF", "gmf", "ndcg", FOURSQUARE, WHOLE_FOURSQUARE
    ),
    "pepper-table4": accuracy(
        4, "hit ratio on MovieLens-100K, GMF", "gmf", "hr", MOVIELENS, WHOLE_MOVIELENS
    ),
    "pepper-table5": accuracy(
        5, "NDCG on MovieLens-100K, GMF", "gmf", "ndcg", MOVIELENS, WHOLE_MOVIELENS
    ),
    "pepper-table6": accuracy(6, "F1 on Foursquare-NYC, PRME-G", "prme-g", "f1_user", FOURSQUARE),
    "pepper-table7": accuracy(
        7, "F1 on Gowalla-NYC, PRME-G", "prme-g", "f1_user", GOWALLA, WHOLE_GOWALLA
    ),
}
