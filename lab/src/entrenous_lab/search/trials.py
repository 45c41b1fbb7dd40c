"""The trials of a search and their file: a line that says which search it is, then a line for each
finished trial.

A trial is on the disk before the next one (with workers: the next batch) begins. What a killed
search was writing is cut off when it goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from entrenous.core.errors import InputError
from entrenous.core.files import write_atomically
from entrenous.evaluation.protocol import GOALS, Goal


class TuningTrial(BaseModel):
    """One trial, as a line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    trial: int
    """Its number, from 0."""
    settings: dict[str, int | float | str]
    """The settings that are searched for."""
    looks: list[dict[int, dict[str, float]]]
    """By seed, {round: {metric: value on validation}}."""
    stopped: bool
    """True if it was given up early, in seed 0."""
    reason: str
    """The error of a trial that failed, else ""."""

    @model_validator(mode="after")
    def _has_looks(self) -> Self:
        # A hostile or damaged file must not stop a search in its middle.
        if not self.reason and not (self.looks and all(self.looks)):
            raise ValueError("a trial that did not fail has looks")
        names = [goal.metric for goal in GOALS]
        for of_seed in self.looks:
            if any(metrics.keys().isdisjoint(names) for metrics in of_seed.values()):
                raise ValueError(f"a look has {' or '.join(names)}")
        return self

    def curve(self, goal: Goal) -> dict[int, float]:
        """The goal's metric of seed 0 by round, which stopping early compares."""
        if not self.looks:
            return {}
        return {at: metrics[goal.metric] for at, metrics in self.looks[0].items()}


def check_file(path: Path | None, resume: bool) -> None:
    """Refuses to begin a search in a file that exists, and to continue from one that does not.
    Raises InputError.
    """
    if path is None:
        if resume:
            raise InputError(
                "--resume", "there is no file to go on from", fix="name it with --out FILE.jsonl"
            )
        return
    if resume and not path.exists():
        raise InputError(
            f"--resume {path}", "there is no such file", fix="leave --resume out to begin a search"
        )
    if path.exists() and not resume:
        raise InputError(
            f"--out {path}",
            "it is there already",
            fix="go on with it with --resume, or name another file",
        )


def begin_file(path: Path | None, about: dict[str, Any], resume: bool) -> list[TuningTrial]:
    """The trials in the file of a search; a new search makes its file.

    path: None = no file. about: the inputs that must be the same for a search to go on. A line that
    was being written when the search was killed is cut off. Raises InputError for another search's
    file or a damaged one.
    """
    if path is None:
        return []
    header = json.dumps(about, default=str)
    if not resume:
        write_atomically(path, header.encode() + b"\n")
        return []
    # After the last end of a line there is nothing, unless the search was killed while it wrote.
    *lines, rest = path.read_bytes().split(b"\n")
    if not lines:
        lines = [rest]
        rest = b""
    _check_same(path, lines[0], json.loads(header))
    if rest:
        write_atomically(path, b"".join(line + b"\n" for line in lines))
    return [_read(path, number, line) for number, line in enumerate(lines[1:])]


def _check_same(path: Path, line: bytes, about: dict[str, Any]) -> None:
    """Refuses the file of a search with other inputs."""
    try:
        # The files of earlier versions say nothing of workers: they had none.
        written = {"workers": 1, **json.loads(line)}
        differing = [name for name, value in about.items() if written[name] != value]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}:1", "this is not the file of a search", expected="one that --out wrote"
        ) from None
    for name in differing:
        # A digest would tell nobody what to change.
        expected = f"{name} = {json.dumps(written[name])}"
        if name == "rows_sha256":
            expected = "the same rows"
        raise InputError(
            f"--resume {path}",
            f"it is a search with another {name}",
            expected=expected,
            fix="or begin a new search with --out",
        )


def _read(path: Path, number: int, line: bytes) -> TuningTrial:
    try:
        trial = TuningTrial.model_validate_json(line)
    except ValidationError:
        trial = None
    if trial is None or trial.trial != number:
        raise InputError(
            f"{path}:{number + 2}",
            "the line is damaged",
            expected=f"trial {number}",
            fix="cut the file before this line",
        )
    return trial


def append(path: Path, trial: TuningTrial) -> None:
    """Appends a trial as a line of the file, and returns when it is on the disk."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(trial.model_dump_json() + "\n")
        file.flush()
        # A trial may have taken hours; it must outlive a power cut.
        os.fsync(file.fileno())
