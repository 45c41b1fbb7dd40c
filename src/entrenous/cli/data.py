"""`entrenous data` and `split`: list, describe, fetch and check data sets; write splits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter

from ..core.cells import CHANGED, is_formula
from ..core.errors import one_line
from ..data.home import VARIABLE
from .console import emit_json, say, tell
from .options import Load, LoadListed, assignments, loading

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..data.reading import Reading

app = cyclopts.App(
    name="data",
    help=f"""Data sets: list them, look at one, fetch it, check a file of your own.

A data set is a name (see `entrenous data list`), or a file or folder of your own: CSV, TSV,
Parquet, JSON lines and others (see `entrenous data formats`) with a column for the user and one for
the item, and optionally one for the value (a rating) and one for the time.
Named data sets are kept in the data folder, which the environment variable {VARIABLE} sets.""",
)

# The state of a data set that has to be downloaded by hand.
BY_HAND = "by hand"
# Columns in the report that are not read and may be missed.
SHOWN = 12

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
    be downloaded by hand (by hand; the line `get` says which file, from where and into which
    folder), or is made on demand (made).
    """
    from ..data.dataset import datasets
    from ..data.home import data_home

    known = datasets()
    if json:
        declared = [_declared(dataset) for dataset in known.values()]
        emit_json({"home": str(data_home()), "data": declared})
        return
    tell(f"data folder: {data_home()}")
    width = max(len(name) for name in known)
    # The terms of use stand below the summary, in its column.
    indent = " " * (width + 11)
    for name, dataset in known.items():
        tell(f"{name:{width}}  {_state(dataset):7}  {dataset.summary}")
        tell(f"{indent}terms: {dataset.terms}")
        if _state(dataset) == BY_HAND:
            tell(f"{indent}get: {dataset.origin}; put it into {dataset.path}")
    _tell_more()


def _tell_more() -> None:
    """Says where recipes of published data sets are, if none are installed."""
    from ..core.registry.neighbours import neighbour

    if not _recipes():
        tell(f"more published data sets: {neighbour('field').line}")


def _recipes() -> dict[str, Any]:
    """Returns the recipes of published files by name, if a neighbour brings some."""
    from ..core.registry.plugins import plugged_in

    engine = plugged_in("engines", "recipes")
    return {} if engine is None else engine.recipes()


def _state(dataset: Dataset) -> str:
    """Returns where a data set is, or how it is got, in a word."""
    if dataset.synthetic:
        return "made"
    if dataset.present():
        return "here"
    return "fetch" if dataset.sources else BY_HAND


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


@app.command(name="formats")
def formats_(*, json: Json = False) -> None:
    """List the formats of files, and the published files that --load format=NAME reads untouched.

    A format is recognised by the content of a file; format=NAME is for one that is not.
    """
    from ..data.files import formats

    published = _recipes()
    known = {name: form.summary for name, form in formats().items()}
    if json:
        presets = {
            name: {"about": preset.about, "files": [file.name for file in preset.files]}
            for name, preset in published.items()
        }
        emit_json({"formats": known, "presets": presets})
        return
    width = max(map(len, [*known, *published]))
    tell("formats, recognised by the content:")
    for name, summary in known.items():
        tell(f"  {name:{width}}  {summary}")
    tell("published files, read as they are:")
    for name, preset in published.items():
        files = ", ".join(dict.fromkeys(file.name for file in preset.files))
        tell(f"  {name:{width}}  {preset.about}: {files}")
    _tell_more()


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
        emit_json(about)
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

    loaded = load_data(data, **loading(load))
    about = describe(loaded)
    if json:
        emit_json(about)
        return
    reading = loaded.reading
    del about["reading"]
    for name, value in about.items():
        tell(f"{name.replace('_', ' '):14} {_text(value)}")
    for line in _report(reading):
        tell(line)


@app.command
def check(file: str, *, load: LoadListed = None, strict: bool = False, json: Json = False) -> None:
    """Check a file or folder: print OK and the report of its reading, or one line on what is wrong,
    where, and how to fix it: all obstacles, and the command with every option that they need.

    The report says for each column which role it has and why, or that it is not read; what was
    assumed, with the option that says it; which rows were left out; and which ids look odd. Exit
    code 0 if the file can be used, 2 if not. Nothing is written.

    Parameters
    ----------
    file:
        A file or folder with interactions, or a named data set.
    load:
        How to read a file, name=value; may be repeated, such as item=venue. {load}.
    strict:
        Refuse whatever was guessed. The same as --load strict=true.
    """
    from ..data.describe import describe
    from ..data.obstacles import check as checked

    how = assignments(load, "--load")
    if strict:
        how["strict"] = "true"
    # A check downloads nothing, also for the name of a data set.
    loaded = checked(file, how)
    about = describe(loaded)
    if json:
        emit_json({"ok": True, **about})
        return
    tell(f"OK: {loaded}")
    for line in _report(loaded.reading):
        tell(f"  {line}")
    if about["times"] is not None:
        tell(f"  times: {_text(about['times'])}")


def _report(reading: Reading) -> Iterator[str]:
    """Yields the lines of the report of a reading: a line for each column that is read or may be
    missed, then the other sentences.
    """
    read, *others = reading.sentences if reading.columns else ("", *reading.sentences)
    missed = [use for use in reading.columns if use.missed]
    shown = [use for use in reading.columns if use.role or use in missed[:SHOWN]]
    if read:
        yield read
    names = [one_line(use.name, 40) for use in shown]
    width = max(map(len, names), default=0)
    for name, use in zip(names, shown, strict=True):
        yield one_line(f"  {name:{width}}  {use.role or '-':5}  {use.why}")
    if len(missed) > SHOWN:
        yield f"  and {len(missed) - SHOWN:,} more columns that may be missed"
    yield from others


def _text(value: object) -> str:
    """Returns a value of `describe` for people."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        parts = {name.replace("_", " "): _text(part) for name, part in value.items()}
        return "  ".join(f"{name} {part}" for name, part in parts.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def split(
    data: str,
    /,
    *,
    protocol: str = "loo-99",
    out: Path,
    seed: int = 0,
    load: Load = None,
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
    changed = sum(is_formula(name) for name in ids)
    if changed:
        say(f"{changed} ids {CHANGED}, as this program does when it reads the split")
    for number, part in enumerate(parts, 1):
        folder = out
        if len(parts) != 1:
            folder = out / str(number)
        written = write(part, folder)
        # Notes are about a split that there is.
        for note in part.notes:
            say(note)
        tell(written)
