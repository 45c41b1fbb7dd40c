"""FPL, table 2: precision and recall at 10 of every system on Brazil, Canada and Italy."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from ..evaluate.significance import holm, paired_t
from ..report.figures import bars
from .cell import Look
from .findings import absent, agreement, epochs_note, fcf_note, pi_note, protocol_note, significance_note
from .order_control import order_control
from .result import Experiment, Found, Row
from .studies import over_studies
from .study import Study, System
from .system_rows import system_rows
from .training_gain import training_gain

METRICS = ("precision@10", "recall@10")
# printed: P@10 and R@10, by country
TABLE = {
    "Brazil": {
        "random": (0.00013, 0.00015),
        "popular": (0.01909, 0.02375),
        "user-knn": (0.10600, 0.13480),
        "item-knn": (0.07716, 0.09607),
        "vae": (0.10320, 0.13153),
        "bpr-mf": (0.07702, 0.09494),
        "fcf": (0.03089, 0.03749),
        "sfpl": (0.07757, 0.09581),
        "sfpl+": (0.08682, 0.11004),
        "pfpl": (0.07771, 0.09582),
        "pfpl+": (0.08733, 0.11085),
    },
    "Canada": {
        "random": (0.00030, 0.00035),
        "popular": (0.04239, 0.04679),
        "user-knn": (0.07639, 0.07533),
        "item-knn": (0.04006, 0.03881),
        "vae": (0.06060, 0.06317),
        "bpr-mf": (0.03694, 0.03650),
        "fcf": (0.03724, 0.03836),
        "sfpl": (0.04515, 0.04550),
        "sfpl+": (0.05701, 0.05665),
        "pfpl": (0.04582, 0.04637),
        "pfpl+": (0.05761, 0.05755),
    },
    "Italy": {
        "random": (0.00030, 0.00029),
        "popular": (0.04634, 0.05506),
        "user-knn": (0.06881, 0.07833),
        "item-knn": (0.04663, 0.05356),
        "vae": (0.10421, 0.21324),  # not for all users: weighted as in Mesas & Bellogin (2017)
        "bpr-mf": (0.04560, 0.05458),
        "fcf": (0.03126, 0.03708),  # the authors' own version: `fcf-huawei` here
        "sfpl": (0.04701, 0.05600),
        "sfpl+": (0.05595, 0.06229),
        "pfpl": (0.04642, 0.05465),
        "pfpl+": (0.05565, 0.06291),
    },
}
# printed below the tables: the pi of each FPL row
BEST_PI = {
    "Brazil": {"sfpl": 0.5, "sfpl+": 0.9, "pfpl": 0.8, "pfpl+": 0.8},
    "Canada": {"sfpl": 0.1, "sfpl+": 0.4, "pfpl": 0.1, "pfpl+": 0.3},
    "Italy": {"sfpl": 0.4, "sfpl+": 0.2, "pfpl": 1.0, "pfpl+": 0.1},
}
PAPER = {
    (f"foursquare-{country.lower()}", system, metric): value
    for country, systems in TABLE.items()
    for system, values in systems.items()
    for metric, value in zip(METRICS, values, strict=True)
}


def one(study: Study) -> Found:
    """Every system with the settings that validation chose, and what explains the differences."""
    looks = study.tested()
    rows, tests, gain = system_rows(study, looks, METRICS, PAPER), pairwise_tests(study, looks), training_gain(study, looks)
    notes = [
        *protocol_note(study),
        *absent(study, looks),
        *agreement(rows, METRICS[0], over_top_pop=True),
        *order_control(study, PAPER.get((study.data.name, "popular", METRICS[0]))),
        *gain.notes,
        *fcf_note(study, rows),
        *significance_note(study, tests),
        *pi_note(study),
        *epochs_note(study),
    ]
    figures = {f"precision-{study.data.name}": _figure(study, rows)}
    return Found(rows=[*rows, *gain.rows], notes=notes, figures=figures, tests=tests)


def pairwise_tests(study: Study, looks: Mapping[System, Look | None]) -> list[dict[str, Any]]:
    """Student's paired t-test over users for each pair of systems and metric, with Holm's correction over the pairs of a metric.

    sfpl and pfpl appear once, since both readings are one training. t: None where all differences are equal and not 0.
    """
    users: Mapping[str, Mapping[str, Any]] = {
        str(system): look.per_user for system, look in looks.items() if look is not None and not system.twin
    }
    tests: list[dict[str, Any]] = []
    for metric in METRICS:
        found = [(a, b, paired_t(users[a][metric], users[b][metric])) for a, b in combinations(users, 2)]
        for (a, b, test), adjusted in zip(found, holm([test.p for _, _, test in found]), strict=True):
            t = test.statistic if abs(test.statistic) < float("inf") else None
            measured = {"difference": test.difference, "t": t, "p": test.p, "p_holm": float(adjusted), "users": test.pairs}
            tests.append({"data": study.data.name, "a": a, "b": b, "metric": metric, **measured})
    return tests


def _figure(study: Study, rows: list[Row]) -> str:
    drawn = {
        str(system): row
        for row in rows
        if row["metric"] == METRICS[0]
        and row["obtained"] is not None
        and not (system := System(row["system"], row["reading"])).twin
    }
    paper = {"P@10": [float("nan") if row["paper"] is None else row["paper"] for row in drawn.values()]}
    ours = {"P@10": [row["obtained"] for row in drawn.values()]}
    return bars(list(drawn), ours, x_label="P@10", y_label="", title=f"Table 2: {study.data.name}", reference=paper)


EXPERIMENTS = {"fpl-table2": Experiment("accuracy of the baselines and of FPL (FPL, table 2)", PAPER, over_studies(one))}
