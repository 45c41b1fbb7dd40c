"""FPL, figure 3: item coverage against precision as pi grows. The paper's paths are drawn; tables 2 and 3 give some points."""

from __future__ import annotations

from ..report.figures import scatter
from . import fpl_table2, fpl_table3
from .fpl_table2 import BEST_PI
from .pi_points import Point, Points, compared_line, lines_of, point_row, points_of
from .result import Experiment, Found
from .studies import over_studies
from .study import Study

METRICS = ("item_coverage@10", "precision@10")
# the printed pair, at the printed best pi
PAPER = {
    (f"foursquare-{country.lower()}", f"{system} pi {pi:g}", metric): float(table.TABLE[country][system][0])
    for country, systems in BEST_PI.items()
    for system, pi in systems.items()
    for metric, table in zip(METRICS, (fpl_table3, fpl_table2), strict=True)
}


def one(study: Study) -> Found:
    """A path for each configuration, under both readings of the epoch."""
    points = points_of(study)
    rows = [
        point_row(study, system, point, metric, point.look.metrics[metric], PAPER)
        for system, mine in points.items()
        for point in mine
        for metric in METRICS
    ]
    figures = {f"coverage-precision-{study.data.name}": _figure(study, points)}
    return Found(rows=rows, notes=_notes(study, points), figures=figures)


def _column(mine: list[Point], metric: str) -> list[float]:
    return [point.look.metrics[metric] for point in mine]


def _notes(study: Study, points: Points) -> list[str]:
    """How far each path reaches in both directions."""
    said = []
    for name, mine in lines_of(points).items():
        coverage, precision = (_column(mine, metric) for metric in METRICS)
        reach = f"{min(coverage):.0f} to {max(coverage):.0f} items, P@10 {min(precision):.4f} to {max(precision):.4f}"
        said.append(f"{name} {reach}")
    return [f"{study.data.name}, the reach of each path over pi > 0: {'; '.join(said)}."]


def _figure(study: Study, points: Points) -> str:
    series = {name: (_column(mine, METRICS[0]), _column(mine, METRICS[1])) for name, mine in lines_of(points).items()}
    printed = BEST_PI.get(study.country, {})
    at = {name: tuple(table.TABLE[study.country][name][:1] for table in (fpl_table3, fpl_table2)) for name in printed}
    reference = {compared_line(name): (pair[0], pair[1]) for name, pair in at.items() if compared_line(name) in series}
    title = f"Figure 3: {study.data.name}, pi up to 1 (white)"
    return scatter(series, x_label="IC@10, items recommended", y_label="P@10", title=title, reference=reference, joined=True)


EXPERIMENTS = {"fpl-fig3": Experiment("item coverage against precision over pi (FPL, figure 3)", PAPER, over_studies(one))}
