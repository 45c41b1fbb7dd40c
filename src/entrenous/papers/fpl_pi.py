"""FPL, figures 2 and 3: F1@10 of the four configurations over pi, and item coverage against precision as pi grows.

The paper's curves are drawings; tables 2 and 3 give their best points.
"""

from __future__ import annotations

import numpy as np

from ..evaluate.significance import paired_t
from ..report.figures import lines, scatter
from .countries import countries
from .fpl_accuracy import BEST_PI, TABLE_2, TABLE_3
from .fpl_points import Point, compared_line, lines_of, point_row, points_of, swept
from .result import Row
from .table import PaperTable, Trained

METRIC = "f1@10 of means"  # "the harmonic mean between Precision and Recall"
PATH = ("item_coverage@10", "precision@10")


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of two averages; the metric f1@10 is the average of users' harmonic means, another number.

    >>> f1(0.25, 0.75)      # 2 * (1/4 * 3/4) / (1/4 + 3/4)
    0.375
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# of the printed P@10 and R@10, and the printed pair of coverage and precision, at the printed best pi
PRINTED_F1 = {
    (data, f"{system} pi {pi:g}", METRIC): f1(TABLE_2[data, system, "precision@10"], TABLE_2[data, system, "recall@10"])
    for (data, system), pi in BEST_PI.items()
}
PRINTED_PATH = {
    (data, f"{system} pi {pi:g}", metric): (TABLE_2 | TABLE_3)[data, system, metric]
    for (data, system), pi in BEST_PI.items()
    for metric in PATH
}


def f1_of(point: Point) -> float:
    """METRIC of a point."""
    return f1(point.look.metrics["precision@10"], point.look.metrics["recall@10"])


def f1_rows(trained: Trained) -> list[Row]:
    """A row for each configuration, reading of the epoch and pi."""
    points = points_of(trained).items()
    return [point_row(trained, system, point, METRIC, f1_of(point), PRINTED_F1) for system, mine in points for point in mine]


def f1_notes(trained: Trained) -> list[str]:
    """Where each line has its top, and whether sharing little differs from sharing everything."""
    points = points_of(trained)
    drawn = {name: mine for name, mine in lines_of(points).items() if len(mine) > 1}
    tops = {name: max(mine, key=f1_of) for name, mine in drawn.items()}
    said = [f"{name} {f1_of(top):.4f} at {top.pi:g}" for name, top in tops.items()]
    inside = sum(top.pi < drawn[name][-1].pi for name, top in tops.items())
    nothing = [f1_of(point) for mine in points.values() for point in mine if point.pi == 0]
    ends = [f"{name} {_ends(mine[0], mine[-1])}" for name, mine in drawn.items()]
    return [
        f"{trained.name}, the top of each line over pi > 0, read off the test rows and used for no choice: {'; '.join(said)}. "
        f"{inside} of {len(said)} lines have it below their largest pi; the paper says that the best is rarely at pi = 1.",
        f"{trained.name}, sharing little against sharing most (F1; P@10 by a paired t-test): {'; '.join(ends)}. "
        f"Sharing nothing (pi = 0): F1 at most {max(nothing, default=0):.4f}.",
    ]


def _ends(little: Point, most: Point) -> str:
    p = paired_t(*(np.array(point.look.per_user["precision@10"]) for point in (little, most))).p
    return f"{f1_of(little):.4f} at {little.pi:g}, {f1_of(most):.4f} at {most.pi:g} (p = {p:.2g})"


def _best(trained: Trained) -> dict[str, float]:
    """The printed best pi of each configuration."""
    return {system: pi for (data, system), pi in BEST_PI.items() if data == trained.name}


def f1_figure(trained: Trained) -> dict[str, str]:
    """F1 over pi."""
    drawn = lines_of(points_of(trained))
    series = {name: ([point.pi for point in mine], [f1_of(point) for point in mine]) for name, mine in drawn.items()}
    at = {system: (pi, PRINTED_F1[trained.name, f"{system} pi {pi:g}", METRIC]) for system, pi in _best(trained).items()}
    reference = {compared_line(name): ([pi], [value]) for name, (pi, value) in at.items() if compared_line(name) in series}
    drawing = lines(series, x_label="pi", y_label="F1@10", title=f"Figure 2: {trained.name}", reference=reference)
    return {f"f1-{trained.name}": drawing}


# ---- figure 3 ------------------------------------------------------------------------------------------------------------------------


def path_rows(trained: Trained) -> list[Row]:
    """Item coverage and precision of each configuration, reading and pi."""
    return [
        point_row(trained, system, point, metric, point.look.metrics[metric], PRINTED_PATH)
        for system, mine in points_of(trained).items()
        for point in mine
        for metric in PATH
    ]


def _column(mine: list[Point], metric: str) -> list[float]:
    return [point.look.metrics[metric] for point in mine]


def path_note(trained: Trained) -> list[str]:
    """How far each path reaches in both directions."""
    said = []
    for name, mine in lines_of(points_of(trained)).items():
        coverage, precision = (_column(mine, metric) for metric in PATH)
        reach = f"{min(coverage):.0f} to {max(coverage):.0f} items, P@10 {min(precision):.4f} to {max(precision):.4f}"
        said.append(f"{name} {reach}")
    return [f"{trained.name}, the reach of each path over pi > 0: {'; '.join(said)}."]


def path_figure(trained: Trained) -> dict[str, str]:
    """The paths, joined by ascending pi."""
    drawn = lines_of(points_of(trained))
    series = {name: (_column(mine, PATH[0]), _column(mine, PATH[1])) for name, mine in drawn.items()}
    at = {s: [PRINTED_PATH[trained.name, f"{s} pi {pi:g}", metric] for metric in PATH] for s, pi in _best(trained).items()}
    reference = {compared_line(name): (pair[0], pair[1]) for name, pair in at.items() if compared_line(name) in series}
    title, labels = f"Figure 3: {trained.name}, pi up to 1 (white)", {"x_label": "IC@10, items recommended", "y_label": "P@10"}
    drawing = scatter(series, title=title, reference=reference, joined=True, **labels)
    return {f"coverage-precision-{trained.name}": drawing}


EXPERIMENTS = {
    "fpl-fig2": PaperTable(
        title="F1 over pi (FPL, figure 2)",
        data=countries,
        train=swept,
        metrics=(METRIC,),
        printed=PRINTED_F1,
        rows=f1_rows,
        findings=(f1_notes,),
        figures=f1_figure,
    ),
    "fpl-fig3": PaperTable(
        title="item coverage against precision over pi (FPL, figure 3)",
        data=countries,
        train=swept,
        metrics=PATH,
        printed=PRINTED_PATH,
        rows=path_rows,
        findings=(path_note,),
        figures=path_figure,
    ),
}
