"""FPL, tables 2 and 3: accuracy (P@10, R@10) and diversity (IC@10, Gini@10: higher = more equal) of every system on three countries."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from ..report.figures import bars
from .between_systems import tested_pairs
from .countries import countries
from .fpl_findings import (
    agreement,
    epochs_note,
    fcf_note,
    order_note,
    pi_note,
    protocol_note,
    significance_note,
    system_of,
)
from .fpl_search import rows_of_metrics, searched, twin
from .fpl_training_gain import training_gain
from .result import Row
from .study import System
from .table import PaperTable, Trained
from .values import printed

ACCURACY, DIVERSITY = ("precision@10", "recall@10"), ("item_coverage@10", "gini@10")
TABLE_2, TABLE_3 = printed("fpl", "table2"), printed("fpl", "table3")
BEST_PI = {(data, system): pi for (data, system, _), pi in printed("fpl", "best-pi").items()}  # of each FPL row


# ---- table 2 -------------------------------------------------------------------------------------------------------------------------


def accuracy_rows(trained: Trained) -> list[Row]:
    """Every system with the settings that validation chose, and systems on equal numbers of triples."""
    return [*rows_of_metrics(trained, ACCURACY, TABLE_2), *training_gain(trained).rows]


def pairwise_tests(trained: Trained) -> list[dict[str, Any]]:
    """Student's paired t-test over users for each pair of systems and metric, with Holm's correction over the pairs of a metric.

    sfpl and pfpl appear once, since both readings are one training.
    """
    once = [system for system, looks in trained.looks.items() if looks and not twin(system)]
    return tested_pairs(trained.name, trained.looks, list(combinations(once, 2)), ACCURACY)


def accuracy_note(trained: Trained) -> list[str]:
    """P@10 beside the paper's."""
    return agreement(trained.rows, ACCURACY[0], over_top_pop=True)


def _accuracy_figure(trained: Trained) -> dict[str, str]:
    rows = trained.rows[: len(trained.systems) * len(ACCURACY)]
    some = [row for row in rows if row["metric"] == ACCURACY[0] and row["obtained"] is not None and not twin(system_of(row))]
    paper = {"P@10": [float("nan") if row["paper"] is None else row["paper"] for row in some]}
    ours, names = {"P@10": [row["obtained"] for row in some]}, [str(system_of(row)) for row in some]
    title = f"Table 2: {trained.name}"
    return {f"precision-{trained.name}": bars(names, ours, x_label="P@10", y_label="", title=title, reference=paper)}


# ---- table 3 -------------------------------------------------------------------------------------------------------------------------


def diversity_note(trained: Trained) -> list[str]:
    """IC@10 and Gini@10 beside the paper's."""
    return [note for metric in DIVERSITY for note in agreement(trained.rows, metric)]


def computation_note(trained: Trained) -> list[str]:
    """Section 6.2: "an increase in IC and Gini in accord with the increase of local computation"."""
    systems = (System("pfpl", reading="printed"), System("pfpl+", reading="printed"), System("pfpl+", reading="run"))
    coverage = [look.metrics[DIVERSITY[0]] for system in systems for look in trained.looks.get(system, ())]
    if len(coverage) < len(systems):
        return []
    single, plus, run = coverage
    training = "It is the longer training that widens the lists"
    grows = training if run - plus > plus - single else "The local computation widens the lists"
    return [
        f"{trained.name}: the paper sees coverage grow with local computation. pFPL recommends {single:.0f} items, pFPL+ with epochs "
        f"as printed {plus:.0f}, pFPL+ as run {run:.0f}. {grows if run > single else 'That is not seen here'}."
    ]


EXPERIMENTS = {
    "fpl-table2": PaperTable(
        title="accuracy of the baselines and of FPL (FPL, table 2)",
        data=countries,
        train=searched,
        metrics=ACCURACY,
        printed=TABLE_2,
        rows=accuracy_rows,
        tests=pairwise_tests,
        findings=(
            protocol_note,
            accuracy_note,
            order_note,
            lambda trained: training_gain(trained).notes,
            fcf_note,
            significance_note,
            pi_note,
            epochs_note,
        ),
        figures=_accuracy_figure,
    ),
    "fpl-table3": PaperTable(
        title="diversity of the baselines and of FPL (FPL, table 3)",
        data=countries,
        train=searched,
        metrics=DIVERSITY,
        printed=TABLE_3,
        rows=lambda trained: rows_of_metrics(trained, DIVERSITY, TABLE_3),
        findings=(protocol_note, diversity_note, computation_note),
    ),
}
