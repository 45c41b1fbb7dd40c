"""Results in a folder: NAME.json, NAME.md and figures, with their origin; and which of them are
those of today's program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, final

from pydantic import BaseModel, ConfigDict, ValidationError

from entrenous.core.errors import InputError, one_line
from entrenous.runs.store import write_atomically

from .provenance import changed
from .render import markdown, standalone
from .result import ExperimentResult, Row
from .table import system_of

FOLDER = Path("lab") / "results"
AGAIN = "make it again: entrenous papers NAME"


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


@final
class StoredRow(_Shape):
    """What a row of a stored result must have; it may have more."""

    data: str
    system: str
    metric: str
    paper: float | None
    obtained: float | None
    protocol: str = ""
    censored: list[bool] = []
    spread: float | None = None
    values: list[float] = []


@final
class StoredTest(_Shape):
    """What a paired test of a stored result must have."""

    data: str
    a: str
    b: str
    metric: str
    difference: float
    low: float
    high: float
    users: int
    seeds: int
    freedom: float
    holds: str
    t: float
    p: float
    p_holm: float


@final
class StoredConfirmation(_Shape):
    """What a result says of a later program that began a sample of it again, see `confirm`.
    training, settings: the identities of that program. differ: what gave something else. seconds:
    how long that took.
    """

    date: str
    commit: str
    trainings: int
    training: str
    settings: str = ""
    differ: list[str] = []
    seconds: float = 0.0


@final
class StoredMaking(_Shape):
    """When and by which program a data set of a result was made, if that was earlier than the rest,
    see `joined`.
    """

    date: str
    commit: str
    confirmed: StoredConfirmation | None = None


@final
class StoredOrigin(_Shape):
    """What the origin of a stored result must have, see `provenance`. sample: {training: identity
    of what it gave}, table_sample: the identity of what the table makes of made-up outcomes, see
    `confirm`. earlier: {data set: its making}, see `joined`.
    """

    date: str
    commit: str
    pins: dict[str, str]
    algorithms: list[str]
    settings: list[list[str]] = []
    program: dict[str, str]
    sample: dict[str, str] = {}
    table_sample: str = ""
    confirmed: StoredConfirmation | None = None
    earlier: dict[str, StoredMaking] = {}


@final
class StoredShape(_Shape):
    """What the JSON of a stored result must have: finite numbers, and all that pages are filled
    from.
    """

    title: str
    quick: bool
    rows: list[StoredRow]
    notes: list[str]
    tests: list[StoredTest]
    origin: StoredOrigin
    figures: list[str]
    seconds: float
    computed: int
    remembered: int
    only: list[str] = []


def set_of(line: Mapping[str, Any]) -> str:
    """The data set of a row or a test, without what was left out of it."""
    name: str = line["data"].partition(",")[0]
    return name


class StoredResult(NamedTuple):
    """A result as its JSON has it. content: as `ExperimentResult.as_json`."""

    name: str
    content: Mapping[str, Any]

    @property
    def quick(self) -> bool:
        """Whether the result is an excerpt, with less data or training than the full table."""
        return bool(self.content["quick"])

    @property
    def only(self) -> tuple[str, ...]:
        """The data sets that were asked for; () = all that the experiment has."""
        return tuple(self.content.get("only", ()))

    @property
    def sets(self) -> tuple[str, ...]:
        """The data sets that its rows are of, by the names that `--data` takes.

        >>> StoredResult("t", {"rows": [{"data": "a, 10 or more ratings"}, {"data": "a"}]}).sets
        ('a',)
        """
        return tuple(dict.fromkeys(map(set_of, self.content["rows"])))

    @property
    def kind(self) -> str:
        """How much of the experiment it is, in one word."""
        return "quick" if self.quick else "part" if self.only else "full"

    @property
    def origin(self) -> Mapping[str, Any]:
        """Where the result comes from: day, commit, versions, rows, program, as `provenance` makes
        it.
        """
        found: Mapping[str, Any] = self.content["origin"]
        return found

    def made(self, data: Sequence[str] = ()) -> list[Mapping[str, Any]]:
        """When and by which program the rows of some data sets (none: of all) were made, each once,
        the earliest first.

        >>> origin = {"date": "2026-02-02", "commit": "b", "earlier": {"x": {"date": "2026-01-01",
        ...     "commit": "a"}}}
        >>> result = StoredResult("t", {"rows": [{"data": "x"}, {"data": "y"}], "origin": origin})
        >>> [[one["commit"] for one in result.made(data)] for data in ((), ["x"], ["y"])]
        [['a', 'b'], ['a'], ['b']]
        """
        names = data or dict.fromkeys(row["data"] for row in self.content["rows"])
        makings = [self.origin.get("earlier", {}).get(name, self.origin) for name in names] or [
            self.origin
        ]
        return sorted(
            {one["commit"]: one for one in makings}.values(), key=lambda one: str(one["date"])
        )

    @property
    def seeds(self) -> str:
        """How many values stand behind the figures of each data set: seeds, or folds of a
        cross-validation.

        >>> rows = [{"data": "a", "values": [1, 2]}, {"data": "b", "values": [1]}]
        >>> StoredResult("t", {"rows": rows}).seeds
        'a 2, b 1'
        """
        of = self._values()
        return (
            str(next(iter(of.values())))
            if len(set(of.values())) == 1
            else ", ".join(f"{data} {n}" for data, n in of.items())
        )

    def counted(self, data: Sequence[str] = ()) -> str:
        """The same in words, of some data sets (none: of all).

        >>> StoredResult("t", {"rows": [{"data": "a", "values": [1, 2], "seeds": [0, 1]}, {
        ...     "data": "b"}]}).counted(["a"])
        '2 seeds'
        """
        of = {name: n for name, n in self._values().items() if name in data or not data}
        folds = any(
            row.get("values") and "seeds" not in row
            for row in self.content["rows"]
            if row["data"] in of
        )
        unit = "fold" if folds else "seed"
        said = [f"{n} {unit}{'s' if n > 1 else ''}" for n in of.values()]
        return (
            said[0]
            if len(set(said)) == 1
            else ", ".join(f"{name} {some}" for name, some in zip(of, said, strict=True))
        )

    def seeds_of(self, data: str) -> int:
        """How many values stand behind the figures of a data set, 0 if it has no rows."""
        return self._values().get(data, 0)

    def _values(self) -> dict[str, int]:
        of: dict[str, int] = {}
        for row in self.content["rows"]:
            of[row["data"]] = max(of.get(row["data"], 1), len(row.get("values") or ()))
        return of

    def row(self, data: str, system: str, metric: str) -> Row | None:
        """The row of a figure; None if there is none. system: where a table has several pi, with `,
        pi 0.5` after it.
        """
        named = (
            row for row in self.content["rows"] if (row["data"], row["metric"]) == (data, metric)
        )
        return next(
            (
                row
                for row in named
                if system in (str(of := system_of(row)), f"{of}, pi {row.get('pi')}")
            ),
            None,
        )

    def tested(self, data: str, a: str, b: str, metric: str) -> Mapping[str, Any] | None:
        """The paired test of a system against another, turned round if it is stored the other way;
        None if there is none.
        """
        for test in self.content["tests"]:
            if (test["data"], test["metric"]) == (data, metric) and {test["a"], test["b"]} == {
                a,
                b,
            }:
                sign = 1 if test["a"] == a else -1
                ends = sorted((sign * test["low"], sign * test["high"]))
                return {
                    **test,
                    "a": a,
                    "b": b,
                    "difference": sign * test["difference"],
                    "low": ends[0],
                    "high": ends[1],
                }
        return None

    def changed(self) -> list[str]:
        """What of program and settings is no longer as it was when the result was made, as
        `provenance.changed` has it.
        """
        return changed(self.origin)


def keep(result: ExperimentResult, folder: Path, seeds: int = 0, only: Sequence[str] = ()) -> None:
    """Writes NAME.json, NAME.md and NAME-FIGURE.svg; each is whole or not there. Figures that are
    no longer drawn go.

    seeds, only: how many seeds and which data sets were asked for, 0 and none = as usual.
    """
    drawn = {f"{result.name}-{figure}": svg for figure, svg in result.figures.items()}
    shown = replace(result, figures=drawn, folder=None)
    content = {**shown.as_json(), "asked_seeds": seeds, "only": [*only]}
    for old in folder.glob(f"{result.name}-*.svg"):
        if old.stem not in drawn:
            old.unlink()
    for file, svg in drawn.items():
        write_atomically(folder / f"{file}.svg", standalone(svg).encode())
    write_atomically(folder / f"{result.name}.md", markdown(shown).encode())
    write_atomically(folder / f"{result.name}.json", _text(content))


def rewrite(folder: Path, stored: StoredResult, origin: Mapping[str, Any]) -> None:
    """Adds to the origin of a stored result; all else stays as it is."""
    content = {**stored.content, "origin": {**stored.origin, **origin}}
    write_atomically(folder / f"{stored.name}.json", _text(content))


def _text(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def stored_in(folder: Path, names: Iterable[str]) -> dict[str, StoredResult]:
    """Those of the names that are in a folder. Raises InputError for a file that is none of
    ours.
    """
    found = {name: folder / f"{name}.json" for name in names}
    return {name: StoredResult(name, _read(path)) for name, path in found.items() if path.is_file()}


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        StoredShape.model_validate(content)
    except ValidationError as bad:
        first = bad.errors()[0]
        what = (
            f"it is not a stored result: {'.'.join(map(str, first['loc'])) or 'the whole'}:"
            f" {one_line(first['msg'])}"
        )
        raise InputError(
            str(path), what, expected="a file that entrenous wrote", fix=AGAIN
        ) from None
    except (OSError, ValueError) as bad:
        raise InputError(
            str(path),
            f"it cannot be read: {one_line(str(bad))}",
            expected="a stored result",
            fix=AGAIN,
        ) from None
    return content


def figures_of(stored: StoredResult, folder: Path) -> dict[str, str]:
    """Returns the figures of a stored result, by what comes after its name.

    Raises InputError if one is not in the folder.
    """
    found = {}
    for file in stored.content["figures"]:
        try:
            found[Path(file).stem.removeprefix(f"{stored.name}-")] = (
                folder / Path(file).name
            ).read_text(encoding="utf-8")
        except OSError:
            raise InputError(
                str(folder / file), "it is not there", expected="the figure of a stored result"
            ) from None
    return found
