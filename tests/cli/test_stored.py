"""How stored runs stand: running, interrupted and how to go on, finished; and in what they
differ.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import Command, write_shop
from forked import Forked

from entrenous.core.errors import Interrupted
from entrenous.runs import pipeline, store

QUICK = ["--data", "shop.csv", "--protocol", "loo-20"]
LONG = ["run", "pfpl+", *QUICK, "--rounds", "1000000", "--checkpoint-every", "50", "--threads", "1"]
OWN = "from entrenous.systems.fcf import FCF\n\n\nclass Mine(FCF):\n    pass\n"


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """In a folder that holds shop.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    write_shop(tmp_path / "shop.csv")
    return Command(capsys)


def test_recommending_to_one_user_compiles_nothing_and_imports_one_algorithm(
    command: Command,
) -> None:
    command("run", "fpl", *QUICK, "--rounds", "1", "--threads", "1")
    code = """
import sys
from entrenous.cli import main
try:
    main(["recommend", "--user", sys.argv[1], "--json"])
except SystemExit as ended:
    assert not ended.code, ended.code
of_numba = ("numba.cpython.unicode", "numba.np.arraymath", "scipy.linalg")  # what the first call of a compiled function loads
heavy = (*of_numba, "http.client", "matplotlib", "ray", "entrenous.systems.pepper", "entrenous.systems.central")
print([name for name in heavy if name in sys.modules])
"""
    user = next(line.split(",")[0] for line in Path("shop.csv").read_text().splitlines()[1:])
    shown = subprocess.run(
        [sys.executable, "-c", code, user], capture_output=True, text=True, timeout=60
    )
    assert shown.stdout.splitlines()[-1] == "[]" and "recommendations" in shown.stdout, shown.stderr


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A run in a process of its own, which has written a checkpoint."""
    code = "from entrenous.cli import main; main()"
    process = Forked(
        [sys.executable, "-c", code, *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list(folder.glob("*/checkpoint-*.safetensors")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def shortened(folder: Path) -> None:
    """The only run, with one round: the rest of a million is not the point here."""
    (path,) = store.folders(folder)
    store.write_manifest(path, {**store.read_manifest(path), "rounds_asked": 1})


def test_an_interrupted_run_is_continued_by_the_line_that_it_ends_with(
    command: Command, tmp_path: Path
) -> None:
    process = begun(tmp_path / "runs", *LONG)
    listed = command("runs")
    assert "running" in listed.out and "interrupted" not in listed.out
    held = command("run", "--resume", "pfpl+-shop-loo-20-seed0").error
    assert f"process {process.pid} is at work on it" in held
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err
    line = "entrenous run --resume pfpl+-shop-loo-20-seed0"
    assert err.splitlines()[-1] == f"error: interrupted; go on with: {line}"
    listed = command("runs")
    assert "interrupted" in listed.out and "running" not in listed.out
    assert listed.out.splitlines()[-1] == f"to go on with pfpl+-shop-loo-20-seed0: {line}"
    shortened(tmp_path / "runs")
    assert command(*shlex.split(line)[1:], "--json").json["status"] == "finished"
    assert [one["status"] for one in command("runs", "--json").json["runs"]] == ["finished"]
    assert not (tmp_path / "runs" / "pfpl+-shop-loo-20-seed0" / store.LOCK).exists()


def test_a_run_whose_process_was_killed_is_interrupted(command: Command, tmp_path: Path) -> None:
    process = begun(tmp_path / "else", *LONG, "--out", "else")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    (found,) = command("runs", "--runs", "else", "--json").json["runs"]
    assert found["status"] == "interrupted"
    line = command("runs", "--runs", "else").out.splitlines()[-1].partition(": ")[2]
    assert line == "entrenous run --resume else/pfpl+-shop-loo-20-seed0"
    shortened(tmp_path / "else")
    assert command(*shlex.split(line)[1:], "--json").json["status"] == "finished"


def test_of_an_algorithm_of_ones_own_the_place_is_named_too(
    command: Command, tmp_path: Path
) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    (tmp_path / "mine.py").write_text(OWN)
    with pytest.raises(Interrupted) as stopped:
        pipeline.run(
            "./mine.py",
            "shop.csv",
            protocol="loo-20",
            rounds=2,
            out="runs",
            checkpoint_every=1,
            progress=stop,
        )
    place, name = tmp_path / "mine.py", "mine-shop-loo-20-seed0"
    line = f"entrenous run {place} --resume {name}"
    assert str(stopped.value) == f"go on with: {line}" and command("runs").out.splitlines()[
        -1
    ].endswith(line)
    assert command(*shlex.split(line)[1:], "--json").json["status"] == "finished"
    row = next(words for words in command("runs").out.splitlines() if name in words)
    assert [cell.strip() for cell in row.split("│")][4] == "mine"


def test_work_that_stores_nothing_says_no_more_than_that(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entrenous.data.describe.describe", stop)
    said = command("data", "info", "shop.csv")
    assert (said.code, said.err) == (130, "error: interrupted\n")
    monkeypatch.setattr("entrenous.runs.tuning.grid.try_grid", stop)
    assert command("tune", "fcf", *QUICK, "--grid", "factors=4,8").err == "error: interrupted\n"


def test_runs_shows_when_they_began_and_in_what_they_differ(command: Command) -> None:
    command("run", "popular", *QUICK)
    command("run", "fcf", *QUICK, "--rounds", "3", "--set", "factors=5", "--set", "reg=5")
    command(
        "run", "pepper-gmf", *QUICK, "--rounds", "2", "--network", "loss=0.3", "--set", "factors=4"
    )
    began = {one["run"]: one["started"] for one in command("runs", "--json").json["runs"]}
    said = {
        line.split()[1]: line for line in command("runs").out.splitlines() if "shop-loo-20" in line
    }
    assert said.keys() == began.keys() and all(
        f"{began[name][:10]} {began[name][11:16]}" in said[name] for name in began
    )
    usual = next(
        one for one in command("explain", "fcf", "--json").json["settings"] if one["name"] == "reg"
    )["default"]
    assert float(usual) != 5.0
    assert "factors=5, reg=5, rounds=3" in said["fcf-shop-loo-20-seed0"]
    assert "factors=4, rounds=2, loss=0.3" in said["pepper-gmf-shop-loo-20-seed0"]
    again = command("run", "fcf", *QUICK, "--rounds", "3", "--set", f"reg={usual}", "--json").json[
        "run"
    ]
    row = next(line for line in command("runs").out.splitlines() if again in line)
    assert "reg=" not in row and "rounds=3" in row  # the default was given


def test_tables_say_which_way_is_better(command: Command) -> None:
    ranking = command("run", "popular", *QUICK).out
    assert all(
        f" {name} ↑ " in ranking
        for name in ("hr@10", "ndcg@10", "auc", "item_coverage@10", "gini@10")
    )
    ratings = command("run", "biased-mf", "--data", "shop.csv", "--protocol", "random-80-20").out
    assert " mae ↓ " in ratings and " rmse ↓ " in ratings
    header = next(line for line in command("runs").out.splitlines() if "status" in line)
    assert "hr@10 ↑" in header and "rmse ↓" in header
    tuned = command("tune", "fcf", *QUICK, "--grid", "factors=4,5", "--rounds", "2").out
    assert "ndcg@10 ↑" in tuned


def test_who_asks_the_latest_run_is_told_which_it_is(command: Command) -> None:
    made = command(
        "run", "biased-mf", "--data", "shop.csv", "--protocol", "random-80-20", "--json"
    ).json
    for asked in (
        ["recommend", "--user", "u3"],
        ["predict", "latest", "--user", "u3", "--item", "i1"],
    ):
        assert command(*asked).err == f"run {made['run']}, of {made['started']}\n"
    assert command("recommend", made["run"], "--user", "u3").err == ""  # it was named
