"""A small shop on disk, and the command line in this process: what the tests of runs and commands
share.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from shlex import split
from typing import Any, NamedTuple

import numpy as np
import pytest

from entrenous.cli import main
from entrenous.data.interactions import Interactions
from entrenous.data.load import load


def write_shop(
    path: Path, *, users: int = 40, items: int = 60, rows: int = 12, seed: int = 0
) -> Path:
    """A CSV file of `users` with `rows` ratings each, two tastes, some items more popular, every
    time different.
    """
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(2, items + 2)
    lines = []
    for user in range(users):
        weight = popularity * np.where(np.arange(items) % 2 == user % 2, 1.0, 0.15)
        for item in rng.choice(items, rows, replace=False, p=weight / weight.sum()):
            lines.append(f"u{user},i{item},{rng.integers(1, 6)}")
    rng.shuffle(lines)
    text = "".join(f"{line},{1_000_000 + n}\n" for n, line in enumerate(lines))
    path.write_text("user_id,item_id,rating,timestamp\n" + text)
    return path


def shop(tmp_path: Path, **options: int) -> Interactions:
    """`write_shop`, loaded."""
    return load(str(write_shop(tmp_path / "shop.csv", **options)))


class Printed(NamedTuple):
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything else there is an error."""
        assert self.code in (0, 1), self.err
        assert self.out.count("\n") == 1 and self.out.endswith("\n")
        found = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> str:
        """The one line of an error; nothing on stdout."""
        begun = (
            r"[\w+ -]+ \d+/\d+|profile paper: .*"  # progress, and the line with which a run begins
        )
        lines = [line for line in self.err.splitlines() if not re.fullmatch(begun, line)]
        assert (
            self.code == 2 and self.out == "" and len(lines) == 1 and lines[0].startswith("error: ")
        ), self
        assert "Traceback" not in self.err
        return lines[0].removeprefix("error: ")


def with_fewer_test_rows(data: Interactions, folder: Path) -> list[Path]:
    """Folders of two splits of some rows, of which one has half of the other's test rows."""
    from entrenous.data.split.export import write
    from entrenous.data.split.types import Held
    from entrenous.runs.options import RunPlan
    from entrenous.runs.pipeline import material

    (part,) = material(RunPlan(algorithm="popular", protocol="temporal-80-20"), data).parts
    half = Held(part.test.rows.select(part.test.rows.item % 2 == 0))
    assert 0 < len(half.rows) < len(part.test.rows)
    return [write(part, folder / "whole"), write(part._replace(test=half), folder / "half")]


class Command:
    """`entrenous ARGUMENTS` in this process: command("run", "popular", "--data", path)."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Printed:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Printed(int(ended.value.code or 0), *self._capsys.readouterr())


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refuses(command: Command, lines: dict[str, str], folder: Path) -> None:
    """What a command says, and the command as a person writes it, which changes nothing."""
    before = contents(folder)
    for said, line in lines.items():
        assert said in command(*split(line)).error, line
        assert contents(folder) == before, line
