"""FPL, figures 2 and 3: F1@10 of the four configurations over pi, and item coverage against
precision as pi grows.

The paper's curves are drawings; tables 2 and 3 give their best points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from entrenous.evaluation.chance import difference
from entrenous.report.figures import FigureFormat, lines, scatter

from .cell import CurvePoint
from .effort import PRINTED, RUN
from .findings import users_of
from .fpl_accuracy import BEST_PI, TABLE_2, TABLE_3
from .fpl_search import FPL_SYSTEMS, Chosen, Search, twin
from .measures import mean
from .opened import countries
from .result import Row
from .study import Study, System
from .table import PaperTable, Trained
from .values import Printed, worded

METRIC = "f1@10 of means"  # "the harmonic mean between Precision and Recall"
PATH = COVERAGE, PRECISION = ("item_coverage@10", "precision@10")
RECALL = "recall@10"
NAMES = {"sfpl": "sFPL", "sfpl+": "sFPL+", "pfpl": "pFPL", "pfpl+": "pFPL+"}


class Point(NamedTuple):
    """One choice of settings: its pi and the others, and what it scored on the test rows, once a
    seed.
    """

    pi: float
    chosen: Chosen
    looks: Sequence[CurvePoint]

    def mean(self, metric: str) -> float:
        """A metric, mean over seeds."""
        return mean(self.looks, metric)


Points = Mapping[System, list[Point]]
PointValues = Callable[
    [System, Point, CurvePoint], Mapping[str, float]
]  # of one training, by metric


def swept(study: Study, systems: Sequence[System]) -> Trained:
    """The `train` of tables over pi; `more` is (the Search, the points of each configuration and
    reading by ascending pi).

    Points that diverged are not among them.
    """
    search, points = Search(study), dict[System, list[Point]]()
    sweeps = {system: sorted(search.sweeps[system].items()) for system in FPL_SYSTEMS}
    looks = iter(search.test_looks([chosen for sweep in sweeps.values() for _, chosen in sweep]))
    for system, sweep in sweeps.items():
        points[system] = [Point(pi, chosen, some) for pi, chosen in sweep if (some := next(looks))]
    return Trained(study=study, systems=FPL_SYSTEMS, more=(search, points))


def point_rows(trained: Trained, values: PointValues, paper: Printed) -> list[Row]:
    """A row for each configuration, reading of the epoch, pi and value; the paper's numbers are
    under `SYSTEM pi PI`.
    """
    search, points = trained.more
    rows = []
    for system, mine in points.items():
        for point in mine:
            where = f"{system.algorithm} pi {point.pi:g}"
            each = [values(system, point, look) for look in point.looks]
            for metric in each[0]:
                of = [one[metric] for one in each]
                rows.append(
                    search.row(
                        system, point.chosen, metric, of, paper.get((trained.name, where, metric))
                    )
                )
    return rows


def lines_of(trained: Trained) -> dict[str, list[Point]]:
    """{name in a figure: points with pi > 0}, as the paper draws them; with T = 1 both readings are
    one line.
    """
    points: Points = trained.more[1]
    lines = {
        name_of(system): [point for point in mine if point.pi > 0]
        for system, mine in points.items()
        if not twin(system)
    }
    return {name: mine for name, mine in lines.items() if mine}


def name_of(system: System) -> str:
    """The label of a configuration in a figure, such as `pFPL` or `pFPL+ (run)`."""
    name = NAMES[system.algorithm]
    return f"{name} ({system.reading})" if system.algorithm.endswith("+") else name


# ---- what the paper printed: at the best pi of tables 2 and 3 ------------------------------------


def f1(precision: float, recall: float) -> float:
    """The harmonic mean of two averages; the metric f1@10 is the average of users' harmonic means,
    another number.

    >>> f1(0.25, 0.75)      # 2 * (1/4 * 3/4) / (1/4 + 3/4)
    0.375
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


BEST = {(data, f"{system} pi {pi:g}"): (data, system) for (data, system), pi in BEST_PI.items()}
PRINTED_F1 = {
    (*at, METRIC): f1(TABLE_2[*of, PRECISION], TABLE_2[*of, RECALL]) for at, of in BEST.items()
}
PRINTED_PATH = {
    (*at, metric): (TABLE_2 | TABLE_3)[*of, metric] for at, of in BEST.items() for metric in PATH
}


def marks(trained: Trained, drawn: Mapping[str, list[Point]]) -> dict[str, tuple[str, float]]:
    """{a line that is drawn: what the paper printed of it is stored under, and the pi of it}.

    A printed point of FPL+ stands beside the epoch as run, as the authors' program has it.
    """
    printed = {}
    for (data, system), pi in BEST_PI.items():
        line = name_of(System(system, reading=RUN if system.endswith("+") else PRINTED))
        if data == trained.name and line in drawn:
            printed[line] = f"{system} pi {pi:g}", pi
    return printed


