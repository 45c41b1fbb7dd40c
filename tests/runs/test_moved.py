"""A stored run that was moved: with its data, without, or the data alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command, write_shop

import entrenous
from entrenous.core.errors import InputError
from entrenous.runs import pipeline, store

OWN = "from entrenous.systems.fcf import FCF\n\n\nclass Mine(FCF):\n    pass\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and a finished run of it."""
    folder = tmp_path / "home" / "a"
    (folder / "data").mkdir(parents=True)
    write_shop(folder / "data" / "shop.csv")
    (folder / "data" / "films.csv").write_text("item_id,title\ni1,One\n")
    monkeypatch.chdir(folder)
    entrenous.run(
        *("popular", "data/shop.csv"),
        split="loo-20",
        out="runs",
        load={"items": "data/films.csv"},
        progress=False,
    )
    return folder


def test_a_run_and_its_data_move_together(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 21."""
    before = entrenous.open().recommend("u3", n=4)
    path = project / "runs" / "popular-shop-loo-20-seed0" / "manifest.json"
    manifest = json.loads(path.read_text())
    # These say what was read on the day of the run; nothing is looked for by them.
    del manifest["notes"], manifest["reading"]
    assert str(tmp_path) not in str(manifest) and manifest["data"] == "../../data/shop.csv"
    monkeypatch.chdir(tmp_path)
    project.rename(tmp_path / "b")
    moved = entrenous.open(root="b/runs")
    assert moved.recommend("u3", n=4).equals(before)
    assert moved.manifest["data"] == str(tmp_path / "b" / "data" / "shop.csv")
    assert moved.train.features["title"].tolist().count("One") == 1


@pytest.mark.beside
def test_data_that_was_moved_alone_is_named(
    project: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = Command(capsys)
    before = command("recommend", "--user", "u3", "--json").json
    (project / "data" / "shop.csv").rename(tmp_path / "other.csv")
    for arguments in (
        ["recommend", "--user", "u3"],
        ["export", "--out", "x"],
        ["report", "--user", "u3"],
        ["receipt", "--user", "u3"],
        ["audit", "latest"],
    ):
        said = command(*arguments).err
        assert "its data is no longer at" in said and "--data=FOLDER/shop.csv" in said, arguments
    found = ["--data", tmp_path / "other.csv"]
    assert command("recommend", "--user", "u3", "--json", *found).json == before
    assert command("export", "--out", "x", *found).code == 0
    assert command("report", "--user", "u3", *found).code == 0
    assert entrenous.open(data=tmp_path / "other.csv").recommend("u3").height == 10


def test_other_rows_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shop(project / "other.csv", seed=1)
    command = Command(capsys)
    for path, problem in (
        ("other.csv", "has changed since the run; expected the same rows; name a file"),
        ("nothing.csv", "no such file"),
    ):
        said = command("recommend", "--user", "u3", "--data", path)
        assert said.code == 2 and problem in said.error
    with (project / "data" / "shop.csv").open("a") as file:
        file.write("u1,new,1,2000000\n")
    said = command("recommend", "--user", "u3").error
    assert "has changed since the run" in said and "--data FILE" in said


def test_a_file_of_items_that_is_gone_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "data" / "films.csv").rename(project / "films.csv")
    said = Command(capsys)("recommend", "--user", "u3").error
    assert "its file of items is no longer at" in said
    (project / "films.csv").rename(project / "data" / "films.csv")
    assert Command(capsys)("recommend", "--user", "u3").code == 0


def test_a_copy_of_a_run_finds_its_data(project: Path, tmp_path: Path) -> None:
    made = entrenous.open()
    copy = made.save(tmp_path / "home" / "kept" / "here")
    assert entrenous.open(copy).recommend("u3").equals(made.recommend("u3"))


def test_a_run_that_keeps_its_rows_needs_no_data(tmp_path: Path) -> None:
    rows = [(f"u{u}", f"i{i}") for u in range(6) for i in range(8) if (u + i) % 3]
    made = entrenous.run("popular", rows, split="random-80-20", progress=False)
    folder = made.save(tmp_path / "kept")
    with pytest.raises(InputError, match=r"^data: the run keeps its training rows in its own"):
        entrenous.open(folder, data="rows.csv")
    folder.rename(tmp_path / "elsewhere")
    assert entrenous.open(tmp_path / "elsewhere").recommend("u3").equals(made.recommend("u3"))


def test_a_given_split_moves_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    (tmp_path / "a" / "parts").mkdir()
    for part, rows in (("train", "1,10\n1,11\n2,10\n2,12\n"), ("test", "1,12\n2,11\n1,10\n")):
        Path("parts", f"{part}.csv").write_text("user_id,item_id\n" + rows)
    made = entrenous.run("popular", "parts", split="given,repeats=drop", out="runs", progress=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    again = entrenous.open(root="b/runs")
    assert again.recommend("1").equals(made.recommend("1")) and len(again.split.test.rows) == 2


def test_an_interrupted_run_goes_on_after_a_move(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(done: int, total: int, what: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    (project / "mine.py").write_text(OWN)
    options = {"protocol": "loo-20", "rounds": 3, "checkpoint_every": 1, "threads": 1}
    whole = pipeline.run("./mine.py", "data/shop.csv", **options)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run("./mine.py", "data/shop.csv", out="runs", progress=stop, **options)
    monkeypatch.chdir(tmp_path)
    project.rename(tmp_path / "b")
    monkeypatch.chdir(tmp_path / "b")
    Path("data", "shop.csv").rename("here.csv")
    name = "mine-shop-loo-20-seed0"
    command = Command(capsys)
    lost = command("run", "./mine.py", "--resume", name).error
    assert "its data is no longer at" in lost
    gone_on = command("run", "./mine.py", "--resume", name, "--data", "here.csv", "--json").json
    assert gone_on["model_sha256"] == whole.manifest["model_sha256"]
    assert store.read_manifest(Path("runs", name))["data"] == str(tmp_path / "b" / "here.csv")
    assert command("recommend", name, "--user", "u3", "--algorithm", "./mine.py").code == 0
