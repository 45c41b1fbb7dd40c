"""PEPPER, tables 2 to 7: hit ratio, NDCG and F1 of federated and decentralised systems, ours beside the paper's.

Tables 2 and 3 are Foursquare-NYC with GMF, 4 and 5 MovieLens-100K with GMF, 6 and 7 Foursquare-NYC and Gowalla-NYC with PRME-G. The
paper's numbers stand beside the split that its authors published; the whole data under the text's 85-15 rule, or under their split
of all users, stand below without. Centralised systems are not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..report.figures import bars
from .pepper_plan import CENTRAL, LENGTHS, Source, System
from .pepper_study import PepperStudy, Tested, over_sources
from .result import Experiment, Found, Paper, Row
from .seed_rows import SIGNIFICANT, against, verdict

FEDERATED, GOSSIP = ("fedavg", "reptile", "fedfast"), ("gossip-average", "gossip-age", "gossip-reptile", "pepper")
# printed, in percent: @20, @10, @5
HR_FOURSQUARE = {
    "fedavg": (32.42, 24.0, 18.30),
    "reptile": (31.59, 23.25, 18.10),
    "fedfast": (37.12, 26.27, 18.94),
    "gossip-average": (37.00, 28.10, 20.44),
    "gossip-age": (38.54, 26.87, 20.16),
    "gossip-reptile": (38.58, 28.99, 22.70),
    "pepper": (45.93, 32.59, 25.90),
}
NDCG_FOURSQUARE = {
    "fedavg": (16.61, 14.37, 12.66),
    "reptile": (17.12, 14.36, 13.38),
    "fedfast": (18.41, 15.69, 13.30),
    "gossip-age": (19.07, 16.81, 14.92),
    "gossip-average": (18.75, 17.39, 15.37),
    "gossip-reptile": (22.04, 19.61, 17.63),
    "pepper": (23.10, 20.44, 19.24),
}
HR_MOVIELENS = {
    "fedavg": (79.69, 64.4, 47.59),
    "reptile": (79.49, 62.6, 44.1),
    "fedfast": (82.79, 67.80, 50.00),
    "gossip-average": (74.9, 55.0, 40.7),
    "gossip-age": (73.69, 55.5, 42.4),
    "gossip-reptile": (70.19, 51.60, 36.29),
    "pepper": (79.29, 61.20, 47.59),
}
NDCG_MOVIELENS = {
    "fedavg": (41.03, 37.35, 32.07),
    "reptile": (40.07, 35.80, 29.83),
    "fedfast": (44.14, 40.34, 34.50),
    "gossip-average": (36.17, 31.79, 27.56),
    "gossip-age": (37.47, 33.06, 29.81),
    "gossip-reptile": (34.0, 29.05, 24.14),
    "pepper": (40.09, 35.60, 32.53),
}
F1_FOURSQUARE = {
    "fedavg": (32.87, 28.62, 21.50),
    "reptile": (35.00, 31.53, 23.86),
    "fedfast": (33.35, 30.56, 23.18),
    "gossip-average": (21.82, 18.70, 16.03),
    "gossip-age": (20.48, 18.60, 17.19),
    "gossip-reptile": (27.28, 25.46, 21.19),
    "pepper": (34.05, 32.44, 26.38),
}
F1_GOWALLA = {
    "fedavg": (21.35, 18.53, 15.37),
    "reptile": (20.90, 17.07, 13.46),
    "fedfast": (21.80, 18.28, 15.09),
    "gossip-average": (11.30, 10.18, 9.13),
    "gossip-age": (9.92, 8.59, 7.64),
    "gossip-reptile": (9.10, 7.66, 6.05),
    "pepper": (23.63, 20.66, 17.15),
}
MOVIELENS, FOURSQUARE, GOWALLA = Source("ml-100k"), Source("foursquare-nyc"), Source("gowalla-nyc-pepper")
WHOLE_MOVIELENS, WHOLE_FOURSQUARE = Source("ml-100k", "pepper-given-943"), Source("foursquare-nyc", "pepper-85-15", 10)
WHOLE_GOWALLA = Source("gowalla-nyc", "pepper-85-15", 10)
TABLE_1 = {"ml-100k": 943, "foursquare-nyc": 1083, "gowalla-nyc-pepper": 718}  # printed: users
TARGET = {"hr@20": 0.793, "hr@10": 0.612, "hr@5": 0.476}  # what PEPPER must reach on the authors' users of MovieLens-100K


def printed(source: Source, model: str, metric: str, table: Mapping[str, tuple[float, float, float]]) -> Paper:
    """What a table printed, as shares."""
    return {
        (str(source), f"{system}-{model}", f"{metric}@{n}"): round(value / 100, 4)
        for system, values in table.items()
        for n, value in zip(sorted(LENGTHS, reverse=True), values, strict=True)
    }


def systems_of(model: str, central: Sequence[str] = CENTRAL) -> list[System]:
    """In the order of the tables, PEPPER last, and the centralised systems below."""
    return [*(System(f"{name}-{model}") for name in (*FEDERATED, *GOSSIP)), *map(System, central)]


def one(study: PepperStudy, model: str, metric: str, paper: Paper) -> Found:
    """A table on one split."""
    found, metrics = Found(), [f"{metric}@{n}" for n in sorted(LENGTHS, reverse=True)]
    systems = study.fitting(systems_of(model), found)
    looks, rounds = study.tested(systems), study.rounds(systems)
    for system in systems:
        values = {name: [look.metrics[name] for look in looks[system]] for name in metrics}
        found.rows.extend(study.rows(system, values, paper, rounds[system]))
    pepper = System(f"pepper-{model}")
    found.tests.extend(against(study.name, looks, pepper, [system for system in systems if system != pepper], metrics))
    found.notes.extend(
        [study.about(), *claims(study.name, model, metrics[1], found.tests), *order(study.name, metrics[1], found.rows)]
    )
    found.notes.extend(target(study, looks) if metric == "hr" else [])
    found.figures[f"{metric}-{study.source.slug}"] = _figure(study, metrics[1], found.rows)
    return found


# ---- findings ----------------------------------------------------------------------------------------------------------------------


def users(study: PepperStudy) -> list[str]:
    """Whose numbers the paper's are, where its authors published fewer users than table 1 has."""
    known, printed = len(study.part("test").rows.users), TABLE_1.get(study.source.data, 0)
    if "given" not in study.source.protocol or known >= printed:
        return []
    seen = (
        " All its hit ratios here are multiples of .001, cut off: those of 100 users with 10 test rows each."
        if known == 100 and printed == 943
        else ""
    )
    return [f"{study.name}: the paper's table 1 has {printed} users; the parts that its authors published have {known}.{seen}"]


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


