"""`entrenous export` writes what a spreadsheet and other evaluators read."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from command_line import Command, write_shop


def test_a_stored_run_becomes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, runs = Command(capsys), tmp_path / "runs"
    shop = write_shop(tmp_path / "shop.csv")
    command(
        "run",
        "fpl",
        "--data",
        shop,
        "--protocol",
        "loo-20",
        "--rounds",
        "4",
        "--every",
        "2",
        "--out",
        runs,
    )
    said = command("export", "latest", "--out", tmp_path / "to", "--n", "3", "--runs", runs)
    names = ["recommendations.csv", "users.csv", "curve.csv", "run.trec", "qrels.trec"]
    assert said.code == 0 and [Path(line).name for line in said.out.split()] == names
    best = pl.read_csv(tmp_path / "to" / "recommendations.csv")
    assert best.columns == ["user", "rank", "item", "score"] and best.height == 40 * 3
    assert pl.read_csv(tmp_path / "to" / "curve.csv")["round"].to_list() == [2, 4]
    assert len((tmp_path / "to" / "qrels.trec").read_text().splitlines()) == 40
    only = command(
        "export", "latest", "--out", tmp_path / "trec", "--format", "trec", "--runs", runs
    )
    assert (
        sorted(path.name for path in (tmp_path / "trec").iterdir()) == ["qrels.trec", "run.trec"]
        and only.code == 0
    )


def test_what_cannot_be_exported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    (tmp_path / "file").write_text("")
    write_shop(tmp_path / "shop.csv")
    command(
        "run",
        "popular",
        "--data",
        tmp_path / "shop.csv",
        "--protocol",
        "loo-20",
        "--out",
        tmp_path / "runs",
    )
    for arguments, expected in (
        (["--out", tmp_path / "file" / "x"], "cannot be written"),
        (["--out", tmp_path / "x", "--n", "0"], "--n: got 0"),
        (["--out", tmp_path / "x", "--format", "xls"], "xls"),
    ):
        said = command("export", "latest", *arguments, "--runs", tmp_path / "runs")
        assert said.code == 2 and expected in said.err and said.err.count("\n") == 1


def test_ids_with_blanks_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 34: TREC's formats cannot hold them, and the line says how the CSV files are written."""
    command = Command(capsys)
    text = write_shop(tmp_path / "shop.csv").read_text().replace(",i", ",the band ")
    (tmp_path / "bands.csv").write_text(text.replace("the band tem_id", "item_id"))
    runs = tmp_path / "runs"
    asked = ["--data", tmp_path / "bands.csv", "--protocol", "loo-full", "--out", runs]
    assert command("run", "popular", *asked).code == 0
    to = tmp_path / "to"
    said = command("export", "latest", "--runs", runs, "--out", to)
    assert said.code == 2 and "TREC" in said.error and "--format csv" in said.error
    assert not to.exists()
    assert command("export", "latest", "--runs", runs, "--out", to, "--format", "csv").code == 0
    assert sorted(path.name for path in to.iterdir()) == ["recommendations.csv", "users.csv"]


def test_an_export_that_cannot_be_finished_leaves_the_folder_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    write_shop(tmp_path / "shop.csv")
    runs, to = tmp_path / "runs", tmp_path / "to"
    asked = ["--data", tmp_path / "shop.csv", "--protocol", "loo-20", "--out", runs]
    assert command("run", "popular", *asked).code == 0
    # A folder stands where the last file belongs.
    (to / "qrels.trec").mkdir(parents=True)
    said = command("export", "latest", "--runs", runs, "--out", to)
    assert said.code == 2 and "qrels.trec" in said.error
    assert [path.name for path in to.iterdir()] == ["qrels.trec"]
