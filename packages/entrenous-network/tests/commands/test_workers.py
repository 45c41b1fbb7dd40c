"""`entrenous server --workers` and `--ray`: who takes answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command

pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.mark.parametrize("count", ["0", "-2"])
def test_fewer_than_one_worker_is_one_line(tmp_path: Path, command: Command, count: str) -> None:
    line = command("server", str(tmp_path), "--workers", count).error
    assert f"--workers: got {count}" in line and "a whole number from 1" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "workers"), [([], 1), (["--workers", "3"], 3)])
def test_the_server_gets_as_many_workers_as_were_asked_for(
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    workers: int,
) -> None:
    from entrenous_network.operate import running

    given: list[Any] = []
    monkeypatch.setattr(
        running, "run_server", lambda folder, stop, say, **options: given.append(options)
    )
    assert command("server", str(tmp_path), *words).code == 0
    assert [one["workers"] for one in given] == [workers]


@pytest.mark.parametrize("words", [[], ["--ray", "local", "--workers", "3"]])
def test_only_who_asks_for_ray_gets_it(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    from entrenous_network.operate import running

    given: list[Any] = []
    monkeypatch.setattr(
        running, "run_server", lambda folder, stop, say, **options: given.append(options)
    )
    assert command("server", str(tmp_path), *words).code == 0
    ray = given[0]["ray"]
    if not words:
        assert ray is None
    else:
        assert (ray.address, ray.journal) == ("local", (tmp_path / "actors").absolute())
        assert given[0]["workers"] == 3


def test_what_is_of_actors_is_refused_without_ray(tmp_path: Path, command: Command) -> None:
    refused = command("server", str(tmp_path), "--journal", "elsewhere")
    assert refused.code == 2 and refused.err.startswith(
        "error: --journal: is an option of actors of Ray"
    )
