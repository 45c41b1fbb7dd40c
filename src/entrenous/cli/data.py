"""`entrenous data`: which data sets there are, what is in one, fetching it, checking a file."""

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

A data set is a name (see `entrenous data list`), or a file or folder of yours: CSV, TSV, Parquet,
RecBole .inter or MovieLens ::, with a column for the user, one for the item and, if there are any,
one for the value (a rating) and one for the time.
Named data sets are kept in the data folder; the environment variable {VARIABLE} sets it.""",
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
    """Lists the named data sets: which are here, how large they are, on what terms they may be
    used.

    The second column says whether a set is in the data folder (here), can be fetched (fetch), must
    be got by hand from where `--json` says (by hand), or is made on demand (made)."""
    from ..data.dataset import datasets
    from ..data.home import data_home

    known = datasets()
    if json:
        _print_json({"home": str(data_home()), "data": [_declared(one) for one in known.values()]})
        return
    tell(f"data folder: {data_home()}")
    width = max(len(name) for name in known)
    for one in known.values():
        tell(
            f"{one.name:{width}}  {_state(one):7}  {one.summary}\n{'':{width}}  {'':7}  terms:"
            f" {one.terms}"
        )


def _state(one: Dataset) -> str:
    if one.synthetic:
        return "made"
    return "here" if one.present() else ("fetch" if one.sources else "by hand")


def _declared(one: Dataset) -> dict[str, Any]:
    about = {
        "name": one.name,
        "summary": one.summary,
        "present": one.present(),
        "fetchable": bool(one.sources),
        "synthetic": one.synthetic,
    }
    return about | {
        "folder": None if one.synthetic else str(one.path),
        "terms": one.terms,
        "citation": one.citation,
        "origin": one.origin,
    }


@app.command
def fetch(name: str, *, json: Json = False) -> None:
    """Fetches a named data set into the data folder; from then on it works offline.

    Parameters
    ----------
    name:
        A data set from `entrenous data list`.
    """
    from ..data.dataset import dataset

    one = dataset(name)
    source = one.fetch(say)
    data = one.load(fetch=False)
    if json:
        about = {
            "name": name,
            "folder": None if one.synthetic else str(one.path),
            "fetched": source is not None,
        }
        _print_json(about | {"source": None if source is None else str(source), "rows": len(data)})
        return
    tell(
        f"{data} is made on demand"
        if one.synthetic
        else f"{data} is {'now' if source else 'already'} in {one.path}"
    )
    tell(f"terms: {one.terms}")


@app.command
def info(data: str, *, load: LoadListed = None, json: Json = False) -> None:
    """Says what is in a data set: users, items, rows, density, times, rows per user, and what was
    done to load it.

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
        for line in value if name == "notes" else [_text(value)]:
            tell(f"{name.replace('_', ' '):14} {line}")


@app.command
def check(file: str, *, load: LoadListed = None, json: Json = False) -> None:
    """Checks a file or folder: says OK and how it was read, or in one line what is wrong, where,
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

    loaded = load_data(file, fetch=False, **loading(load))
    if json:
        _print_json({"ok": True, **describe(loaded)})
        return
    tell(f"OK: {loaded}")
    for note in loaded.notes:
        tell(f"  {note}")


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {_text(one)}" for name, one in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


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
    """Write a split, with its frozen candidates, as files that `--protocol given` (or any other
    program) reads.

    Example: entrenous split ml-100k --protocol temporal-80-20 --out mysplit

    Parameters
    ----------
    data:
        A data set, file or folder.
    protocol:
        How rows are held out: {protocols}.
    out:
        A new folder; one folder a fold under it for kfold.
    seed:
        Names the split and its candidates.
    parquet:
        Parquet instead of CSV.
    """
    from ..data.split.export import write
    from ..runs.options import RunPlan
    from ..runs.pipeline import material

    plan = RunPlan(
        algorithm="popular",
        data=data,
        protocol=protocol,
        seed=seed,
        load=assignments(load, "--load"),
    )
    parts = material(plan).parts
    ids = (*parts[0].train.users.ids, *parts[0].train.items.ids)
    changed = 0 if parquet else sum(is_formula(one) for one in ids)
    if changed:
        say(f"{changed} ids {CHANGED}, as this program does when it reads the split")
    for number, part in enumerate(parts, 1):
        tell(
            write(
                part,
                out if len(parts) == 1 else out / str(number),
                format="parquet" if parquet else "csv",
            )
        )
