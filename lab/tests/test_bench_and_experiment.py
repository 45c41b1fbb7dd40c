"""`experiment`, `bench` and `demo` as scripts and people meet them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from command_line import Command
from entrenous_lab.papers import runner
from paths import SHARED, real

from lab.tests.test_runner import TINY, tiny


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capsys)


@pytest.fixture
def movielens(monkeypatch: pytest.MonkeyPatch) -> None:
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))


def test_an_experiment_prints_its_rows(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        runner, "run_experiment", partial(runner.run_experiment, data=tiny(), grid=TINY)
    )
    said = command("experiment", "fpl-fig2", "--quick", "--threads", "1", "--json")
    rows = said.json["rows"]
    assert rows and all(
        {"system", "metric", "paper", "obtained", "protocol"} <= set(row) for row in rows
    )
    assert os.listdir(tmp_path / "experiments") and "Traceback" not in said.err
    text = command("experiment", "fpl-fig2", "--quick", "--out", "experiments")
    assert text.code == 0 and rows[0]["system"] in text.out


def test_an_experiment_without_its_data_says_where_to_get_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path / "home"))
    said = command("experiment", "fpl-table2", "--quick", "--json").error
    assert (
        said.startswith("foursquare-italy: the data set is not in ")
        and "get it from" in said
        and "terms: " in said
    )


@pytest.mark.usefixtures("movielens")
def test_a_bench_carries_its_figures_by_name(command: Command) -> None:
    found = command("bench", "fpl-round", "--threads", "1", "--json").json
    assert found["bench"] == "fpl-round" and found["against"]
    assert 0 < found["cpu_seconds"] < 0.5 and found["ratio"] == pytest.approx(
        found["cpu_seconds"] / 2.5
    )


@pytest.mark.usefixtures("movielens")
def test_the_demo(command: Command, tmp_path: Path) -> None:
    assert command("demo", "--user", "nobody").error.startswith(
        "user: unknown user 'nobody'; expected one of 943 ids"
    )
    assert os.listdir(tmp_path) == []
    said = command("demo", "--threads", "2")
    assert said.code == 0 and "round 100/100" in said.err
    assert "most popular" in said.out and "For user 196" in said.out
    assert (
        "EXPOSED" in said.out
        and "pFPL+ private" in said.out
        and "sums of 943, 10 rounds" in said.out
    )
    titles = [
        line for line in said.out.splitlines() if line.endswith(("│", "┃")) and " (19" in line
    ]
    assert len(titles) == 10
    report = Path(said.out.splitlines()[-1].removeprefix("report: "))
    assert report.is_file() and report.suffix == ".html" and report.is_absolute()
    assert (
        "no history leaves" not in said.out + said.err and "can work the histories out" in said.out
    )
    page = report.read_text(encoding="utf-8")
    assert str(SHARED) not in page and str(tmp_path) not in page
    assert "entrenous run pfpl+ --data ml-100k --protocol loo-99 --seed 0 --every 5" in page
    answer = command("recommend", "latest", "--user", "196", "--json").json
    assert answer["run"].startswith("pfpl+") and [
        row["item"] for row in answer["recommendations"]
    ] == [line.split("│")[2].strip() for line in titles]
