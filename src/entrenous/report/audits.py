"""Audits for a report, from the files that `entrenous audit --json` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from ..core.errors import InputError, one_line
from ..runs.store import StoredRun
from .leakage import Audits

# Bytes of a file; an audit has some ten thousand.
LARGEST = 64 * 2**20
WANTED = "what `entrenous audit RUN --json` prints"

Share = Annotated[float, Field(ge=0, le=1)]
Difference = Annotated[float, Field(ge=-1, le=1)]
View = Literal["individual", "sum", "difference", "neighbour", "model", "planted"]


def _whole(spread: list[float]) -> list[float]:
    """A spread, which has eleven quantiles or none."""
    if len(spread) not in (0, 11):
        raise ValueError("expected 11 quantiles")
    return spread


Spread = Annotated[list[Share], AfterValidator(_whole)]


def _together(**figures: float | None) -> None:
    """Raises ValueError where some figures are there and others are not."""
    if len({figure is None for figure in figures.values()}) > 1:
        raise ValueError(f"expected all of {', '.join(figures)}, or none")


class _Participation(BaseModel):
    """The figures of an attack on people whom a training left out; None where it was not tried."""

    people: int = Field(ge=0)
    guessable: Share | None
    took_part: Share | None
    because: Difference | None

    @model_validator(mode="after")
    def _tried_or_not(self) -> Self:
        _together(guessable=self.guessable, took_part=self.took_part, because=self.because)
        return self


class _Attack(BaseModel):
    """The figures of an attack that a report shows; None where it was not tried."""

    name: str
    asks: str = "histories"
    verdict: str
    note: str = ""
    precision: Share | None
    recall: Share | None
    r_precision: Share | None
    popularity_r_precision: Share | None
    low: Difference | None
    high: Difference | None
    worst: Share | None
    rounds_to_half: int | None
    spread: Spread = []
    popularity_spread: Spread = []
    participation: _Participation | None = None

    @model_validator(mode="after")
    def _tried_or_not(self) -> Self:
        _together(
            r_precision=self.r_precision,
            popularity_r_precision=self.popularity_r_precision,
            worst=self.worst,
        )
        _together(low=self.low, high=self.high)
        return self


class _Audit(BaseModel):
    """The part of an audit that a report shows."""

    run: str
    view: View
    rounds: int
    cohort: int
    attacks: list[_Attack]


def read_audits(paths: Iterable[Path], runs: Iterable[StoredRun]) -> Audits:
    """The audits in some files, by the name of the run that each is of. Raises InputError for a
    file that holds no audit of one of these runs.
    """
    names = [run.path.name for run in runs]
    audits: dict[str, dict[str, Any]] = {}
    for path in paths:
        audit = _read(path)
        if audit["run"] not in names or audit["run"] in audits:
            again = "twice" if audit["run"] in audits else "and the report has no such run"
            raise InputError(
                str(path),
                one_line(f"is an audit of the run '{audit['run']}', {again}"),
                expected="one audit of a run of the report",
                fix=f"name the run too, or leave the file out; the report has {', '.join(names)}",
            )
        audits[audit["run"]] = audit
    return audits


def _read(path: Path) -> dict[str, Any]:
    """An audit, checked."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as bad:
        raise InputError(
            str(path), f"cannot be read ({bad.strerror})", expected=f"a file with {WANTED}"
        ) from None
    if len(text) > LARGEST:
        raise InputError(str(path), "is too large", expected=WANTED)
    try:
        found = json.loads(text)
        return _Audit.model_validate(found).model_dump()
    except ValidationError as bad:
        first = bad.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        problem = one_line(f"{where}: {first['msg']}")
    except (ValueError, RecursionError):
        problem = "is no JSON"
    raise InputError(
        str(path),
        problem,
        expected=WANTED,
        fix="audit a stored run: `entrenous audit RUN --json > audit.json`",
    )
