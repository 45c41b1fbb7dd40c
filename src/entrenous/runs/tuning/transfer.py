"""Settings that suit several data sets: a grid tried on each, and the mean of its ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.contract.protocols import Progress, silent
from ...core.errors import InputError
from ...data.load import load as rows_of
from ...data.options import load_arguments
from ...evaluate.protocol import GOALS
from .grid import tune


def transfer(
    algorithm: str,
    sets: Sequence[str],
    *,
    grid: Mapping[str, Sequence[str]],
    settings: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    **further: Any,
) -> dict[str, Any]:
    """Every combination of `grid` on each data set, the best mean rank first. load: how files are
    read; further: of `grid.tune`.

    A rank is of settings and rounds together among those that were trained and looked at on every
    set, 1 = the best there; equals share the mean of their ranks. Returns {"rows": [{"settings",
    "rounds", "rank", "ranks": {set: rank}, "validation": {set: {metric: value}}}], "best": {set:
    its own best row}, "failed": {set: [..]}, ...}.

    Raises InputError for less than two sets, and where no combination was trained on all.
    """
    if len(set(sets)) < 2 or len(set(sets)) < len(sets):
        raise InputError(
            "--data", f"got {', '.join(sets)}", expected="two or more data sets, each once"
        )
    read = load_arguments(load or {})
    given = {name: rows_of(name, **read) for name in sets}  # all of them before any training
    found = {
        name: tune(
            algorithm, data, grid=grid, settings=settings, load=load, progress=progress, **further
        )
        for name, data in given.items()
    }
    first = found[sets[0]]
    goal = next(one for one in GOALS if first["selected_by"].endswith(one.metric))
    rows = {name: {_identity(row): row for row in one["rows"]} for name, one in found.items()}
    common = [key for key in rows[sets[0]] if all(key in of for of in rows.values())]
    if not common:
        raise InputError(
            "entrenous tune",
            "no settings were trained on every data set",
            fix="see what fails on one of them alone",
        )
    ranks = {
        name: _ranks([goal.key(of[key]["validation"]) for key in common])
        for name, of in rows.items()
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
        "best": {name: one["rows"][0] for name, one in found.items()},
        "failed": {name: one["failed"] for name, one in found.items()},
    }


def _identity(row: Mapping[str, Any]) -> str:
    return json.dumps([row["settings"], row["rounds"]], sort_keys=True, default=str)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1, the smallest value first; equals share their mean."""
    given = np.asarray(values)
    return np.array([(given < value).sum() + ((given == value).sum() + 1) / 2 for value in given])
