"""The package prints nothing that nobody asked for: it logs, and draws bars where a person looks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from command_line import write_shop

import entrenous
from entrenous.cli.screen import log_on_screen
from entrenous.data.dataset import Dataset
from entrenous.data.load import load

SMALL: dict[str, Any] = {"split": "random-80-20", "rounds": 1}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A file of rows."""
    return write_shop(tmp_path / "shop.csv")


@pytest.mark.beside
def test_nothing_is_printed(shop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By capfd, which also sees what compiled code and other processes print."""
    run = entrenous.run("fcf", shop, out=str(tmp_path / "runs"), **SMALL)
    run.recommend(n=2)
    run.per_user()
    run.save(tmp_path / "saved")
    run.report(tmp_path / "report.html")
    entrenous.open(tmp_path / "saved").recommend("u1")
    entrenous.compare(["popular", "item-knn"], shop, split="random-80-20", seeds=2)
    entrenous.tune("fcf", shop, grid={"factors": [2, 3]}, protocol="random-80-20", rounds=1)
    entrenous.audit(
        "fcf", shop, protocol="random-80-20", rounds=1, attacks=["gradient"], quick=True
    )
    assert capfd.readouterr() == ("", "")


class Source:
    """A source of a data set in memory."""

    def __init__(self, content: bytes) -> None:
        self.members = {"rows.csv": "rows.csv"}
        self._content = content

    def __str__(self) -> str:
        return "memory"

    def read(self) -> dict[str, bytes]:
        return {"rows.csv": self._content}


def test_a_download_and_what_a_run_gives_away_are_logged(
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path / "home"))
    mine = Dataset(
        name="mine",
        summary="rows",
        terms="none",
        citation="nobody",
        origin="memory",
        folder="mine",
        files=("rows.csv",),
        sources=(Source(shop.read_bytes()),),
        read=lambda folder: load(folder / "rows.csv"),
    )
    with caplog.at_level(logging.INFO, logger="entrenous"):
        mine.load()
        entrenous.run("fcf", shop, **SMALL)
    logged = [(record.name, record.getMessage()) for record in caplog.records]
    assert ("entrenous.data.dataset", "fetching mine from memory") in logged
    names_of_logs = [name for name, text in logged if text.startswith("profile paper: ")]
    assert names_of_logs == ["entrenous.api.run"]
    assert capsys.readouterr() == ("", "")


def test_a_command_shows_the_log_of_the_package_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_on_screen():
        logging.getLogger("entrenous.data").info("fetching %s\x1b[2K", "ml-100k")
        logging.getLogger("another").info("not ours")
    logging.getLogger("entrenous.data").info("after the command")
    assert capsys.readouterr() == ("", "fetching ml-100k\\u001b[2K\n")
    assert logging.getLogger("entrenous").handlers == []
