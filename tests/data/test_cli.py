"""`entrenous data`: what the commands print, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from entrenous.cli.data import app
from entrenous.core.errors import InputError
from entrenous.data.dataset import datasets

CSV = "user_id,item_id,rating,timestamp\n1,10,5,881250949\n1,11,4,881250950\n2,10,3,881250951\n2,12,2,881250952\n3,12,1,881250953\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path / "home"))
    path = tmp_path / "films.csv"
    path.write_text(CSV)
    return path


def run(*arguments: object) -> None:
    app(
        [str(argument) for argument in arguments], exit_on_error=False, result_action="return_value"
    )


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    run(*arguments, "--json")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    return json.loads(printed)


def test_list_names_every_set_and_its_terms(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("list")
    printed = capsys.readouterr().out
    for name, one in datasets().items():
        assert name in printed and one.terms in printed
    listed = as_json(capsys, "list")
    assert listed["home"] == str(file.parent / "home")
    assert [one["name"] for one in listed["data"]] == list(datasets())
    here = {
        one["name"]: (one["present"], one["fetchable"], one["synthetic"]) for one in listed["data"]
    }
    assert here["ml-100k"] == (False, True, False)
    assert here["synthetic-fpl-canada"] == (True, False, True)


def test_info_counts_by_hand(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = as_json(capsys, "info", file)
    assert (about["data"], about["users"], about["items"], about["rows"]) == ("films", 3, 3, 5)
    assert about["density"] == 5 / (3 * 3)
    assert about["rows_per_user"] == {
        "min": 1,
        "p10": 1.2,
        "median": 2,
        "p90": 2,
        "max": 2,
        "mean": 5 / 3,
    }
    assert about["values"] == {"min": 1, "max": 5, "mean": 3}
    assert about["times"] == {
        "first": "1997-12-04T15:55:49+00:00",
        "last": "1997-12-04T15:55:53+00:00",
        "missing": 0,
        "resolution": "seconds",
        "users_with_ties": 0,
    }
    assert about["reading"]["notes"][-1].endswith("at once: 1")
    run("info", file)
    printed = capsys.readouterr().out
    assert "density        0.5556" in printed and "rows per user  min 1" in printed


def test_fetch_of_what_cannot_be_fetched(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="get it from webscope"):
        run("fetch", "yahoo-r3")
    assert as_json(capsys, "fetch", "synthetic-fpl-canada") == {
        "name": "synthetic-fpl-canada",
        "folder": None,
        "fetched": False,
        "source": None,
        "rows": 63514,
    }
    assert not (file.parent / "home").exists()


def test_check_never_fetches(file: Path) -> None:
    with pytest.raises(InputError, match="run: entrenous data fetch ml-100k"):
        run("check", "ml-100k")
