"""Settings that suit several data sets: a grid is tried on each, and ranks are averaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...data.load import load, load_arguments
from ...evaluation.distributions import mean_ranks
from ...evaluation.protocol import GOALS
from .grid import TriedSettings, TuneRequest, try_grid


def transfer(sets: Sequence[str], asked: TuneRequest) -> dict[str, Any]:
    """Tries every combination of `grid` on each data set; the best mean rank comes first.

    A rank is of settings and rounds together, among those that were trained and looked at on every
    set; 1 = the best there; equals share the mean of their ranks. Returns {"rows": [{"settings",
    "rounds", "rank", "ranks": {set: rank}, "validation": {set: {metric: value}}}], "best": {set:
    its own best row}, "failed": {set: [..]}, ...}.

    Raises InputError for fewer than two sets, and where no combination was trained on all.
    """
    if len(set(sets)) < 2 or len(set(sets)) < len(sets):
        raise InputError(
            "--data", f"got {', '.join(sets)}", expected="two or more data sets, each once"
        )
    reading = load_arguments(asked.load)
    # All of them are read before any training.
    rows_of_sets = {name: load(name, **reading) for name in sets}
    tuned = {name: try_grid(replace(asked, data=rows)) for name, rows in rows_of_sets.items()}
    first = tuned[sets[0]]
    goal = next(goal for goal in GOALS if first["selected_by"].endswith(goal.metric))
    # The rows of each set by what they tried: {set: {settings and rounds: row}}.
    tried: dict[str, dict[str, TriedSettings]] = {}
    for name, found in tuned.items():
        tried[name] = {_identity(row): row for row in found["rows"]}
    first_tried = tried[sets[0]]
    # Settings that could not be trained on one set, or were not looked at there, have no rank.
    common = [key for key in first_tried if all(key in of_set for of_set in tried.values())]
    if not common:
        raise InputError(
            "entrenous tune",
            "no settings were trained on every data set",
            fix="see what fails on one of them alone",
        )
    ranks: dict[str, list[float]] = {}
    for name, of_set in tried.items():
        ranks[name] = _ranks([goal.key(of_set[key]["validation"]) for key in common])
    together = []
    for place, key in enumerate(common):
        ranks_of_row = {name: ranks[name][place] for name in sets}
        row = {
            "settings": first_tried[key]["settings"],
            "rounds": first_tried[key]["rounds"],
            "rank": float(np.mean(list(ranks_of_row.values()))),
            "ranks": ranks_of_row,
            "validation": {name: tried[name][key]["validation"] for name in sets},
        }
        together.append(row)
    return {
        "algorithm": first["algorithm"],
        "protocol": first["protocol"],
        "seeds": first["seeds"],
        "selected_by": first["selected_by"],
        "data": list(sets),
        "rows": sorted(together, key=lambda row: (row["rank"], row["rounds"])),
        "best": {name: of_set["rows"][0] for name, of_set in tuned.items()},
        "failed": {name: of_set["failed"] for name, of_set in tuned.items()},
    }


def _identity(row: Mapping[str, Any]) -> str:
    """The settings and rounds of a row, as text by which it is found on another set."""
    return json.dumps([row["settings"], row["rounds"]], sort_keys=True, default=str)


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the smallest value first; equals share their mean."""
    ranks: list[float] = mean_ranks(np.asarray(values)).tolist()
    return ranks
