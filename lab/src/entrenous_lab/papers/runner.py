"""`run_experiment`: one table or figure of a paper, by name."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import InputError
from entrenous.core.registry.discover import pick, with_plugins
from entrenous.data.home import data_home
from entrenous.data.interactions import Interactions
from entrenous.systems.named import kind_of

from .effort import Effort, Grid
from .provenance import provenance
from .remember import Cells
from .render import write
from .result import Context, ExperimentResult
from .table import PaperTable


def experiments() -> dict[str, PaperTable]:
    """Every experiment by name: the EXPERIMENTS of the files of this package."""
    return dict(sorted(with_plugins("experiments", "EXPERIMENTS", "entrenous_lab.papers").items()))


def run_experiment(
    name: str,
    *,
    quick: bool = False,
    data: Interactions | None = None,
    cache: Path | None = None,
    out: Path | None = None,
    seed: int = 0,
    seeds: int = 0,
    only: tuple[str, ...] = (),
    done: tuple[str, ...] = (),
    threads: int = 0,
    grid: Grid | None = None,
    effort: Effort | None = None,
    own: tuple[str, ...] = (),
    progress: Progress = silent,
) -> ExperimentResult:
    """Runs an experiment, or what is left of it: finished trainings are remembered in `cache` and
    shared by all experiments.

    quick: an excerpt. data: other rows in place of the paper's. out: result.json, table.md and
    figures go to `<out>/<name>` (quick: `<out>/<name>-quick`). cache: None = `<out>/cells`, without
    `out` the folder `experiments` of the data folder. threads: trainings at once, 0 = one a core;
    they change no figure. seeds: how many, where a table has seeds; 0 = as many as
    `trained/budgets.toml` says. only: data sets, of those that it has; done: those of them that are
    left out. own: places of a
    researcher's own algorithms, which join the table `field`. grid, effort: other settings to try
    (FPL), more or less training (Cali3F); either may be a quick one.

    Raises InputError for an unknown name, for missing data (with where to get it), for an `out`
    that cannot be written to, and without SciPy.
    """
    experiment: PaperTable = pick("experiment", name, experiments())
    if own:
        experiment = _joined_by(name, own)
    need_scipy()
    if out is not None and not writable(out):
        raise InputError(
            "--out",
            f"{out} cannot be written to",
            expected="a folder you may write to",
            fix="choose another",
        )
    began, folder = (
        time.perf_counter(),
        cache or (data_home() / "experiments" if out is None else out / "cells"),
    )
    cells = Cells(folder if writable(folder) else None, threads=threads, progress=progress)
    quick = quick or any(plan is not None and plan.quick for plan in (grid, effort))
    context = Context(
        quick=quick,
        cells=cells,
        seed=seed,
        seeds=seeds,
        only=only,
        done=done,
        data=data,
        grid=grid,
        effort=effort,
    )
    found = experiment.run(context)
    if cells.folder is None:
        found.notes.append(f"{folder} cannot be written to, so no training was remembered.")
    result = ExperimentResult(
        name=name,
        title=experiment.title,
        quick=quick,
        **vars(found),
        seconds=round(time.perf_counter() - began, 1),
        computed=cells.computed,
        remembered=cells.remembered,
        folder=None if out is None else out / (f"{name}-quick" if quick else name),
        origin=provenance(cells),
    )
    if result.folder is not None:
        write(result, result.folder)
    return result


def _joined_by(name: str, own: tuple[str, ...]) -> PaperTable:
    """The table of the field with a researcher's own algorithms. Raises InputError for another
    table, and for an algorithm that breaks its declaration.
    """
    from .field import with_own

    if name != "field":
        raise InputError(
            "--with", f"{name} has the systems of its paper alone", expected="experiment field"
        )
    for place in own:
        kind_of(place)
    return with_own(own)


def need_scipy() -> None:
    """Raises InputError where SciPy is missing: its version is part of what a training is
    remembered under (`cell.libraries`).
    """
    if find_spec("scipy") is None:
        raise InputError("papers", "SciPy is not installed", fix="pip install entrenous-lab")


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder that exists or can be made."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
