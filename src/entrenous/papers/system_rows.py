"""Rows for every system of table 2, read for whichever metrics a table prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .cell import Look
from .result import Paper, Row, row
from .study import Study, System


def system_rows(study: Study, looks: Mapping[System, Look | None], metrics: Sequence[str], paper: Paper) -> list[Row]:
    """A row for each system and metric. The paper's one FCF stands beside both of ours."""
    return [
        _row(study, system, metric, None if look is None else look.metrics[metric], paper)
        for system, look in looks.items()
        for metric in metrics
    ]


def _row(study: Study, system: System, metric: str, obtained: float | None, paper: Paper) -> Row:
    chosen = study.chosen[system]
    said = study.protocol(system, chosen) + ("" if obtained is not None else f"; {why_absent(study, system)}")
    return row(
        study.data.name,
        system.name,
        metric,
        paper=paper.get((study.data.name, system.printed_as, metric)),
        obtained=obtained,
        protocol=said,
        reading=system.reading,
        pi=None if chosen is None else chosen.settings.get("pi"),
        settings=None if chosen is None else chosen.settings,
        epochs=None if chosen is None else chosen.epochs,
    )


def why_absent(study: Study, system: System) -> str:
    """Why a system has no figure of ours."""
    if system.name == "vae" and not study.grid.vae:
        return "left out of the quick excerpt"
    return "needs entrenous[baselines] (torch)" if system.name == "vae" else "training diverged"