# ---- figure 2 ------------------------------------------------------------------------------------


def f1_of(point: Point) -> float:
    """METRIC of a point, mean over seeds."""
    return float(np.mean([f1_at(look) for look in point.looks]))


def f1_at(look: CurvePoint) -> float:
    """METRIC of one training."""
    return f1(look.metrics[PRECISION], look.metrics[RECALL])


def f1_notes(trained: Trained) -> list[str]:
    """Where each line has its top, and whether sharing little differs from sharing everything."""
    drawn = {name: mine for name, mine in lines_of(trained).items() if len(mine) > 1}
    tops = {name: max(mine, key=f1_of) for name, mine in drawn.items()}
    said = "; ".join(f"{name} {f1_of(top):.4f} at {top.pi:g}" for name, top in tops.items())
    inside = sum(top.pi < drawn[name][-1].pi for name, top in tops.items())
    ends = "; ".join(f"{name} {_ends(mine[0], mine[-1])}" for name, mine in drawn.items())
    nothing = max(
        (f1_of(point) for mine in trained.more[1].values() for point in mine if point.pi == 0),
        default=0,
    )
    return [
        worded("fpl", "tops", name=trained.name, tops=said, inside=inside, several=len(tops)),
        worded("fpl", "ends", name=trained.name, ends=ends, nothing=nothing),
    ]


def _ends(little: Point, most: Point) -> str:
    p = difference(*(users_of(point.looks, PRECISION) for point in (little, most))).p()
    return f"{f1_of(little):.4f} at {little.pi:g}, {f1_of(most):.4f} at {most.pi:g} (p = {p:.2g})"


def f1_figure(trained: Trained) -> dict[str, str]:
    """The figure of F1 over pi, one curve for each configuration, as SVG."""
    drawn, name = lines_of(trained), trained.name
    series = {
        line: ([point.pi for point in mine], [f1_of(point) for point in mine])
        for line, mine in drawn.items()
    }
    reference = {
        line: ([pi], [PRINTED_F1[name, at, METRIC]])
        for line, (at, pi) in marks(trained, drawn).items()
    }
    return {
        f"f1-{name}": lines(
            series,
            FigureFormat(title=f"Figure 2: {name}", x_label="pi", y_label="F1@10"),
            reference=reference,
        )
    }


# ---- figure 3 ------------------------------------------------------------------------------------


def _path(mine: list[Point]) -> tuple[list[float], list[float]]:
    """Coverage, and precision."""
    return [point.mean(COVERAGE) for point in mine], [point.mean(PRECISION) for point in mine]


def path_note(trained: Trained) -> list[str]:
    """How far each path reaches in both directions."""
    said = []
    for name, mine in lines_of(trained).items():
        items, precision = _path(mine)
        reach = (
            f"{min(items):.0f} to {max(items):.0f} items, P@10 {min(precision):.4f} to"
            f" {max(precision):.4f}"
        )
        said.append(f"{name} {reach}")
    return [worded("fpl", "reach", name=trained.name, said="; ".join(said))]


def path_figure(trained: Trained) -> dict[str, str]:
    """The paths, joined by ascending pi."""
    drawn, name = lines_of(trained), trained.name
    printed = {
        line: [PRINTED_PATH[name, at, metric] for metric in PATH]
        for line, (at, _) in marks(trained, drawn).items()
    }
    reference = {line: (items, precision) for line, (items, precision) in printed.items()}
    look = FigureFormat(
        title=f"Figure 3: {name}, pi up to 1 (white)",
        x_label="IC@10, items recommended",
        y_label="P@10",
    )
    series = {line: _path(mine) for line, mine in drawn.items()}
    return {f"coverage-precision-{name}": scatter(series, look, reference=reference, joined=True)}


EXPERIMENTS = {
    "fpl-fig2": PaperTable(
        title="F1 over pi (FPL, figure 2)",
        data=countries,
        train=swept,
        metrics=(METRIC,),
        printed=PRINTED_F1,
        rows=lambda trained: point_rows(
            trained, lambda system, point, look: {METRIC: f1_at(look)}, PRINTED_F1
        ),
        findings=(f1_notes,),
        figures=f1_figure,
    ),
    "fpl-fig3": PaperTable(
        title="item coverage against precision over pi (FPL, figure 3)",
        data=countries,
        train=swept,
        metrics=PATH,
        printed=PRINTED_PATH,
        rows=lambda trained: point_rows(
            trained, lambda system, point, look: {m: look.metrics[m] for m in PATH}, PRINTED_PATH
        ),
        findings=(path_note,),
        figures=path_figure,
    ),
}
