"""`entrenous tune`: settings chosen on validation rows, by a grid."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
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
        A data set, file or folder.
    json:
        Print one JSON object on stdout.
    """
    from ..runs.tuning.grid import TuneRequest, try_grid

    with progress_bar(algorithm) as progress:
        asked = TuneRequest(algorithm, data, progress=progress, **options)
        result = try_grid(asked)
    if json:
        emit_json(result)
    else:
        _show_tuning(result, list(asked.settings), asked.load)


def _named(settings: Mapping[str, Any], names: list[str]) -> str:
    """Returns some settings as `name=value, name=value`."""
    return ", ".join(f"{name}={settings[name]}" for name in names)


def _show_tuning(result: Mapping[str, Any], fixed: list[str], load: Mapping[str, Any]) -> None:
    """Prints the best settings as a table, those that failed, and the command that runs the best.
    fixed: settings that were not varied.
    """
    from ..evaluation.metric_kinds import arrowed

    best = result["rows"][0]
    names = [name for name in best["settings"] if name not in fixed]
    # The metric that chose may be one of the usual ones.
    chose = result["selected_by"].removeprefix("validation ")
    metrics = [name for name in dict.fromkeys([*SHOWN, chose]) if name in best["validation"]]
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
