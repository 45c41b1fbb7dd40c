"""`entrenous server --workers`: who takes answers."""

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
    from entrenous.deploy.operate import running

    given: list[Any] = []
    monkeypatch.setattr(
        running, "run_server", lambda folder, stop, say, **options: given.append(options)
    )
    assert command("server", str(tmp_path), *words).code == 0
    assert [one["workers"] for one in given] == [workers]
