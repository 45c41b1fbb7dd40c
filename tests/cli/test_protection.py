"""`entrenous run --profile --protect`: what is refused, what is stored, and a budget that ends a
run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, write_shop
from safetensors.numpy import load_file

from entrenous.privacy.lengths import usual_limits

FPL = [
    "run",
    "fpl",
    "--data",
    "shop.csv",
    "--protocol",
    "loo-20",
    "--rounds",
    "4",
    "--set",
    "factors=4",
]

DP_BY_HAND = (
    "epsilon=8",
    "clip=1",
    "sampling=poisson",
    "noise_by=server",
    "noise_from=system",
    "rows=all",
)
BOUNDED = [
    word for setting in DP_BY_HAND for word in ("--protect", setting)
]  # the profile `dp`, setting by setting


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    return Command(capsys)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--profile", "private"],
            "devices here; expected at least 300 in a sum; --set cohort=300 where",
        ),
        (["--protect", "nois=1"], "unknown setting"),
        (["--protect", "noise=-1"], "noise"),
        (["--profile", "dp", "--protect", "sampling=fixed"], "do not go together"),
        (["--profile", "dp", "--every", "2", "--patience", "1"], "is not in the budget"),
        (["--profile", "dp", "--every", "2"], "or add --no-refit"),
        ([*BOUNDED, "--every", "2"], "or add --no-refit"),
        (
            ["--profile", "dp", "--protect", "noise_from=seed"],
            "epsilon together with noise_from=system: whoever knows a seed",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(
    command: Command, options: list[str], said: str
) -> None:
    assert said in command(*FPL, *options).error
    assert not list(Path().glob("runs/*"))


@pytest.mark.parametrize("budget", [["--profile", "dp"], BOUNDED])
def test_folds_train_on_the_same_people_again_and_are_refused_under_a_budget(
    command: Command, budget: list[str]
) -> None:
    asked = [word if word != "loo-20" else "kfold-2" for word in FPL]
    assert (
        "2 trainings on the same people would each spend the budget"
        in command(*asked, *budget).error
    )


def test_a_protection_is_of_rounds_around_a_server(command: Command) -> None:
    found = command(
        "run", "popular", "--data", "shop.csv", "--protocol", "loo-20", "--profile", "private"
    )
    assert "has no rounds around a server" in found.error


def test_a_run_keeps_its_profile_and_says_nothing_of_what_it_does_not_give_away(
    command: Command,
) -> None:
    private = ["--profile", "private", "--protect", "people=5"]
    found = command(*FPL, *private, "--json")
    assert found.json["profile"] == "private"
    assert found.json["protect"] == {"people": "5", **usual_limits("fpl", 20)}, "the set is said"
    assert "profile paper" not in found.err and "profile paper" in command(*FPL).err
    assert (
        command(*FPL, *private, "--threads", "2", "--json").json["model_sha256"]
        == found.json["model_sha256"]
    )


def test_a_run_with_a_budget_says_what_it_spent_and_ends_before_it_is_passed(
    command: Command,
) -> None:
    pytest.importorskip("dp_accounting")
    dp: list[Any] = [*FPL, "--profile", "dp", "--protect", "noise=1", "--protect", "delta=1e-3"]
    found = command(*dp, "--protect", "epsilon=5", "--json")
    spent = found.json["privacy"]
    assert (
        0 < found.json["rounds"] == spent["releases"] < 4
        and spent["stopped"]
        and spent["epsilon"] <= 5
    )
    assert "training ends after round" in found.err
    assert any("of each user, of 1 training" in note for note in found.json["notes"])
    (folder,) = Path("runs").glob("*")
    assert any(name.startswith("devices.") for name in load_file(folder / "model.safetensors"))
    printed = " ".join(command(*dp, "--protect", "epsilon=5").out.split())
    assert (
        "of single people the folder holds model.safetensors (devices." in printed
        and "epsilon covers no such arrays" in printed
    )
    assert (folder / "releases").stat().st_size == spent["releases"]
