"""PEPPER, tables 2 to 7: hit ratio, NDCG and F1 of federated and decentralised systems, ours beside the paper's.

Tables 2 and 3 are Foursquare-NYC with GMF, 4 and 5 MovieLens-100K with GMF, 6 and 7 Foursquare-NYC and Gowalla-NYC with PRME-G. The
paper's numbers stand beside the split that its authors published; the whole data under the text's 85-15 rule, or under their split
of all users, stand below without. Centralised systems are not in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .findings import SIGNIFICANT, against, agrees, bars_beside_paper, verdict
from .opened import LENGTHS, pepper
from .source import RowSource
from .study import System
from .table import PaperTable, Trained
from .values import printed

FEDERATED, GOSSIP = ("fedavg", "reptile", "fedfast"), ("gossip-average", "gossip-age", "gossip-reptile", "pepper")
CENTRAL = ("ials", "popular")
MOVIELENS, FOURSQUARE, GOWALLA = RowSource("ml-100k"), RowSource("foursquare-nyc"), RowSource("gowalla-nyc-pepper")
WHOLE_MOVIELENS, WHOLE_FOURSQUARE = RowSource("ml-100k", "pepper-given-943"), RowSource("foursquare-nyc", "pepper-85-15", 10)
WHOLE_GOWALLA = RowSource("gowalla-nyc", "pepper-85-15", 10)
TARGET = {"hr@20": 0.793, "hr@10": 0.612, "hr@5": 0.476}  # what PEPPER must reach on the authors' users of MovieLens-100K


def systems_of(model: str, central: Sequence[str] = CENTRAL) -> list[System]:
    """In the order of the tables, PEPPER last, and the centralised systems below."""
    return [*(System(f"{name}-{model}") for name in (*FEDERATED, *GOSSIP)), *map(System, central)]


def pepper_of(trained: Trained) -> System:
    """PEPPER among the systems of a table, whether it fits or not."""
    return next((system for system in trained.systems if system.algorithm.startswith("pepper-")), System("pepper-gmf"))


def metrics_of(metric: str) -> list[str]:
    """A metric at every length, the longest first."""
    return [f"{metric}@{n}" for n in sorted(LENGTHS, reverse=True)]


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """PEPPER against every other system."""
    own = pepper_of(trained)
    metrics = list(dict.fromkeys(row["metric"] for row in trained.rows))
    return against(trained.name, trained.looks, own, [system for system in trained.systems if system != own], metrics)


# ---- findings ----------------------------------------------------------------------------------------------------------------------


def split_note(trained: Trained) -> list[str]:
    """What was split how, once for a table."""
    study = trained.study
    test, rest = study.part("test"), study.part("validation")
    cold = int((test.rows.popularity[test.held.rows.item] == 0).sum())
    spread = f" ± is the standard deviation over {len(study.seeds)} seeds." if len(study.seeds) > 1 else ""
    chance = f", {cold} of them of items without a training row, which rank by chance" if cold else ""
    return [
        f"{study.name}: {int((test.rows.counts > 0).sum())} users, {len(test.rows)} training rows, {len(rest.held.rows)} rows of "
        f"weighting sets, {len(test.held.rows)} test rows{chance}. Settings and rounds are chosen on the weighting sets; the test rows "
        f"are opened once training is over.{spread}"
    ]


def claims(data: str, model: str, metric: str, tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The paper: PEPPER always outperforms its decentralised competitors, and competes with those that have a server (RQ1)."""
    said = []
    for who, names in (("without a server", GOSSIP), ("with a server", FEDERATED), ("in one place", CENTRAL)):
        mine = [test for test in tests if test["metric"] == metric and test["b"].removesuffix(f"-{model}") in names]
        if mine:
            above = sum(test["difference"] > 0 and test["p_holm"] < SIGNIFICANT for test in mine)
            listed = "; ".join(verdict(test) for test in mine)
            said.append(
                f"{data}, {metric}: PEPPER is above {above} of {len(mine)} systems {who} (paired t over users, Holm): {listed}."
            )
    return said


def target(trained: Trained) -> list[str]:
    """Whether PEPPER reaches what it must on MovieLens-100K, and how far it is from iALS."""
    if trained.study.source.data != MOVIELENS.data:
        return []
    ours, ials = (_means(trained, System(name)) for name in ("pepper-gmf", "ials"))
    said = []
    if ours and trained.study.source == MOVIELENS:
        met = all(ours[name] >= least for name, least in TARGET.items())
        wanted = " / ".join(f"{least:.3f}" for least in TARGET.values())
        said.append(
            f"{trained.name}: PEPPER has to reach HR@20/10/5 {wanted}; it has {_slashed(ours)}: {'reached' if met else 'missed'}."
        )
    if ours and ials:
        gap = {name: ials[name] - ours[name] for name in TARGET}
        said.append(f"{trained.name}: centralised iALS has {_slashed(ials)}; PEPPER's distance to it is {_slashed(gap)}.")
    return said


def _means(trained: Trained, system: System) -> dict[str, float]:
    """Means over seeds of the metrics of TARGET; {} without any."""
    return {name: mean for name in TARGET for mean in trained.means([system], name).values()}


def _slashed(values: Mapping[str, float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values.values())


def findings_of(model: str, metric: str) -> tuple[Any, ...]:
    """What is said of one table, by its metric at length 10."""
    at = metrics_of(metric)[1]
    return (
        split_note,
        lambda trained: claims(trained.name, model, at, trained.tests),
        agrees(at),
        *([target] if metric == "hr" else []),
    )


def _figure(trained: Trained, metric: str) -> dict[str, str]:
    at = metrics_of(metric)[1]
    return {f"{metric}-{trained.study.source.slug}": bars_beside_paper(trained.rows, at, at, trained.name)}


def accuracy(number: int, what: str, model: str, metric: str, *sources: RowSource) -> PaperTable:
    """One of the tables 2 to 7."""
    return PaperTable(
        title=f"{what} (PEPPER, table {number})",
        data=pepper(*sources),
        systems=systems_of(model),
        metrics=metrics_of(metric),
        printed=printed("pepper", f"table{number}"),
        tests=tests_of,
        findings=findings_of(model, metric),
        figures=lambda trained: _figure(trained, metric),
    )


EXPERIMENTS = {
    "pepper-table2": accuracy(2, "hit ratio on Foursquare-NYC, GMF", "gmf", "hr", FOURSQUARE, WHOLE_FOURSQUARE),
    "pepper-table3": accuracy(3, "NDCG on Foursquare-NYC, GMF", "gmf", "ndcg", FOURSQUARE, WHOLE_FOURSQUARE),
    "pepper-table4": accuracy(4, "hit ratio on MovieLens-100K, GMF", "gmf", "hr", MOVIELENS, WHOLE_MOVIELENS),
    "pepper-table5": accuracy(5, "NDCG on MovieLens-100K, GMF", "gmf", "ndcg", MOVIELENS, WHOLE_MOVIELENS),
    "pepper-table6": accuracy(6, "F1 on Foursquare-NYC, PRME-G", "prme-g", "f1_user", FOURSQUARE),
    "pepper-table7": accuracy(7, "F1 on Gowalla-NYC, PRME-G", "prme-g", "f1_user", GOWALLA, WHOLE_GOWALLA),
}
