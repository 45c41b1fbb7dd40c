"""`entrenous tune`: settings chosen on validation rows, by a grid."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runs.options import TuneOptions
from .console import emit_json, progress_bar, table, tell
from .options import takes

SHOWN = ("mae", "rmse", "hr@10", "ndcg@10")
MOST_ROWS = 20  # of a table; --json has all


@takes(TuneOptions)
def tune(
    algorithm: str,
    /,
    *,
    data: str = "ml-100k",
    json: bool = False,
    **options: Any,
) -> None:
    """Choose settings on validation rows, by a grid; the test rows stay closed.

    Example: entrenous tune fcf --grid learning_rate=0.02,0.05,0.1 --grid factors=16,32 --every 20

    Parameters
    ----------
    algorithm:
        A name of `entrenous algorithms`.
    data:
        A data set, file or folder; or several, separated by commas: settings are then ranked on
        each, the best mean rank first.
    json:
        Print one JSON object on stdout.
    """
    from ..runs.tuning.grid import TuneRequest, try_grid
    from ..runs.tuning.transfer import transfer

    several = _several(data)
    with progress_bar(algorithm) as progress:
        asked = TuneRequest(algorithm, data, progress=progress, **options)
        result: Mapping[str, Any] = transfer(several, asked) if several else try_grid(asked)
    if json:
        emit_json(result)
    elif several:
        _show_transfer(result, list(asked.settings))
    else:
        _show_tuning(result, list(asked.settings), asked.load)


def _several(data: str) -> list[str]:
    """Returns the data sets of --data A,B,..; an empty list for a single one."""
    # A file may have a comma in its name.
    if "," not in data or Path(data).exists():
        return []
    return [name.strip() for name in data.split(",")]


def _show_transfer(result: Mapping[str, Any], fixed: list[str]) -> None:
    """Prints settings by mean rank, with their metrics on every data set, and the best settings of
    each set. fixed: settings that were not varied.
    """
    from ..systems.named import maker_of

    defaults = dict(maker_of(result["algorithm"])())
    metric = result["selected_by"].removeprefix("validation ")
    names = [name for name in result["rows"][0]["settings"] if name not in fixed]
    rows = []
    for place, row in enumerate(result["rows"]):
        is_default = all(defaults[name] == _read(result["algorithm"], name, row) for name in names)
        # The defaults are shown wherever they stand.
        if place >= MOST_ROWS and not is_default:
            continue
        figures = [of_set[metric] for of_set in row["validation"].values()]
        settings = [str(row["settings"][name]) for name in names]
        note = "default" if is_default else ""
        rows.append([*settings, row["rounds"], row["rank"], *figures, note])
    sets = [Path(name).stem for name in result["data"]]
    title = (
        f"{result['algorithm']}, {result['protocol']}: {result['selected_by']}, mean of"
        f" {result['seeds']} seed(s), best mean rank first"
    )
    table([*names, "rounds", "mean rank", *sets, ""], rows, title=title)
    for name, best in result["best"].items():
        chosen = _named(best["settings"], names)
        value = best["validation"][metric]
        tell(f"- best on {Path(name).stem} alone: {chosen}, {best['rounds']} rounds: {value:.4f}")


def _named(settings: Mapping[str, Any], names: list[str]) -> str:
    """Returns some settings as `name=value, name=value`."""
    return ", ".join(f"{name}={settings[name]}" for name in names)


def _read(algorithm: str, name: str, row: Mapping[str, Any]) -> Any:
    """Returns a setting of a row with the type that the algorithm gives it."""
    from ..systems.named import kind_of

    kind, _ = kind_of(algorithm)
    parsed = kind.parse({name: row["settings"][name]})
    return dict(parsed)[name]


def _show_tuning(result: Mapping[str, Any], fixed: list[str], load: Mapping[str, Any]) -> None:
    """Prints the best settings as a table, those that failed, and the command that runs the best.
    fixed: settings that were not varied.
    """
    from ..evaluation.metric_kinds import arrowed

    best = result["rows"][0]
    names = [name for name in best["settings"] if name not in fixed]
    metrics = [name for name in SHOWN if name in best["validation"]]
    rows = []
    for row in result["rows"][:MOST_ROWS]:
        settings = [str(row["settings"][name]) for name in names]
        figures = [row["validation"][name] for name in metrics]
        rows.append([*settings, row["rounds"], *figures])
    about = f"{result['algorithm']} on {result['data']}, {result['protocol']}"
    title = f"{about}: validation, mean of {result['seeds']} seed(s), best first"
    table([*names, "rounds", *map(arrowed, metrics)], rows, title=title)
    for failure in result["failed"]:
        tell(f"- failed: {_named(failure['settings'], names)}: {failure['reason']}")
    tell(f"the best: {_command(result, load)}")


def _command(result: Mapping[str, Any], load: Mapping[str, Any]) -> str:
    """Returns the command that trains and tests the best settings."""
    best = result["rows"][0]
    words = ["entrenous", "run", result["algorithm"]]
    words += ["--data", str(result["data"]), "--protocol", str(result["protocol"])]
    # Central algorithms have no rounds.
    if best["rounds"]:
        words += ["--rounds", str(best["rounds"])]
    for name, value in best["settings"].items():
        words += ["--set", f"{name}={value}"]
    for name, value in load.items():
        words += ["--load", f"{name}={value}"]
    return shlex.join(words)
