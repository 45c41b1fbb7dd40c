"""Reptile around a server as PEPPER's tables have it: with the fine-tuning on the device that makes
it Reptile (section 5.4.1), and without.

The search of settings behind the stored tables 2 to 5 had no epoch of adaptation among its choices
and chose it; without one, Reptile is FedAvg with equal weights. Settings here were searched among
those that adapt (`tuned/pepper.toml`); "adapt_epochs 0" has the same settings without adaptation.
"""

from __future__ import annotations

from typing import Any

from .findings import against
from .opened import pepper
from .pepper_accuracy import FOURSQUARE, MOVIELENS
from .study import System
from .table import PaperTable, Trained
from .values import printed

REPTILE = System("reptile-gmf")
WITHOUT = REPTILE.replaced(adapt_epochs=0)
SYSTEMS = (REPTILE, WITHOUT, System("fedavg-gmf"), System("pepper-gmf"))
METRICS = tuple(f"{metric}@{n}" for metric in ("hr", "ndcg") for n in (20, 10, 5))


def tests_of(trained: Trained) -> list[dict[str, Any]]:
    """Returns Reptile against each other system."""
    others = [system for system in trained.systems if system != REPTILE]
    return against(trained, REPTILE, others, METRICS)


def notes_of(trained: Trained) -> list[str]:
    """Returns a sentence on the settings of both rows of Reptile."""
    return [
        "Reptile's settings were searched among those that adapt; the row without adaptation has"
        " the same settings otherwise."
    ]


EXPERIMENTS = {
    "pepper-reptile": PaperTable(
        title="Reptile with and without adaptation (PEPPER, tables 2 to 5)",
        data=pepper(MOVIELENS, FOURSQUARE),
        systems=SYSTEMS,
        metrics=METRICS,
        printed=printed("pepper", "table2", "table3", "table4", "table5"),
        tests=tests_of,
        findings=(notes_of,),
    )
}
