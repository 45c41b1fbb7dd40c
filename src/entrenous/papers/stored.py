"""Results in a folder: NAME.json, NAME.md and figures, with their origin; and which of them are those of today's program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import InputError
from ..runs.store import write_atomically
from .provenance import changed
from .render import markdown, standalone
from .result import ExperimentResult

FOLDER = Path("docs") / "results"
AGAIN = "make it again: entrenous papers NAME"


class StoredResult(NamedTuple):
    """A result as its JSON has it. content: as `ExperimentResult.as_json`."""

    name: str
    content: Mapping[str, Any]

    @property
    def quick(self) -> bool:
        """Whether the result is an excerpt, with less data or training than the full table."""
        return bool(self.content["quick"])

    @property
    def origin(self) -> Mapping[str, Any]:
        """Where the result comes from: day, commit, versions, rows, program, as `provenance` makes it."""
        found: Mapping[str, Any] = self.content["origin"]
        return found

    @property
    def seeds(self) -> str:
        """How many values stand behind the figures of each data set: seeds, or folds of a cross-validation.

        >>> rows = [{"data": "a", "values": [1, 2]}, {"data": "b", "values": [1]}]
        >>> StoredResult("t", {"rows": rows}).seeds
        'a 2, b 1'
        """
        of: dict[str, int] = {}
        for row in self.content["rows"]:
            of[row["data"]] = max(of.get(row["data"], 1), len(row.get("values") or ()))
        return str(next(iter(of.values()))) if len(set(of.values())) == 1 else ", ".join(f"{data} {n}" for data, n in of.items())

    def changed(self) -> list[str]:
        """What of program and settings is no longer as it was when the result was made, as `provenance.changed` has it."""
        return changed(self.name, self.origin)


def keep(result: ExperimentResult, folder: Path, seeds: int = 0) -> None:
    """Writes NAME.json, NAME.md and NAME-FIGURE.svg; each is whole or not there. Figures that are no longer drawn go.

    seeds: how many were asked for, 0 = as usual.
    """
    drawn = {f"{result.name}-{figure}": svg for figure, svg in result.figures.items()}
    shown = replace(result, figures=drawn, folder=None)
    content = {**shown.as_json(), "asked_seeds": seeds}
    for old in folder.glob(f"{result.name}-*.svg"):
        if old.stem not in drawn:
            old.unlink()
    for file, svg in drawn.items():
        write_atomically(folder / f"{file}.svg", standalone(svg).encode())
    write_atomically(folder / f"{result.name}.md", markdown(shown).encode())
    write_atomically(folder / f"{result.name}.json", (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def stored_in(folder: Path, names: Iterable[str]) -> dict[str, StoredResult]:
    """Those of the names that are in a folder. Raises InputError for a file that is none of ours."""
    found = {name: folder / f"{name}.json" for name in names}
    return {name: StoredResult(name, _read(path)) for name, path in found.items() if path.is_file()}


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as bad:
        raise InputError(str(path), f"it cannot be read: {bad}", expected="a stored result", fix=AGAIN) from None
    if not isinstance(content, dict) or not {"rows", "quick", "tests", "origin"} <= content.keys():
        raise InputError(str(path), "it is not a stored result", expected="rows, quick, tests, origin", fix=AGAIN)
    return content