def order(data: str, metric: str, rows: Sequence[Row]) -> list[str]:
    """How many pairs of systems stand in the paper's order."""
    both = [row for row in rows if row["metric"] == metric and row["paper"] is not None and row["obtained"] is not None]
    pairs = [(a, b) for a, b in combinations(both, 2) if a["paper"] != b["paper"]]
    same = sum((a["paper"] - b["paper"]) * (a["obtained"] - b["obtained"]) > 0 for a, b in pairs)
    listed = ", ".join(f"{row['system']} {row['obtained'] / row['paper']:.2f}" for row in both)
    return (
        [f"{data}, {metric}, ours / paper: {listed}. {same} of {len(pairs)} pairs stand in the paper's order."] if pairs else []
    )


def target(study: PepperStudy, looks: Tested) -> list[str]:
    """Whether PEPPER reaches what it must on MovieLens-100K, and how far it is from iALS."""
    if study.source.data != MOVIELENS.data:
        return []
    ours, ials = (mean_of(looks.get(System(name), ()), TARGET) for name in ("pepper-gmf", "ials"))
    said = []
    if ours and study.source == MOVIELENS:
        met = all(ours[name] >= least for name, least in TARGET.items())
        wanted = " / ".join(f"{least:.3f}" for least in TARGET.values())
        said.append(
            f"{study.name}: PEPPER has to reach HR@20/10/5 {wanted}; it has {_slashed(ours)}: {'reached' if met else 'missed'}."
        )
    if ours and ials:
        gap = {name: ials[name] - ours[name] for name in TARGET}
        said.append(f"{study.name}: centralised iALS has {_slashed(ials)}; PEPPER's distance to it is {_slashed(gap)}.")
    return said


def mean_of(looks: Sequence[Any], metrics: Sequence[str] | Mapping[str, Any]) -> dict[str, float]:
    """Means over seeds; {} without looks."""
    return {name: sum(look.metrics[name] for look in looks) / len(looks) for name in metrics} if looks else {}


def _slashed(values: Mapping[str, float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values.values())


def _figure(study: PepperStudy, metric: str, rows: Sequence[Row]) -> str:
    drawn = [row for row in rows if row["metric"] == metric and row["obtained"] is not None]
    paper = {metric: [float("nan") if row["paper"] is None else row["paper"] for row in drawn]}
    reference = paper if any(row["paper"] is not None for row in drawn) else None
    ours = {metric: [row["obtained"] for row in drawn]}
    return bars([row["system"] for row in drawn], ours, x_label=metric, y_label="", title=study.name, reference=reference)


def _table(model: str, metric: str, paper: Paper, sources: Sequence[Source]) -> Callable[..., Found]:
    return over_sources(lambda study: one(study, model, metric, paper), sources, sources[:1])


TABLES = {
    "pepper-table2": ("hit ratio on Foursquare-NYC, GMF", "gmf", "hr", HR_FOURSQUARE, (FOURSQUARE, WHOLE_FOURSQUARE)),
    "pepper-table3": ("NDCG on Foursquare-NYC, GMF", "gmf", "ndcg", NDCG_FOURSQUARE, (FOURSQUARE, WHOLE_FOURSQUARE)),
    "pepper-table4": ("hit ratio on MovieLens-100K, GMF", "gmf", "hr", HR_MOVIELENS, (MOVIELENS, WHOLE_MOVIELENS)),
    "pepper-table5": ("NDCG on MovieLens-100K, GMF", "gmf", "ndcg", NDCG_MOVIELENS, (MOVIELENS, WHOLE_MOVIELENS)),
    "pepper-table6": ("F1 on Foursquare-NYC, PRME-G", "prme-g", "f1_user", F1_FOURSQUARE, (FOURSQUARE,)),
    "pepper-table7": ("F1 on Gowalla-NYC, PRME-G", "prme-g", "f1_user", F1_GOWALLA, (GOWALLA, WHOLE_GOWALLA)),
}
EXPERIMENTS = {
    name: Experiment(
        f"{title} (PEPPER, table {name[-1]})",
        paper := printed(sources[0], model, metric, table),
        _table(model, metric, paper, sources),
    )
    for name, (title, model, metric, table, sources) in TABLES.items()
}
