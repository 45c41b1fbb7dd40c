"""Why the level differs from the paper's: a system without settings, when other rows of the same users are held out."""

from __future__ import annotations

from dataclasses import replace

from ..data.interactions import Interactions
from ..split.protocol import splits
from .cell import Cell, parts_of
from .study import PROTOCOL, Study


def order_control(study: Study, printed: float | None) -> list[str]:
    """P@10 of Top-Pop with the newest, random and oldest rows held out, against the printed one; Italy only."""
    if study.country != "Italy" or printed is None:
        return []
    turned = replace(study.data, time=None if study.data.time is None else -study.data.time)
    newest, oldest = (top_pop(study, data, PROTOCOL) for data in (study.data, turned))
    random = top_pop(study, study.data, "random-80-20")
    return [
        f"{study.data.name}, why the level differs: Top-Pop has no settings, so it shows whether the rows held out are the "
        f"paper's, where it has P@10 {printed:.5f}. Of the same users, in the same numbers: newest rows held out {newest:.5f}, "
        f"random rows {random:.5f}, oldest rows {oldest:.5f}. The published files seem to have the time of a user's first visit "
        "to a venue (one row a venue); a later program of the authors keeps the last (fedbpr-light: max of utc). By first visits "
        "the newest rows are venues found late; by last visits they would be venues returned to, which are the popular ones. "
        "That is the likely cause, and every row of the table inherits it: compare ratios to Top-Pop."
    ]


def top_pop(study: Study, data: Interactions, protocol: str) -> float:
    """P@10 of Top-Pop under a protocol."""
    parts = parts_of(splits(protocol, data, seed=study.seed)[0])
    cell = Cell(algorithm="popular", settings={}, part="test", seed=study.seed)
    return study.cells.outcomes(parts, [cell])[0].looks[0].metrics["precision@10"]
