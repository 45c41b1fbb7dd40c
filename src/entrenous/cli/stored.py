"""`entrenous runs`, `report` and `export`: list stored runs, and write them as HTML or files."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.cells import CHANGED, FORMULA
from ..core.errors import InputError
from ..core.keywords import at_least
from ..runs.options import OpenOptions
from .console import emit_json, say, table, tell
from .options import RUNS, Runs, takes

if TYPE_CHECKING:
    import polars as pl

    from ..api.run import Run

Format = Literal["csv", "trec"]

UNSAID = object()  # for runs of older versions, which do not say all their settings
SHOWN = ("hr@10", "ndcg@10", "mae", "rmse")


def runs(*, folder: Runs = RUNS, json: bool = False) -> None:
    """List the stored runs, the newest last: start, status, settings that differ from the defaults,
    and metrics.

    Parameters
    ----------
    folder:
        The folder that holds the stored runs.
    json:
        Print one JSON object on stdout.
    """
    manifests = sorted(_readable(folder), key=lambda manifest: str(manifest.get("started", "")))
    if json:
        emit_json({"runs": manifests})
    elif manifests:
        _show_runs(manifests)
    else:
        say(f"no runs under {folder}; make one with: entrenous run pfpl+")


def _readable(root: Path) -> Iterator[dict[str, Any]]:
    """Yields the manifests under `root`, each with the status of its run. Says which ones cannot be
    read.
    """
    from ..runs import store

    # One damaged run must not hide all others.
    for folder in store.folders(root):
        try:
            manifest = store.read_manifest(folder)
            yield {**manifest, "status": store.standing(folder, manifest), "path": folder}
        except InputError as damage:
            say(f"left out: {damage}")


def _show_runs(manifests: list[dict[str, Any]]) -> None:
    from ..core.registry.discover import short
    from ..evaluation.metric_kinds import arrowed
    from ..runs import store

    # Columns for the metrics that some run has: ratings have other ones than rankings.
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
    """Returns the start of a run, to the minute, in the time zone in which it ran."""
    return str(manifest.get("started", ""))[:16].replace("T", " ")


def differing(manifest: dict[str, Any]) -> list[str]:
    """Returns the settings of a run that differ from the defaults, as name=value."""
    differing = [
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
    # The default of each of these options is empty.
    differing += [f"{name}={value}" for name, value in options.items() if value]
    return differing


def _is_usual(manifest: dict[str, Any], name: str) -> bool:
    """Returns whether a setting equals today's default; False for the user's own algorithm, whose
    code is not loaded for a list.
    """
    from ..systems.named import algorithms, kind_of

    if manifest["algorithm"] not in algorithms():
        return False
    kind, preset = kind_of(manifest["algorithm"])
    default = kind.parse(preset).model_dump().get(name)
    # Through JSON, as the manifest has it: tuples are lists there.
    usual = json_text.loads(json_text.dumps(default, default=str))
    return bool(usual == manifest.get("settings_in_force", {}).get(name, UNSAID))


@takes(OpenOptions)
def report(
    *names: str,
    out: Path | None = None,
    user: str | None = None,
    audits: tuple[Path, ...] = (),
    folder: Runs = RUNS,
    **options: Any,
) -> None:
    """Write a self-contained HTML report of one run, or of several side by side. With audits it
    begins with accuracy against leakage.

    Example: entrenous audit latest --json > audit.json; entrenous report --audits audit.json

    Parameters
    ----------
    names:
        Names or folders of runs; default: the newest run.
    out:
        The file to write; default: report.html in the first run's folder.
    user:
        Also show the items that the first run recommends to this user.
    audits:
        Files with what `entrenous audit RUN --json` printed for runs of the report.
    folder:
        The folder that holds the stored runs.
    """
    from ..report.audits import read_audits
    from ..report.html import write_report
    from ..runs import store
    from ..runs.reopen import recommended

    how = OpenOptions(**options)
    first, *others = names or ("latest",)
    # Everything else of the page is in the runs.
    if user is None and how != OpenOptions():
        raise InputError(
            "--data",
            "the data is read for the list of a user alone",
            expected="--user ID",
            fix="leave --data, --algorithm and --todays-code out",
        )
    stored = [store.read(first, folder, how.data), *(store.read(name, folder) for name in others)]
    items = None
    if user is not None:
        items = recommended(stored[0], [user], how=how)[user]
    page = out or stored[0].path / "report.html"
    attacked = read_audits(audits, stored)
    tell(write_report(stored, page, audits=attacked, recommendations=items, user=user))


@takes(OpenOptions)
def export(
    run: str = "latest",
    /,
    *,
    out: Path,
    format: tuple[Format, ...] = ("csv", "trec"),
    n: int = 10,
    folder: Runs = RUNS,
    **options: Any,
) -> None:
    """Write a stored run as CSV (recommendations for all users, accuracy by user, learning curve)
    and in TREC's formats, all files or none.

    Example: entrenous export latest --out exported --n 20

    Parameters
    ----------
    run:
        A run's name or folder; default: the newest.
    out:
        A folder for the files; made if it is not there.
    format:
        csv: recommendations.csv with scores, users.csv and curve.csv; an id that a spreadsheet
        would run as a formula gets a leading '. trec: run.trec and qrels.trec, for trec_eval or
        ir-measures.
    n:
        Number of items in each list; run.trec has at least 100.
    folder:
        The folder that holds the stored runs.
    """
    from ..api.run import stored_run
    from ..core.files import write_all
    from ..runs import store

    at_least("--n", n, 1)
    how = OpenOptions(**options)
    stored = store.read(run, folder, how.data)
    # Refused before anything is computed: lists for all users may take a minute.
    _check_folder(out)
    result = stored_run(stored, algorithm=how.algorithm, todays_code=how.todays_code)
    trec = {}
    if "trec" in format:
        # TREC's measures look at longer lists than people do.
        trec = result.trec_files(max(n, 100))
    contents = _as_csv(result, n) if "csv" in format else {}
    tell("\n".join(map(str, write_all(out, {**contents, **trec}))))


def _check_folder(out: Path) -> None:
    """Raises InputError for a folder that cannot be made, or written to."""
    # What is not there yet can be made below what is.
    there = next(parent for parent in (out.absolute(), *out.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "may not be written to" if there.is_dir() else "is a file"
        raise InputError(
            str(out), f"cannot be written ({there} {why})", expected="a folder you may write to"
        )


def _as_csv(result: Run, n: int) -> dict[str, bytes]:
    """Returns the tables of a run as the contents of CSV files by name."""
    frames = {
        "recommendations.csv": result.recommend(n=n),
        "users.csv": result.per_user(),
        "curve.csv": result.curve(),
    }
    # A run without --every has no curve.
    return {name: _csv(frame, name) for name, frame in frames.items() if frame.height}


def _csv(frame: pl.DataFrame, name: str) -> bytes:
    """Returns a table in whose cells no spreadsheet finds a formula. Says how many were changed."""
    import polars as pl

    texts = pl.col(pl.String)
    changed = sum(frame.select(texts.str.contains(FORMULA).sum()).row(0))
    if changed:
        say(f"{name}: {changed} cells {CHANGED}")
    return frame.with_columns(texts.str.replace(FORMULA, "'${1}")).write_csv().encode()
