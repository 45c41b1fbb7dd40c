"""`entrenous data` and `split`: list, describe, fetch and check data sets; write splits."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter

from ..core.cells import CHANGED, is_formula
from ..data.home import VARIABLE
from .console import say, tell
from .options import Load, LoadListed, assignments, loading

if TYPE_CHECKING:
    from ..data.dataset import Dataset

app = cyclopts.App(
    name="data",
    help=f"""Data sets: list them, look at one, fetch it, check a file of your own.

A data set is a name (see `entrenous data list`), or a file or folder of your own: CSV, TSV,
Parquet, RecBole .inter or MovieLens :: files with a column for the user and one for the item, and
optionally one for the value (a rating) and one for the time.
Named data sets are kept in the data folder, which the environment variable {VARIABLE} sets.""",
)

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print one JSON object on standard output, and nothing else there.",
    ),
]


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """List the named data sets: which are here, how large they are, and on what terms they may be
    used.

    The second column says that a set is in the data folder (here), can be fetched (fetch), has to
    be downloaded by hand from the page that `--json` names (by hand), or is made on demand (made).
    """
    from ..data.dataset import datasets
    from ..data.home import data_home

    known = datasets()
    if json:
        declared = [_declared(dataset) for dataset in known.values()]
        _print_json({"home": str(data_home()), "data": declared})
        return
    tell(f"data folder: {data_home()}")
    width = max(len(name) for name in known)
    # The terms of use stand below the summary, in its column.
    indent = " " * (width + 11)
    for dataset in known.values():
        tell(f"{dataset.name:{width}}  {_state(dataset):7}  {dataset.summary}")
        tell(f"{indent}terms: {dataset.terms}")


def _state(dataset: Dataset) -> str:
    """Returns where a data set is, or how it is got, in a word."""
    if dataset.synthetic:
        return "made"
    if dataset.present():
        return "here"
    return "fetch" if dataset.sources else "by hand"


def _declared(dataset: Dataset) -> dict[str, Any]:
    """Returns the declaration of a data set for JSON."""
    return {
        "name": dataset.name,
        "summary": dataset.summary,
        "present": dataset.present(),
        "fetchable": bool(dataset.sources),
        "synthetic": dataset.synthetic,
        "folder": None if dataset.synthetic else str(dataset.path),
        "terms": dataset.terms,
        "citation": dataset.citation,
        "origin": dataset.origin,
    }


@app.command
def fetch(name: str, *, json: Json = False) -> None:
    """Fetch a named data set into the data folder; afterwards it can be used offline.

    Parameters
    ----------
    name:
        A data set from `entrenous data list`.
    """
    from ..data.dataset import dataset

    wanted = dataset(name)
    # None if the files are here already, or are made on demand.
    source = wanted.fetch(say)
    # Loaded too, so that a damaged download is found now and not in the first experiment.
    data = wanted.load(fetch=False)
    if json:
        about = {
            "name": name,
            "folder": None if wanted.synthetic else str(wanted.path),
            "fetched": source is not None,
            "source": None if source is None else str(source),
            "rows": len(data),
        }
        _print_json(about)
        return
    if wanted.synthetic:
        tell(f"{data} is made on demand")
    else:
        tell(f"{data} is {'now' if source else 'already'} in {wanted.path}")
    tell(f"terms: {wanted.terms}")


@app.command
def info(data: str, *, load: LoadListed = None, json: Json = False) -> None:
    """Describe a data set: users, items, rows, density, times, rows per user, and what was done to
    load it.

    Parameters
    ----------
    data:
        A named data set, a file or a folder.
    load:
        How to read a file, name=value; may be repeated, such as item=venue. {load}.
    """
    from ..data.describe import describe
    from ..data.load import load as load_data

    about = describe(load_data(data, **loading(load)))
    if json:
        _print_json(about)
        return
    for name, value in about.items():
        # Notes are sentences, each on its own line.
        lines = value if name == "notes" else [_text(value)]
        for line in lines:
            tell(f"{name.replace('_', ' '):14} {line}")


@app.command
def check(file: str, *, load: LoadListed = None, json: Json = False) -> None:
    """Check a file or folder: print OK and how it was read, or one line on what is wrong, where,
    and how to fix it.

    Exit code 0 if it can be used, 2 if not. Nothing is written.

    Parameters
    ----------
    file:
        A file or folder with interactions, or a named data set.
    load:
        How to read a file, name=value; may be repeated, such as item=venue. {load}.
    """
    from ..data.describe import describe
    from ..data.load import load as load_data

    # A check downloads nothing, also for the name of a data set.
    loaded = load_data(file, fetch=False, **loading(load))
    if json:
        _print_json({"ok": True, **describe(loaded)})
        return
    tell(f"OK: {loaded}")
    for note in loaded.notes:
        tell(f"  {note}")


def _text(value: object) -> str:
    """Returns a value of `describe` for people."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return "  ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def _print_json(about: dict[str, Any]) -> None:
    tell(json_text.dumps(about, ensure_ascii=False))


def split(
    data: str,
    /,
    *,
    protocol: str = "loo-99",
    out: Path,
    seed: int = 0,
    load: Load = None,
    parquet: bool = False,
) -> None:
    """Write a split, with its frozen candidates, as files that `--protocol given` and other
    programs can read.

    Example: entrenous split ml-100k --protocol temporal-80-20 --out mysplit

    Parameters
    ----------
    data:
        A data set, file or folder.
    protocol:
        How rows are held out: {protocols}.
    out:
        A new folder; for kfold, it gets one folder for each fold.
    seed:
        The seed that determines the split and its candidates.
    parquet:
        Write Parquet instead of CSV.
    """
    from ..data.split.export import write
    from ..runs.options import RunPlan
    from ..runs.pipeline import material

    # A run would make the very same split; its algorithm has no influence on it.
    plan = RunPlan(
        algorithm="popular",
        data=data,
        protocol=protocol,
        seed=seed,
        load=assignments(load, "--load"),
    )
    parts = material(plan).parts
    # A spreadsheet would run an id such as =1+1, so such ids are written with a leading '.
    ids = (*parts[0].train.users.ids, *parts[0].train.items.ids)
    changed = 0 if parquet else sum(is_formula(name) for name in ids)
    if changed:
        say(f"{changed} ids {CHANGED}, as this program does when it reads the split")
    for number, part in enumerate(parts, 1):
        folder = out if len(parts) == 1 else out / str(number)
        tell(write(part, folder, format="parquet" if parquet else "csv"))
