"""The leak check: silent on honest protocols, loud when negatives avoid what is held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, shop, write_shop
from small_data import interactions

from entrenous.data.interactions import Interactions
from entrenous.runs.leakcheck import leakcheck


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return shop(tmp_path_factory.mktemp("shop"), users=150, items=60, rows=14)


def distances(found: dict[str, Any]) -> dict[str, float]:
    return {one["metric"]: one["standard_errors"] for one in found["checks"]}


@pytest.mark.parametrize(
    ("protocol", "metrics"),
    [
        ("loo-30", ["auc", "hr@10"]),
        ("temporal-80-20", ["auc"]),
        ("global-80-20", ["auc"]),
        ("random-80-20", ["auc"]),
        ("kfold-5", ["auc"]),
    ],
)
def test_honest_protocols_pass_and_leaky_negatives_do_not(
    protocol: str, metrics: list[str], data: Interactions
) -> None:
    honest = leakcheck(data, protocol=protocol)
    assert honest["passed"] and [one["metric"] for one in honest["checks"]] == metrics
    assert honest["negatives"] == "not in train"
    leaky = leakcheck(data, protocol=protocol, negatives="leaky")
    assert not leaky["passed"] and leaky["negatives"] == "not in train, validation or test (leaky)"
    assert distances(leaky)["auc"] > 4 > abs(distances(honest)["auc"])
    assert leaky["checks"][0]["obtained"] > 0.6


def test_chance_is_what_it_says(data: Interactions) -> None:
    """30 candidates and the item itself: chance puts it among the first 10 with probability 10 /
    31, and 150 users vary by that.
    """
    auc, hit = leakcheck(data, protocol="loo-30")["checks"]
    known = [
        abs(hit["chance"] - 10 / (1 + n)) < 0.01 for n in (30, 29)
    ]  # a candidate that training never saw does not compete
    assert auc["chance"] == 0.5 and any(known)
    p = hit["chance"]
    assert hit["standard_errors"] == pytest.approx(
        (hit["obtained"] - p) / (p * (1 - p) / 150) ** 0.5, rel=0.05
    )
    # AUC of one item among 30 others takes 31 values: variance (31^2 - 1) / 12 / 30^2 = (1 + 30 +
    # 1) / (12 x 30)
    assert auc["standard_errors"] == pytest.approx(
        (auc["obtained"] - 0.5) / (32 / 360 / 150) ** 0.5, rel=0.05
    )


def test_items_that_training_never_saw_are_no_sign_of_a_leak() -> None:
    """Half of the test items are new. They rank last by protocol, which must not be read as a model
    that knows them.
    """
    rows = [(f"u{u}", f"i{(7 * u + 11 * n) % 40}", n) for u in range(200) for n in range(6)]
    new = [(f"u{u}", f"new{u}", 100) for u in range(0, 200, 2)]
    found = leakcheck(interactions([*rows, *new], name="half new"), protocol="loo-full")
    assert found["passed"], found["checks"]
    assert found["users"] <= 100


def test_the_same_seed_gives_the_same_figures(data: Interactions) -> None:
    a, b, c = (leakcheck(data, protocol="loo-30", seed=seed, rounds=3) for seed in (1, 1, 2))
    assert a == b and a["checks"] != c["checks"]


def test_the_command_ends_with_1_when_there_is_a_leak(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = write_shop(tmp_path / "shop.csv", users=150, items=60, rows=14), Command(capsys)
    how = ["--data", path, "--protocol", "loo-30"]
    honest = command("leakcheck", *how, "--json")
    assert honest.code == 0 and honest.json["passed"] and honest.json["data"] == "shop"
    leaky = command("leakcheck", *how, "--negatives", "leaky", "--json")
    assert leaky.code == 1 and not leaky.json["passed"]
    assert leaky.err.startswith(
        "warning: negatives avoid held-out items too; figures made in this way mean nothing"
    )
    said = command("leakcheck", *how, "--negatives", "leaky")
    assert said.code == 1 and "LEAK" in said.out
    assert command("split", path, "--protocol", "loo-30", "--out", tmp_path / "split").code == 0
    given = command("leakcheck", "--data", tmp_path / "split", "--protocol", "given", "--json")
    assert given.code == 0 and given.json["checks"] == honest.json["checks"]


def test_another_algorithm_with_a_server_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = write_shop(tmp_path / "shop.csv", users=100, items=60, rows=14), Command(capsys)
    how = [
        "leakcheck",
        "fedavg-gmf",
        "--data",
        path,
        "--protocol",
        "loo-30",
        "--set",
        "factors=8",
        "--json",
    ]
    honest, leaky = command(*how), command(*how, "--negatives", "leaky")
    assert (honest.code, leaky.code) == (0, 1) and honest.json["algorithm"] == "fedavg-gmf"
    assert leaky.json["checks"][0]["obtained"] > 0.6


def test_what_cannot_be_checked_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = write_shop(tmp_path / "shop.csv"), Command(capsys)
    how = ["--data", path, "--protocol", "loo-20"]
    assert command("leakcheck", "popular", *how).error.startswith(
        "leakcheck: popular is trained in one place; expected an algorithm with"
    )
    assert command("leakcheck", "pepper-gmf", *how).error.startswith(
        "leakcheck: pepper-gmf gossips; expected an algorithm with a server"
    )
    assert "in this check each user trains alone" in command("leakcheck", "cali3f-gmf", *how).error
    assert command(
        "leakcheck", "cali3f-gmf", "--set", "clusters=1", *how, "--rounds", "2", "--json"
    ).code in (0, 1)
    assert "fcf draws no negatives" in command("leakcheck", "fcf", "--negatives", "leaky", *how).err
