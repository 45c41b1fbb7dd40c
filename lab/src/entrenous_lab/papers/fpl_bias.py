"""FPL, tables 5 and 6: how biased users are towards categories of venues, and how far
recommendations move that bias (eq. 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from entrenous.evaluation.metric_kinds import Lists
from entrenous.evaluation.metrics.defined import source_bias
from entrenous.evaluation.protocol import categories
from entrenous.report.figures import FigureFormat, bars

from .cell import CurvePoint
from .fpl_accuracy import AS_RUN, protocol_note
from .fpl_search import row_of, searched, twin
from .opened import countries
from .result import Row, row
from .study import Study, System
from .table import PaperTable, Trained
from .values import listed, printed, stored, worded

CATEGORIES = stored("printed", "fpl")["table5"]["categories"]  # {short name: the one in the data}
SOURCE = "source bias"
PAPER = printed("fpl", "table5", "table6")
SHOWN = (System("popular"), System("bpr-mf"), AS_RUN)  # in the figure


def bias_rows(trained: Trained) -> list[Row]:
    """B_T of the training rows, and BD of every system of table 2; none without categories."""
    bias = source_rows(trained.study)
    return [*bias, *disparity_rows(trained, bias)] if bias else []


def source_rows(study: Study) -> list[Row]:
    """B_T of each category; none without categories. A category that the paper has no short name
    for keeps its own.
    """
    rows, data = study.part("test").rows, study.name
    nobody = np.empty(0, np.int64)
    lists = Lists(
        np.empty((0, 1), np.int32), nobody, rows.popularity > 0, rows.popularity, *categories(rows)
    )
    said = (
        f"{data}: share of training rows in the category / its share of the items with a training"
        " row (eq. 10)"
    )
    named = {f"B_T {short(name)}": value for name, value in (source_bias(lists) or {}).items()}
    return [
        row(
            data,
            SOURCE,
            metric,
            paper=PAPER.get((data, SOURCE, metric)),
            obtained=value,
            protocol=said,
        )
        for metric, value in named.items()
    ]


def disparity_rows(trained: Trained, bias: list[Row]) -> list[Row]:
    """BD@10 of every system and category. PaperTable 6 is of Brazil, so only Brazil's rows have a
    paper's number.
    """
    rows, metrics = [], [row["metric"].replace("B_T", "BD") for row in bias]
    for system in trained.looks:
        each = disparities_of(trained.looks[system])
        rows += [
            row_of(trained, system, metric, [of[metric] for of in each if metric in of], PAPER)
            for metric in metrics
        ]
    return [
        {name: value for name, value in row.items() if name not in ("pi", "settings", "epochs")}
        for row in rows
    ]


def disparities_of(looks: Sequence[CurvePoint]) -> list[dict[str, float]]:
    """BD@10 of each category, named as in table 6, once a seed; empty without categories."""
    return [
        {f"BD {short(name)}": value for name, value in named.items()}
        for look in looks
        if (named := look.by_category.get("bias_disparity@10"))
    ]


def disparities(trained: Trained, system: System) -> list[Mapping[str, float]]:
    """BD@10 by category, once a seed."""
    return [look.by_category["bias_disparity@10"] for look in trained.looks[system]]


def disparity(trained: Trained, system: System) -> dict[str, float]:
    """BD@10 by category, mean over seeds."""
    each = disparities(trained, system)
    return {name: float(np.mean([of[name] for of in each])) for name in (each[0] if each else ())}


def short(name: str) -> str:
    """The paper's short name of a category.

    >>> short("Nightlife Spot"), short("Event")
    ('NS', 'Event')
    """
    return next((abbreviation for abbreviation, long in CATEGORIES.items() if long == name), name)


def bias_notes(trained: Trained) -> list[str]:
    """B_T against table 5, and who is least biased; or that there are no categories."""
    if not trained.rows:
        return [worded("fpl", "no-categories", name=trained.name)]
    said = protocol_note(trained)
    both = [
        (row["paper"], row["obtained"])
        for row in trained.rows
        if row["system"] == SOURCE and row["paper"] is not None
    ]
    if both:
        sides = sum((paper > 1) == (ours > 1) for paper, ours in both)
        off = np.mean([abs(paper - ours) for paper, ours in both])
        said.append(
            worded("fpl", "source-bias", name=trained.name, sides=sides, several=len(both), off=off)
        )
    once = [system for system, looks in trained.looks.items() if looks and not twin(system)]
    size = {
        str(system): float(np.mean(np.abs(list(disparity(trained, system).values()))))
        for system in once
    }
    least = listed(dict(sorted(size.items(), key=lambda entry: entry[1])), ".2f")
    return [*said, worded("fpl", "disparity", name=trained.name, listed=least)]


def _figure(trained: Trained) -> dict[str, str]:
    if not trained.rows:
        return {}
    of = {str(system): disparity(trained, system) for system in SHOWN if trained.looks[system]}
    names = list(of[str(SHOWN[0])])
    series = {system: [values[name] for name in names] for system, values in of.items()}
    drawn = bars(
        [short(name) for name in names],
        series,
        FigureFormat(title=f"Table 6: {trained.name}", x_label="BD@10", y_label=""),
    )
    return {f"bias-disparity-{trained.name}": drawn}


EXPERIMENTS = {
    "fpl-table6": PaperTable(
        title="bias disparity by category (FPL, tables 5 and 6)",
        data=countries,
        train=searched,
        printed=PAPER,
        rows=bias_rows,
        findings=(bias_notes,),
        figures=_figure,
    )
}
