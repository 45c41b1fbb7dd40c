"""`entrenous runs`, `report` and `export`: stored runs."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.cells import CHANGED, FORMULA
from ..core.errors import InputError
from ..core.keywords import at_least
from .console import emit_json, say, table, tell
from .options import RUNS, OwnPlace, Runs, TodaysCode

if TYPE_CHECKING:
    import polars as pl

Format = Literal["csv", "trec"]

UNSAID = object()  # of runs that do not say all their settings
SHOWN = ("hr@10", "ndcg@10", "mae", "rmse")


def runs(*, folder: Runs = RUNS, json: bool = False) -> None:
    """List the stored runs, the newest last: when they began, how they stand, the settings that
    differ from the defaults, figures.

    Parameters
    ----------
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    manifests = sorted(_readable(folder), key=lambda one: str(one.get("started", "")))
    if json:
        emit_json({"runs": manifests})
    elif manifests:
        _show_runs(manifests)
    else:
        say(f"no runs under {folder}; make one with: entrenous run pfpl+")


def _readable(root: Path) -> Iterator[dict[str, Any]]:
    """The manifests under `root`, with how each run stands; says which cannot be read."""
    from ..runs import store

    for folder in store.folders(root):
        try:
            manifest = store.read_manifest(folder)
            yield {**manifest, "status": store.standing(folder, manifest), "path": folder}
        except InputError as damage:
            say(f"left out: {damage}")


def _show_runs(manifests: list[dict[str, Any]]) -> None:
    from ..core.registry.discover import short
    from ..evaluate.metric_kinds import arrowed
    from ..runs import store

    metrics = [manifest.get("metrics", {}) for manifest in manifests]
    shown = [name for name in SHOWN if any(name in of_run for of_run in metrics)]
    rows = []
    for manifest, of_run in zip(manifests, metrics, strict=True):
        row = [
            manifest["run"],
            _date(manifest),
            manifest["status"],
            short(manifest["algorithm"]),
            Path(manifest["data"]).stem,
            store.protocol_of(manifest),
            manifest["seed"],
            ", ".join(differing(manifest)),
        ]
        rows.append([*row, *(of_run.get(name, "") for name in shown)])
    headers = [
        "run",
        "began",
        "status",
        "algorithm",
        "data",
        "protocol",
        "seed",
        "other than usual",
        *map(arrowed, shown),
    ]
    table(headers, rows)
    for manifest in manifests:
        if manifest["status"] == "interrupted":
            command = store.resuming(manifest["path"], manifest["algorithm"])
            tell(f"to go on with {manifest['run']}: {command}")


def _date(manifest: dict[str, Any]) -> str:
    """The start of a run, to the minute, in the time of the place where it ran."""
    return str(manifest.get("started", ""))[:16].replace("T", " ")


def differing(manifest: dict[str, Any]) -> list[str]:
    """The settings of a run that differ from the defaults, as name=value."""
    settings = [
        f"{name}={value}"
        for name, value in manifest.get("settings", {}).items()
        if not _is_usual(manifest, name)
    ]
    options = {
        "rounds": manifest.get("rounds_asked"),
        "every": manifest.get("every"),
        "patience": manifest.get("patience"),
        **manifest.get("network", {}),
        **manifest.get("load", {}),
    }
    return [*settings, *(f"{name}={value}" for name, value in options.items() if value)]


def _is_usual(manifest: dict[str, Any], name: str) -> bool:
    """Returns True for a setting that has the default of today; never for a user's own
    algorithm.
    """
    from ..algorithms.named import algorithms, kind_of

    if manifest["algorithm"] not in algorithms():
        return False
    kind, preset = kind_of(manifest["algorithm"])
    usual = json_text.loads(json_text.dumps(kind.parse(preset).model_dump().get(name), default=str))
    return bool(usual == manifest.get("settings_in_force", {}).get(name, UNSAID))


def report(
    *names: str, out: Path | None = None, user: str | None = None, folder: Runs = RUNS
) -> None:
    """Write a self-contained HTML report of one run, or of several side by side.

    Parameters
    ----------
    names:
        Names or folders of runs; default: the newest run.
    out:
        The file to write; default: report.html in the first run's folder.
    user:
        Also show what this user is recommended by the first run.
    folder:
        The folder that holds the stored runs.
    """
    from ..report.html import write_report
    from ..runs import store
    from ..runs.reopen import recommended

    stored = [store.read(name, folder) for name in names or ("latest",)]
    items = recommended(stored[0], user) if user is not None else None
    tell(
        write_report(
            stored, out or stored[0].path / "report.html", recommendations=items, user=user
        )
    )


def export(
    run: str = "latest",
    /,
    *,
    out: Path,
    format: tuple[Format, ...] = ("csv", "trec"),
    n: int = 10,
    algorithm: OwnPlace = None,
    todays_code: TodaysCode = False,
    folder: Runs = RUNS,
) -> None:
    """Write a stored run as CSV (recommendations of all users, accuracy by user, learning curve)
    and in TREC's formats.

    Example: entrenous export latest --out exported --n 20

    Parameters
    ----------
    run:
        A run's name or folder; default: the newest.
    out:
        A folder for the files; made if it is not there.
    format:
        csv: recommendations.csv, users.csv, curve.csv, where an id that a spreadsheet would run
        gets a leading '; trec: run.trec and qrels.trec, for trec_eval or ir-measures.
    n:
        How many items a list has; at least 100 in run.trec.
    folder:
        The folder that holds the stored runs.
    """
    from ..api.run import open as opened

    at_least("--n", n, 1)
    found = opened(run, root=folder, algorithm=algorithm, todays_code=todays_code)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise InputError(
            str(out), f"cannot be written ({cause.strerror})", expected="a folder you may write to"
        ) from None
    written: list[Path] = []
    if "csv" in format:
        frames = {
            "recommendations": found.recommend(n=n),
            "users": found.per_user(),
            "curve": found.curve(),
        }
        for name, frame in frames.items():
            if frame.height:
                _write_csv(frame, out / f"{name}.csv")
                written.append(out / f"{name}.csv")
    if "trec" in format:
        written += found.trec(out, max(n, 100))
    tell("\n".join(map(str, written)))


def _write_csv(frame: pl.DataFrame, path: Path) -> None:
    """Write a table in whose cells no spreadsheet finds a formula, and say how many were
    changed.
    """
    import polars as pl

    texts = pl.col(pl.String)
    changed = sum(frame.select(texts.str.contains(FORMULA).sum()).row(0))
    frame.with_columns(texts.str.replace(FORMULA, "'${1}")).write_csv(path)
    if changed:
        say(f"{path}: {changed} cells {CHANGED}")
