"""`entrenous server --workers` and `--ray`: who takes answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from entrenous_network.operate import running


@pytest.mark.parametrize("count", ["0", "-2"])
def test_fewer_than_one_worker_is_one_line(tmp_path: Path, command: Command, count: str) -> None:
    line = command("server", str(tmp_path), "--workers", count).error
    assert f"--workers: got {count}" in line and "a whole number from 1" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "workers", "ray"),
    [
        ([], 1, None),
        (["--workers", "3"], 3, None),
        (["--ray", "local", "--workers", "3"], 3, "local"),
    ],
)
def test_the_server_gets_the_workers_that_were_asked_for(
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    workers: int,
    ray: str | None,
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        running, "run_server", lambda folder, stop, say, **options: given.append(options)
    )
    assert command("server", str(tmp_path), *words).code == 0
    (options,) = given
    assert options["workers"] == workers
    actors = options["ray"]
    assert (actors and actors.address) == ray
    if ray:
        assert actors.journal == (tmp_path / "actors").absolute()


def test_what_is_of_actors_is_refused_without_ray(tmp_path: Path, command: Command) -> None:
    refused = command("server", str(tmp_path), "--journal", "elsewhere")
    assert refused.code == 2 and refused.err.startswith(
        "error: --journal: is an option of actors of Ray"
    )
