"""`entrenous tune`: settings chosen on validation rows, by a grid or by search."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..core.errors import InputError
from .console import emit_json, goes_on, progress_bar, table, tell
from .options import Load, Set, assignments

SHOWN = ("mae", "rmse", "hr@10", "ndcg@10")


def tune(
    algorithm: str,
    /,
    *,
    grid: Annotated[list[str] | None, Parameter(negative="")] = None,
    search: Annotated[list[str] | None, Parameter(negative="")] = None,
    trials: int | None = None,
    search_seed: int | None = None,
    settings: Set = None,
    data: str = "ml-100k",
    protocol: str | None = None,
    seeds: int = 1,
    rounds: int | None = None,
    every: int = 0,
    load: Load = None,
    threads: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    out: Path | None = None,
    resume: bool = False,
    json: bool = False,
) -> None:
    """Choose settings on validation rows, by a grid or by search; the test rows stay closed.

    Example: entrenous tune fcf --search learning_rate=0.01..0.2:log --search factors=16,32 --trials
    20 --every 20

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`.
    grid:
        A setting and the values to try, name=value,value,...; may be repeated: every combination is
        tried.
    search:
        A setting and where to look, name=a..b, name=a..b:log or name=value,value,...; may be
        repeated. Needs the extra `tune` (Optuna).
    trials:
        How many settings a search tries; default: 30.
    search_seed:
        Of the search's own draws; default: 0. The trainings have the seeds of --seeds.
    settings:
        A setting that is the same for all, name=value; may be repeated.
    data:
        A data set, file or folder; or several, separated by commas, for a grid: settings are then
        ranked on each, the best mean rank first.
    protocol:
        As for `entrenous run`.
    seeds:
        Seeds 0 .. N - 1, averaged.
    rounds:
        Rounds of each training; default: the algorithm's own.
    every:
        Rounds between looks, so that the number of rounds is chosen too, and a search stops poor
        trials early.
    threads:
        Threads over devices, 0 = all cores; with --workers of each of them, 0 = the cores shared
        out.
    workers:
        Settings tried at once, each in a process of its own; needs the extra `cluster` (Ray). It
        changes nothing in a grid; a search draws so many settings at once, so that what it tries
        depends on this number.
    ray:
        A Ray cluster that is running, HOST:PORT or auto, as for `entrenous run`.
    out:
        A file (.jsonl) that gets a line for each finished trial of a search.
    resume:
        Go on with the search in the file of --out.
    json:
        Print one JSON object on stdout.
    """
    only = {
        "--trials": trials,
        "--search-seed": search_seed,
        "--out": out,
        "--resume": resume or None,
    }
    _grid_or_search(grid, search, [name for name, value in only.items() if value is not None])
    from ..runs.tuning import grid as tuning
    from ..runs.tuning import search as searching
    from ..runs.tuning.transfer import transfer

    several = _several(data)
    if search and several:
        raise InputError(
            "--data",
            f"got {data}",
            expected="one data set, or a grid",
            fix="--grid name=value,value,...",
        )
    fixed, reading = assignments(settings), assignments(load, "--load")
    again = (
        f"go on with the same command and --resume: {out} has what is finished"
        if out
        else "nothing was kept: a search with --out is"
    )
    with goes_on(again), progress_bar(algorithm) as progress:
        if search:
            space = assignments(search, "--search")
            found = searching.search(
                algorithm,
                data,
                protocol=protocol,
                space=space,
                trials=searching.TRIALS if trials is None else trials,
                seed=search_seed or 0,
                settings=fixed,
                seeds=seeds,
                rounds=rounds,
                every=every,
                load=reading,
                threads=threads,
                workers=workers,
                ray=ray,
                out=out,
                resume=resume,
                progress=progress,
            )
        else:
            choices = {
                name: values.split(",") for name, values in assignments(grid, "--grid").items()
            }
            each = partial(
                transfer if several else tuning.tune,
                algorithm,
                protocol=protocol,
                grid=choices,
                settings=fixed,
                seeds=seeds,
                rounds=rounds,
                every=every,
                load=reading,
                threads=threads,
                workers=workers,
                ray=ray,
                progress=progress,
            )
            found = each(several or data)
    if json:
        emit_json(found)
    elif several:
        _show_transfer(found, [*fixed])
    else:
        _show_tuning(found, [*fixed], reading)


def _grid_or_search(grid: list[str] | None, search: list[str] | None, of_search: list[str]) -> None:
    """Refuses both, neither, and a grid with options of a search."""
    if bool(grid) == bool(search):
        raise InputError(
            "entrenous tune",
            (
                "--grid and --search are two ways to choose"
                if grid
                else "there is nothing to choose from"
            ),
            expected="one of --grid name=value,value,... and --search name=a..b",
        )
    if grid and of_search:
        raise InputError(
            of_search[0],
            "a grid has none",
            expected="--search name=a..b in place of --grid",
            fix="or leave it out",
        )


def _several(data: str) -> list[str]:
    """The data sets of --data A,B,..; [] of one."""
    return (
        [] if "," not in data or Path(data).exists() else [name.strip() for name in data.split(",")]
    )


def _show_transfer(found: dict[str, Any], fixed: list[str]) -> None:
    """Settings by mean rank, with what each reaches on every set, and each set's own best."""
    from ..algorithms.named import maker_of

    made, metric = (
        dict(maker_of(found["algorithm"])()),
        found["selected_by"].removeprefix("validation "),
    )
    names = [name for name in found["rows"][0]["settings"] if name not in fixed]
    usual = [
        all(made[name] == _read(found["algorithm"], name, row) for name in names)
        for row in found["rows"]
    ]
    shown = [place for place, row in enumerate(found["rows"]) if place < 20 or usual[place]]
    rows = [
        [
            *(str(found["rows"][place]["settings"][name]) for name in names),
            found["rows"][place]["rounds"],
            found["rows"][place]["rank"],
            *(of[metric] for of in found["rows"][place]["validation"].values()),
            "default" if usual[place] else "",
        ]
        for place in shown
    ]
    sets = [Path(name).stem for name in found["data"]]
    title = (
        f"{found['algorithm']}, {found['protocol']}: {found['selected_by']}, mean of"
        f" {found['seeds']} seed(s), best mean rank first"
    )
    table([*names, "rounds", "mean rank", *sets, ""], rows, title=title)
    for name, best in found["best"].items():
        said = ", ".join(f"{setting}={best['settings'][setting]}" for setting in names)
        tell(
            f"- best on {Path(name).stem} alone: {said}, {best['rounds']} rounds:"
            f" {best['validation'][metric]:.4f}"
        )


def _read(algorithm: str, name: str, row: dict[str, Any]) -> Any:
    """A setting of a row as the algorithm reads it."""
    from ..algorithms.named import kind_of

    return dict(kind_of(algorithm)[0].parse({name: row["settings"][name]}))[name]


def _show_tuning(found: dict[str, Any], fixed: list[str], load: dict[str, str]) -> None:
    """The best settings as a table, what did not end, and the command that runs the best."""
    from ..evaluate.metric_kinds import arrowed

    names = [name for name in found["rows"][0]["settings"] if name not in fixed]
    metrics = [name for name in SHOWN if name in found["rows"][0]["validation"]]
    rows = [
        [
            *(str(row["settings"][name]) for name in names),
            row["rounds"],
            *(row["validation"][name] for name in metrics),
        ]
        for row in found["rows"][:20]
    ]
    about = f"{found['algorithm']} on {found['data']}, {found['protocol']}"
    table(
        [*names, "rounds", *map(arrowed, metrics)],
        rows,
        title=f"{about}: validation, mean of {found['seeds']} seed(s), best first",
    )
    if found.get("stopped"):
        tell(
            f"- {len(found['stopped'])} stopped early: worse than the median of the trials before"
            " at the same round"
        )
    for one in found["failed"]:
        tried = ", ".join(f"{name}={one['settings'][name]}" for name in names)
        tell(f"- failed: {tried}: {one['reason']}")
    tell(f"the best: {_command(found, load)}")


def _command(found: dict[str, Any], load: dict[str, str]) -> str:
    """What trains and tests the best settings."""
    best = found["rows"][0]
    options = {
        "--data": found["data"],
        "--protocol": found["protocol"],
        "--rounds": best["rounds"] or None,
    }
    words = [
        word for name, value in options.items() if value is not None for word in (name, str(value))
    ]
    words += [
        word for name, value in best["settings"].items() for word in ("--set", f"{name}={value}")
    ]
    words += [word for name, value in load.items() for word in ("--load", f"{name}={value}")]
    return shlex.join(["entrenous", "run", found["algorithm"], *words])
