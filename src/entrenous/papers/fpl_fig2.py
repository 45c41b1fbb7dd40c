"""FPL, figure 2: F1@10 of the four configurations over pi. The paper's curves are a drawing; table 2 gives their best points."""

from __future__ import annotations

import numpy as np

from ..evaluate.significance import paired_t
from ..report.figures import lines
from .fpl_table2 import BEST_PI, TABLE
from .pi_points import Point, Points, compared_line, lines_of, point_row, points_of
from .result import Experiment, Found
from .studies import over_studies
from .study import Study

METRIC = "f1@10 of means"  # "the harmonic mean between Precision and Recall"


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of two averages; the metric f1@10 is the average of users' harmonic means, another number.

    >>> f1(0.25, 0.75)      # 2 * (1/4 * 3/4) / (1/4 + 3/4)
    0.375
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# of the printed P@10 and R@10, at the printed best pi
PAPER = {
    (f"foursquare-{country.lower()}", f"{system} pi {pi:g}", METRIC): f1(*TABLE[country][system])
    for country, systems in BEST_PI.items()
    for system, pi in systems.items()
}


def one(study: Study) -> Found:
    """A line for each configuration, under both readings of the epoch."""
    points = points_of(study)
    rows = [point_row(study, system, point, METRIC, f1_of(point), PAPER) for system, mine in points.items() for point in mine]
    return Found(rows=rows, notes=_notes(study, points), figures={f"f1-{study.data.name}": _figure(study, points)})


def f1_of(point: Point) -> float:
    """METRIC of a point."""
    return f1(point.look.metrics["precision@10"], point.look.metrics["recall@10"])


def _notes(study: Study, points: Points) -> list[str]:
    """Where each line has its top, and whether sharing little differs from sharing everything."""
    drawn = {name: mine for name, mine in lines_of(points).items() if len(mine) > 1}
    tops = {name: max(mine, key=f1_of) for name, mine in drawn.items()}
    said = [f"{name} {f1_of(top):.4f} at {top.pi:g}" for name, top in tops.items()]
    inside = sum(top.pi < drawn[name][-1].pi for name, top in tops.items())
    nothing = [f1_of(point) for mine in points.values() for point in mine if point.pi == 0]
    ends = [f"{name} {_ends(mine[0], mine[-1])}" for name, mine in drawn.items()]
    return [
        f"{study.data.name}, the top of each line over pi > 0, read off the test rows and used for no choice: {'; '.join(said)}. "
        f"{inside} of {len(said)} lines have it below their largest pi; the paper says that the best is rarely at pi = 1.",
        f"{study.data.name}, sharing little against sharing most (F1; P@10 by a paired t-test): {'; '.join(ends)}. "
        f"Sharing nothing (pi = 0): F1 at most {max(nothing, default=0):.4f}.",
    ]


def _ends(little: Point, most: Point) -> str:
    p = paired_t(*(np.array(point.look.per_user["precision@10"]) for point in (little, most))).p
    return f"{f1_of(little):.4f} at {little.pi:g}, {f1_of(most):.4f} at {most.pi:g} (p = {p:.2g})"


def _figure(study: Study, points: Points) -> str:
    series = {name: ([point.pi for point in mine], [f1_of(point) for point in mine]) for name, mine in lines_of(points).items()}
    printed = BEST_PI.get(study.country, {})
    reference = {compared_line(name): ([pi], [f1(*TABLE[study.country][name])]) for name, pi in printed.items()}
    reference = {name: at for name, at in reference.items() if name in series}
    return lines(series, x_label="pi", y_label="F1@10", title=f"Figure 2: {study.data.name}", reference=reference)


EXPERIMENTS = {"fpl-fig2": Experiment("F1 over pi (FPL, figure 2)", PAPER, over_studies(one))}
