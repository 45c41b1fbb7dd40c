"""A split from a folder of files.

What `split.export.write` wrote comes back identical: indices, rows, candidates, notes. Of a folder made by others, `train` and
`test` with the columns user and item are enough; users and items are then numbered by first appearance.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import NO_TIME, Interactions, build
from .export import ESCAPED, FEATURE
from .given import Table, given
from .types import Split

PARTS = ("train", "validation", "test")


class Ids(NamedTuple):
    """The users and items files, where there are any."""

    users: Vocabulary | None
    items: Vocabulary | None
    features: dict[str, Array]


def read(folder: Path | str) -> Split:
    """The split in a folder. Raises InputError that names the file, the line where there is one, and what was expected."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(str(folder), "no such folder", expected="a folder with train and test files")
    about, ids = _about(folder / "split.json"), _ids(folder)
    frames = {part: _load(folder, part) for part in PARTS}
    for part in ("train", "test"):
        if frames[part] is None:
            raise InputError(str(folder), f"no {part} file", expected=f"{part}.csv or {part}.parquet")
    parts = {part: _interactions(frame, ids, about, folder / part) for part, frame in frames.items() if frame is not None}
    tables = {part: _candidates(folder, f"{part}_candidates") for part in PARTS[1:]}
    split = given(
        parts["train"],
        parts["test"],
        parts.get("validation"),
        tables["test"],
        validation_candidates=tables["validation"],
        name=about["name"],
        refit=about["refit"],
    )
    return split if about["notes"] is None else split._replace(notes=tuple(about["notes"]))


def _about(path: Path) -> dict[str, Any]:
    """What split.json says, or would say of a folder without one."""
    defaults = {"name": path.parent.name, "refit": False, "data": path.parent.name, "data_notes": []}
    if not path.exists():
        return {**defaults, "notes": None}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as problem:
        raise InputError(str(path), f"cannot be read: {problem}", expected="JSON", fix="mend or remove it") from None
    about = {**defaults, "notes": [], **found} if isinstance(found, dict) else {}
    if not all(isinstance(about.get(name), type(value)) for name, value in {**defaults, "notes": []}.items()):
        raise InputError(str(path), "does not describe a split", expected=f"an object with {', '.join(defaults)}, notes")
    return about


def _load(folder: Path, part: str) -> Any:
    """The table of a part, columns as text (CSV) or as they are (Parquet); None if there is no such file."""
    import polars as pl

    parquet, csv = folder / f"{part}.parquet", folder / f"{part}.csv"
    path = parquet if parquet.exists() else csv
    if not path.exists():
        return None
    try:
        if path is parquet:
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema=False).with_columns(pl.all().str.replace(ESCAPED, "${1}"))
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise InputError(str(path), f"cannot be read: {problem}", expected="a table with a header") from None


def _ids(folder: Path) -> Ids:
    users, items = _load(folder, "users"), _load(folder, "items")
    labels = [] if items is None else [label for label in items.columns if label.startswith(FEATURE)]
    return Ids(
        None if users is None else Vocabulary(_text(users, "user", folder / "users"), kind="user"),
        None if items is None else Vocabulary(_text(items, "item", folder / "items"), kind="item"),
        {label.removeprefix(FEATURE): _text(items, label, folder / "items") for label in labels},
    )


def _interactions(frame: Any, ids: Ids, about: dict[str, Any], path: Path) -> Interactions:
    user, item = _text(frame, "user", path), _text(frame, "item", path)
    users = ids.users if ids.users is not None else Vocabulary(list(dict.fromkeys(user.tolist())), kind="user")
    items = ids.items if ids.items is not None else Vocabulary(list(dict.fromkeys(item.tolist())), kind="item")
    value, time, row = (_numbers(frame, name, path) for name in ("value", "time", "row"))
    u, i = _listed(users, user, path), _listed(items, item, path)
    built = build(u, i, value=value, time=time, users=users, items=items, features=ids.features, name=str(path))
    assert built.row is not None  # here: the line of the file
    return replace(built, row=built.row if row is None else row[built.row], name=about["data"], notes=tuple(about["data_notes"]))


def _listed(names: Vocabulary, ids: Array, path: Path) -> Array:
    found = names.indices(ids.tolist())
    if len(found) and found.min() < 0:
        line = int(np.argmin(found))
        raise InputError(f"{path}:{line + 2}", f"{names.kind} '{ids[line]}' is not in the {names.kind}s file", fix="add it there")
    return found


def _candidates(folder: Path, part: str) -> Table | None:
    frame = _load(folder, part)
    return None if frame is None else Table(*(_text(frame, name, folder / part) for name in Table._fields))


def _text(frame: Any, name: str, path: Path) -> Array:
    """A column of ids or features as text. An id must not be empty; a feature may be."""
    import polars as pl

    if name not in frame.columns:
        raise InputError(
            str(path), f"no column '{name}'", expected=f"'{name}'", fix=f"the columns are: {', '.join(frame.columns)[:200]}"
        )
    column = frame[name].cast(pl.String).fill_null("").to_numpy().astype(np.str_)
    if name in Table._fields and len(column) and bool((column == "").any()):
        raise InputError(f"{path}:{int(np.argmax(column == '')) + 2}", f"the {name} is empty", expected="an id")
    return column


def _numbers(frame: Any, name: str, path: Path) -> Array | None:
    """The column value (float32), time or row (int64); None if there is none. A missing time becomes NO_TIME."""
    import polars as pl

    if name not in frame.columns:
        return None
    text = frame[name].cast(pl.String).fill_null("").to_numpy()
    number = frame[name].cast(pl.Float32 if name == "value" else pl.Int64, strict=False)
    bad = number.is_null().to_numpy() & ((text != "") | (name != "time"))
    if name == "value":
        bad |= ~np.isfinite(number.fill_null(0).to_numpy())
    if bad.any():
        line, expected = int(np.argmax(bad)), "a finite number" if name == "value" else "an integer"
        raise InputError(f"{path}:{line + 2}", f"the {name} is '{text[line]}'", expected=expected)
    return number.fill_null(NO_TIME if name == "time" else 0).to_numpy()
