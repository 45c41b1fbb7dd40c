"""FPL, table 3: how many different items are recommended (IC@10) and how equally (Gini@10, higher = more equal)."""

from __future__ import annotations

from collections.abc import Mapping

from .cell import Look
from .findings import absent, agreement, protocol_note
from .result import Experiment, Found
from .studies import over_studies
from .study import Study, System
from .system_rows import system_rows

METRICS = ("item_coverage@10", "gini@10")
# printed: IC@10 and G@10, by country
TABLE = {
    "Brazil": {
        "random": (46120, 0.70946),
        "popular": (19, 0.00020),
        "user-knn": (3083, 0.01159),
        "item-knn": (16535, 0.07449),
        "vae": (5503, 0.02117),
        "bpr-mf": (2552, 0.00756),
        "fcf": (911, 0.00095),
        "sfpl": (1581, 0.00561),
        "sfpl+": (5200, 0.01449),
        "pfpl": (2114, 0.00638),
        "pfpl+": (3820, 0.01106),
    },
    "Canada": {
        "random": (10815, 0.26809),
        "popular": (18, 0.00030),
        "user-knn": (609, 0.00321),
        "item-knn": (4393, 0.05404),
        "vae": (1044, 0.00652),
        "bpr-mf": (1216, 0.00998),
        "fcf": (504, 0.00174),
        "sfpl": (451, 0.00243),
        "sfpl+": (1510, 0.01259),
        "pfpl": (425, 0.00213),
        "pfpl+": (1214, 0.00981),
    },
    "Italy": {
        "random": (10478, 0.28914),
        "popular": (19, 0.00035),
        "user-knn": (577, 0.00282),
        "item-knn": (3241, 0.03293),
        "vae": (165, 0.02336),
        "bpr-mf": (19, 0.00036),
        "fcf": (403, 0.00158),
        "sfpl": (18, 0.00036),
        "sfpl+": (932, 0.00789),
        "pfpl": (96, 0.00056),
        "pfpl+": (936, 0.00725),
    },
}
PAPER = {
    (f"foursquare-{country.lower()}", system, metric): float(value)
    for country, systems in TABLE.items()
    for system, values in systems.items()
    for metric, value in zip(METRICS, values, strict=True)
}


def one(study: Study) -> Found:
    """The runs of table 2, read for diversity."""
    looks = study.tested()
    rows = system_rows(study, looks, METRICS, PAPER)
    agreed = [note for metric in METRICS for note in agreement(rows, metric)]
    return Found(rows=rows, notes=[*protocol_note(study), *absent(study, looks), *agreed, *_computation(study, looks)])


def _computation(study: Study, looks: Mapping[System, Look | None]) -> list[str]:
    """Section 6.2: "an increase in IC and Gini in accord with the increase of local computation"."""
    systems = (System("pfpl", "printed"), System("pfpl+", "printed"), System("pfpl+", "run"))
    coverage = [look.metrics[METRICS[0]] for look in map(looks.get, systems) if look is not None]
    if len(coverage) < len(systems):
        return []
    one, plus, run = coverage
    grows = (
        "It is the longer training that widens the lists" if run - plus > plus - one else "The local computation widens the lists"
    )
    return [
        f"{study.data.name}: the paper sees coverage grow with local computation. pFPL recommends {one:.0f} items, pFPL+ "
        "with epochs "
        f"as printed {plus:.0f}, pFPL+ as run {run:.0f}. {grows if run > one else 'That is not seen here'}."
    ]


EXPERIMENTS = {"fpl-table3": Experiment("diversity of the baselines and of FPL (FPL, table 3)", PAPER, over_studies(one))}
