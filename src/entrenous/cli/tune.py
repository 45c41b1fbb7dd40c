"""`entrenous tune`: settings chosen on validation rows, by a grid or by search."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..runs.options import TuneOptions
from .console import emit_json, goes_on, progress_bar, table, tell
from .options import takes

SHOWN = ("mae", "rmse", "hr@10", "ndcg@10")


@takes(TuneOptions)
def tune(
    algorithm: str,
    /,
    *,
    data: str = "ml-100k",
    json: bool = False,
    **options: Any,
) -> None:
    """Choose settings on validation rows, by a grid or by search; the test rows stay closed.

    Example: entrenous tune fcf --search learning_rate=0.01..0.2:log --search factors=16,32 --trials
    20 --every 20

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`.
    data:
        A data set, file or folder; or several, separated by commas, for a grid: settings are then
        ranked on each, the best mean rank first.
    json:
        Print one JSON object on stdout.
    """
    from ..runs.tuning.choose import chosen, refuse_of_search
    from ..runs.tuning.grid import TuneRequest
    from ..runs.tuning.transfer import transfer

    out = options.get("out")
    again = "nothing was kept: a search with --out is"
    if out:
        again = f"go on with the same command and --resume: {out} has what is finished"
    several = _several(data)
    with goes_on(again), progress_bar(algorithm) as progress:
        asked = TuneRequest(algorithm, data, progress=progress, **options)
        if several and asked.grid and not asked.space:
            refuse_of_search(asked)
            found = transfer(several, asked)
        elif several and asked.space and not asked.grid:
            raise InputError(
                "--data",
                f"got {data}",
                expected="one data set, or a grid",
                fix="--grid name=value,value,...",
            )
        else:
            found = chosen(asked)
    if json:
        emit_json(found)
    elif several:
        _show_transfer(found, list(asked.settings))
    else:
        _show_tuning(found, list(asked.settings), asked.load)


def _several(data: str) -> list[str]:
    """The data sets of --data A,B,..; [] of one."""
    return (
        [] if "," not in data or Path(data).exists() else [name.strip() for name in data.split(",")]
    )


def _show_transfer(found: dict[str, Any], fixed: list[str]) -> None:
    """Settings by mean rank, with their figures on every set, and each set's own best."""
    from ..algorithms.named import maker_of

    defaults = dict(maker_of(found["algorithm"])())
    metric = found["selected_by"].removeprefix("validation ")
    names = [name for name in found["rows"][0]["settings"] if name not in fixed]
    rows = []
    for place, row in enumerate(found["rows"]):
        is_default = all(defaults[name] == _read(found["algorithm"], name, row) for name in names)
        # The defaults are shown wherever they stand.
        if place >= 20 and not is_default:
            continue
        figures = [of_set[metric] for of_set in row["validation"].values()]
        settings = [str(row["settings"][name]) for name in names]
        note = "default" if is_default else ""
        rows.append([*settings, row["rounds"], row["rank"], *figures, note])
    sets = [Path(name).stem for name in found["data"]]
    title = (
        f"{found['algorithm']}, {found['protocol']}: {found['selected_by']}, mean of"
        f" {found['seeds']} seed(s), best mean rank first"
    )
    table([*names, "rounds", "mean rank", *sets, ""], rows, title=title)
    for name, best in found["best"].items():
        chosen = ", ".join(f"{setting}={best['settings'][setting]}" for setting in names)
        tell(
            f"- best on {Path(name).stem} alone: {chosen}, {best['rounds']} rounds:"
            f" {best['validation'][metric]:.4f}"
        )


def _read(algorithm: str, name: str, row: dict[str, Any]) -> Any:
    """A setting of a row as the algorithm reads it."""
    from ..algorithms.named import kind_of

    return dict(kind_of(algorithm)[0].parse({name: row["settings"][name]}))[name]


def _show_tuning(found: dict[str, Any], fixed: list[str], load: Mapping[str, Any]) -> None:
    """The best settings as a table, the trials that did not end, and the command that runs the
    best.
    """
    from ..evaluate.metric_kinds import arrowed

    names = [name for name in found["rows"][0]["settings"] if name not in fixed]
    metrics = [name for name in SHOWN if name in found["rows"][0]["validation"]]
    rows = []
    for row in found["rows"][:20]:
        settings = [str(row["settings"][name]) for name in names]
        figures = [row["validation"][name] for name in metrics]
        rows.append([*settings, row["rounds"], *figures])
    about = f"{found['algorithm']} on {found['data']}, {found['protocol']}"
    title = f"{about}: validation, mean of {found['seeds']} seed(s), best first"
    table([*names, "rounds", *map(arrowed, metrics)], rows, title=title)
    if found.get("stopped"):
        tell(
            f"- {len(found['stopped'])} stopped early: worse than the median of the trials before"
            " at the same round"
        )
    for failure in found["failed"]:
        tried = ", ".join(f"{name}={failure['settings'][name]}" for name in names)
        tell(f"- failed: {tried}: {failure['reason']}")
    tell(f"the best: {_command(found, load)}")


def _command(found: dict[str, Any], load: Mapping[str, Any]) -> str:
    """The command that trains and tests the best settings."""
    best = found["rows"][0]
    words = ["entrenous", "run", found["algorithm"]]
    words += ["--data", str(found["data"]), "--protocol", str(found["protocol"])]
    if best["rounds"]:
        words += ["--rounds", str(best["rounds"])]
    for name, value in best["settings"].items():
        words += ["--set", f"{name}={value}"]
    for name, value in load.items():
        words += ["--load", f"{name}={value}"]
    return shlex.join(words)
