"""FPL, figures 2 and 3: F1@10 of the four configurations over pi, and item coverage against precision as pi grows.

The paper's curves are drawings; tables 2 and 3 give their best points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..evaluate.significance import paired_t
from ..report.figures import lines, scatter
from .cell import CurvePoint
from .fpl_accuracy import BEST_PI, TABLE_2, TABLE_3
from .fpl_grid import PRINTED, RUN
from .fpl_search import FPL_SYSTEMS, Chosen, Search, twin
from .opened import countries
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained
from .values import Printed

METRIC = "f1@10 of means"  # "the harmonic mean between Precision and Recall"
PATH = ("item_coverage@10", "precision@10")
NAMES = {"sfpl": "sFPL", "sfpl+": "sFPL+", "pfpl": "pFPL", "pfpl+": "pFPL+"}


class Point(NamedTuple):
    """One training: its pi and other settings, and what it scored on the test rows."""

    pi: float
    chosen: Chosen
    look: CurvePoint


Points = Mapping[System, list[Point]]


def swept(study: Study, systems: Sequence[System]) -> Trained:
    """The `train` of tables over pi; `more` is (the Search, the points of each configuration and reading by ascending pi).

    Points that diverged are not among them.
    """
    search = Search(study)
    sweeps = {system: sorted(search.sweeps[system].items()) for system in FPL_SYSTEMS}
    looks = iter(search.test_looks([chosen for sweep in sweeps.values() for _, chosen in sweep]))
    every = {system: [(pi, chosen, next(looks)) for pi, chosen in sweep] for system, sweep in sweeps.items()}
    points = {
        system: [Point(pi, chosen, look) for pi, chosen, look in sweep if look is not None] for system, sweep in every.items()
    }
    return Trained(study=study, systems=FPL_SYSTEMS, more=(search, points))


def points_of(trained: Trained) -> Points:
    """The points of each configuration and reading."""
    points: Points = trained.more[1]
    return points


def point_rows(trained: Trained, values: Callable[[System, Point], Mapping[str, float]], paper: Printed) -> list[Row]:
    """A row for each configuration, reading of the epoch, pi and value; the paper's numbers are under `SYSTEM pi PI`."""
    search: Search = trained.more[0]
    return [
        search.row(
            system,
            point.chosen,
            metric,
            paper=paper.get((trained.name, f"{system.algorithm} pi {point.pi:g}", metric)),
            obtained=value,
        )
        for system, mine in points_of(trained).items()
        for point in mine
        for metric, value in values(system, point).items()
    ]


def lines_of(points: Points) -> dict[str, list[Point]]:
    """{name in a figure: points with pi > 0}, as the paper draws them; with T = 1 both readings are one line."""
    lines = {name_of(system): [point for point in mine if point.pi > 0] for system, mine in points.items() if not twin(system)}
    return {name: mine for name, mine in lines.items() if mine}


def name_of(system: System) -> str:
    """The label of a configuration in a figure, such as `pFPL` or `pFPL+ (run)`."""
    name = NAMES[system.algorithm]
    return f"{name} ({system.reading})" if system.algorithm.endswith("+") else name


def compared_line(name: str) -> str:
    """The line that a printed point stands beside: of FPL+ the epoch as run, as the authors' program has it."""
    return name_of(System(name, reading=RUN if name.endswith("+") else PRINTED))


# ---- figure 2 ------------------------------------------------------------------------------------------------------------------------


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
    """F1 of each configuration, reading of the epoch and pi."""
    return point_rows(trained, lambda _, point: {METRIC: f1_of(point)}, PRINTED_F1)


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


def marked(trained: Trained, drawn: Mapping[str, list[Point]]) -> dict[str, tuple[str, float]]:
    """{a line that is drawn: what the paper printed of it is stored under, and the pi of it}."""
    printed = {
        compared_line(system): (f"{system} pi {pi:g}", pi) for (data, system), pi in BEST_PI.items() if data == trained.name
    }
    return {line: at for line, at in printed.items() if line in drawn}


def f1_figure(trained: Trained) -> dict[str, str]:
    """The figure of F1 over pi, one curve for each configuration, as SVG."""
    drawn, name = lines_of(points_of(trained)), trained.name
    series = {line: ([point.pi for point in mine], [f1_of(point) for point in mine]) for line, mine in drawn.items()}
    reference = {line: ([pi], [PRINTED_F1[name, stored, METRIC]]) for line, (stored, pi) in marked(trained, drawn).items()}
    return {f"f1-{name}": lines(series, x_label="pi", y_label="F1@10", title=f"Figure 2: {name}", reference=reference)}


# ---- figure 3 ------------------------------------------------------------------------------------------------------------------------


def path_rows(trained: Trained) -> list[Row]:
    """Item coverage and precision of each configuration, reading and pi."""
    return point_rows(trained, lambda _, point: {metric: point.look.metrics[metric] for metric in PATH}, PRINTED_PATH)


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
    drawn, name = lines_of(points_of(trained)), trained.name
    series = {line: (_column(mine, PATH[0]), _column(mine, PATH[1])) for line, mine in drawn.items()}
    at = {line: [PRINTED_PATH[name, stored, metric] for metric in PATH] for line, (stored, _) in marked(trained, drawn).items()}
    reference = {line: (coverage, precision) for line, (coverage, precision) in at.items()}
    title, labels = f"Figure 3: {name}, pi up to 1 (white)", {"x_label": "IC@10, items recommended", "y_label": "P@10"}
    return {f"coverage-precision-{name}": scatter(series, title=title, reference=reference, joined=True, **labels)}


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
