"""Rating prediction as a user meets it: the usual protocol, errors first, `predict` with its parts,
`compare`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command
from rated_rows import rated

import entrenous

SMALL: dict[str, Any] = {
    "factors": 3,
    "rounds": 8,
    "learning_rate": 0.05,
    "local_rate": 0.03,
    "reg": 0.02,
    "init_std": 0.1,
    "style": "batch",
}
WITHOUT = [
    word for name, value in SMALL.items() if name != "reg" for word in ("--set", f"{name}={value}")
]
DATA = ["--data", "ratings.csv"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ratings.csv: 30 users, 25 items."""
    data, path = rated(30, 25), tmp_path_factory.mktemp("ratings") / "ratings.csv"
    rows = [
        f"u{u},i{i},{v:g}"
        for u, i, v in zip(data.user.tolist(), data.item.tolist(), data.value.tolist(), strict=True)
    ]
    path.write_text("\n".join(["user,item,rating", *rows]) + "\n")
    return path.parent


@pytest.fixture(scope="module")
def manifest(folder: Path) -> Any:
    """The manifest of a stored run of `fbalf`."""
    rows = folder / "ratings.csv"
    return entrenous.run("fbalf", rows, settings=SMALL, out=folder / "runs").manifest


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return Command(capsys)


def test_the_usual_protocol_of_rating_prediction_is_cross_validation(
    manifest: dict[str, Any],
) -> None:
    assert manifest["protocol"] == "kfold-5" and len(manifest["folds"]) == 5
    assert list(manifest["metrics"])[:2] == ["mae", "rmse"]
    assert manifest["metrics"]["rmse"] == pytest.approx(
        np.mean([fold["rmse"] for fold in manifest["folds"]])
    )
    assert manifest["protocol_text"][0].startswith("ratings: mae and rmse over ")
    assert manifest["protocol_text"][0].endswith(
        "held-out ratings, predictions of fbalf clipped to 1 .. 5"
    )


def test_predict_says_what_is_the_users_and_what_the_items(
    command: Command, manifest: dict[str, Any]
) -> None:
    found = command(
        "predict", manifest["run"], "--user", "u3", "--item", "i4", "--item", "i7", "--json"
    ).json
    assert [one["item"] for one in found["predictions"]] == ["i4", "i7"]
    for one in found["predictions"]:
        parts = one["user_bias"] + one["item_bias"] + one["interaction"]
        assert one["unclipped"] == pytest.approx(parts) and 1 <= one["prediction"] <= 5
        assert one["prediction"] == min(max(one["unclipped"], 1), 5)
    text = command("predict", manifest["run"], "--user", "u3", "--item", "i4").out
    assert "user bias" in text and "item bias" in text and "u3" in text


def test_predict_shows_what_was_rated_whichever_item_comes_first(
    command: Command, manifest: dict[str, Any]
) -> None:
    every = [word for n in range(25) for word in ("--item", f"i{n}")]
    found = command("predict", manifest["run"], "--user", "u3", *every, "--json").json[
        "predictions"
    ]
    has, has_not = (
        next(one["item"] for one in found if (one["rated"] is None) is none)
        for none in (False, True)
    )
    for first, second in ((has, has_not), (has_not, has)):
        assert (
            "rated"
            in command(
                "predict", manifest["run"], "--user", "u3", "--item", first, "--item", second
            ).out
        )


def test_predict_refuses_what_it_does_not_know_in_one_line(
    command: Command, manifest: dict[str, Any]
) -> None:
    for words, said in (
        (["--user", "u3", "--item", "i999"], "i999"),
        (["--user", "nobody", "--item", "i4"], "nobody"),
    ):
        refused = command("predict", manifest["run"], *words)
        assert refused.code == 2 and said in refused.err and refused.err.count("\n") == 1
    ranks = command("run", "popular", *DATA, "--protocol", "random-80-20", "--json").json
    refused = command("predict", ranks["run"], "--user", "u3", "--item", "i4")
    assert "popular ranks items, it does not predict ratings" in refused.err


def test_data_without_ratings_are_refused_before_anything_is_written(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(
        "user,item\n"
        + "".join(f"u{u},i{(u * 7 + k * 3) % 40}\n" for u in range(12) for k in range(12))
    )
    refused = command("run", "fbalf", "--data", str(path), "--out", str(tmp_path / "runs"))
    assert "no ratings to learn from" in refused.err and refused.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_systems_that_predict_ratings_are_compared_by_errors(
    command: Command, tmp_path: Path
) -> None:
    found = command("compare", "biased-mf", "pmf", *DATA, "--seeds", "1", "--json").json
    assert found["protocol"] == "kfold-5" and {test["metric"] for test in found["tests"]} == {
        "mae",
        "rmse",
    }


def test_settings_are_chosen_by_the_error_on_validation(command: Command) -> None:
    found = command("tune", "fbalf", *DATA, *WITHOUT, "--grid", "reg=0.02,500", "--json").json
    assert found["selected_by"] == "validation rmse" and found["protocol"] == "kfold-5"
    errors = [row["validation"]["rmse"] for row in found["rows"]]
    assert errors == sorted(errors) and found["rows"][0]["settings"]["reg"] == 0.02


def test_a_report_of_errors_has_the_lowest_in_bold(
    command: Command, manifest: dict[str, Any]
) -> None:
    other = command("run", "biased-mf", *DATA, "--set", "epochs=1", "--json").json
    page = Path(command("report", manifest["run"], other["run"]).out.strip()).read_text()
    best, worse = sorted((manifest["metrics"]["rmse"], other["metrics"]["rmse"]))
    bold = re.findall(r"<b>(.*?)</b>", page.split("Predicted ratings</b>")[1].split("</table>")[0])
    assert any(f"{best:.4f}" in cell for cell in bold) and not any(
        f"{worse:.4f}" in cell for cell in bold
    )
    assert "lower is better" in page
