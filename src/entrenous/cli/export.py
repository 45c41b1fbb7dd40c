"""`entrenous export`: a stored run as files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.cells import CHANGED, FORMULA
from ..core.errors import InputError, at_least
from .console import say, tell
from .options import RUNS, OwnPlace, Runs, TodaysCode

if TYPE_CHECKING:
    import polars as pl

Format = Literal["csv", "trec"]


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
    from ..api.running import open as opened

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
