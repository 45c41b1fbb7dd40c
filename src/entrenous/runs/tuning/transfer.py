"""Settings that suit several data sets: a grid tried on each, and the mean of its ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...data.load import load, load_arguments
from ...evaluate.protocol import GOALS
from .grid import TuneRequest, try_grid


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
    rows = {name: {_identity(row): row for row in found["rows"]} for name, found in tuned.items()}
    common = [key for key in rows[sets[0]] if all(key in of_set for of_set in rows.values())]
    if not common:
        raise InputError(
            "entrenous tune",
            "no settings were trained on every data set",
            fix="see what fails on one of them alone",
        )
    ranks = {
        name: _ranks([goal.key(of_set[key]["validation"]) for key in common])
        for name, of_set in rows.items()
    }
    together = [
        {
            "settings": rows[sets[0]][key]["settings"],
            "rounds": rows[sets[0]][key]["rounds"],
            "rank": float(np.mean([ranks[name][place] for name in sets])),
            "ranks": {name: float(ranks[name][place]) for name in sets},
            "validation": {name: rows[name][key]["validation"] for name in sets},
        }
        for place, key in enumerate(common)
    ]
    return {
        **{name: first[name] for name in ("algorithm", "protocol", "seeds", "selected_by")},
        "data": list(sets),
        "rows": sorted(together, key=lambda row: (row["rank"], row["rounds"])),
        "best": {name: found["rows"][0] for name, found in tuned.items()},
        "failed": {name: found["failed"] for name, found in tuned.items()},
    }


def _identity(row: Mapping[str, Any]) -> str:
    return json.dumps([row["settings"], row["rounds"]], sort_keys=True, default=str)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1, the smallest value first; equals share their mean."""
    every = np.asarray(values)
    return np.array([(every < value).sum() + ((every == value).sum() + 1) / 2 for value in every])
