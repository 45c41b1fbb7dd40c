"""`entrenous papers`: what is stored is listed, failures are told at the end with exit code 1,
pages are filled.
"""

import json

import pytest

from entrenous.cli import main
from lab.tests.test_batch import two  # noqa: F401  # a fixture


def called(tmp_path, *arguments) -> int:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "papers",
                *arguments,
                "--out",
                str(tmp_path / "lab" / "results"),
                "--cells",
                str(tmp_path / "cells"),
            ]
        )
    return int(ended.value.code or 0)


def test_all_are_run_and_listed_and_a_failure_ends_with_1(two, tmp_path, capsys):  # noqa: F811
    assert called(tmp_path, "--threads", "1") == 1
    said = capsys.readouterr()
    assert (
        "error: 1 of 2 failed: bad" in said.err and "good; about 0 min left on 1 cores" in said.err
    )
    assert called(tmp_path, "--list", "--json") == 0
    good = {one["name"]: one for one in json.loads(capsys.readouterr().out)["papers"]}
    assert (
        good["good"]["state"] == "fresh"
        and good["good"]["stored"] == "full"
        and good["good"]["seeds"] == "2"
    )
    assert good["bad"]["state"] == "not run"


def test_what_is_stored_is_listed_without_scipy(two, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setattr("entrenous_lab.papers.runner.find_spec", lambda name: None)
    assert called(tmp_path, "--list", "--json") == 0 and '"good"' in capsys.readouterr().out
    assert called(tmp_path) == 2 and "SciPy is not installed" in capsys.readouterr().err


def test_pages_are_filled_where_the_results_are(two, tmp_path, capsys, monkeypatch):  # noqa: F811
    assert called(tmp_path, "--docs") == 2
    assert "error: --docs: no README.md and docs in" in capsys.readouterr().err
    called(tmp_path, "good", "--threads", "1")
    marker = "<!-- stored: good; show=value; data=tiny; system=fcf; metric=hr@10 -->"
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"It is {marker}<!-- /stored -->.")
    assert called(tmp_path, "--docs") == 0 and "README.md changed" in capsys.readouterr().err
    assert (
        "<!-- stored" in (tmp_path / "README.md").read_text()
        and "-->.<!--" not in (tmp_path / "README.md").read_text()
    )
