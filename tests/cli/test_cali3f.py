"""Cali3F from end to end, as a user types it: fairness beside chance, what the server sees, odd
users.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import Command, write_shop
from small_federations import SMALL, sent, shop, started

from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.cali3f import Cali3F

OPTIONS = ["--data", "shop.csv", "--protocol", "loo-20", "--rounds", "6", "--every", "2"]
CLUSTERS = ["--set", "clusters=4", "--set", "cohort=20"]
ASKED = ("std_ndcg@10", "std_by_chance", "worst_decile_hr@10")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """shop.csv: 40 users with 12 of 60 items."""
    return write_shop(tmp_path_factory.mktemp("cali3f") / "shop.csv").parent


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return Command(capsys)


@pytest.mark.parametrize("name", ["cali3f-gmf", "fedavg-gmf"])
def test_a_run_says_how_alike_users_are_served_beside_chance(name: str, command: Command) -> None:
    more = CLUSTERS if name == "cali3f-gmf" else ["--set", "cohort=0"]
    found = command("run", name, *OPTIONS, *more, "--json").json
    fair = found["fairness"]
    assert (found["algorithm"], found["rounds"], found["status"]) == (name, 6, "finished")
    assert [key for key in ASKED if not 0 <= fair[key] <= 1] == []
    # a user with one held-out item is hit or not: 40 users, so the hit rate is a whole number of
    # fortieths; 36 hits leave one tenth without
    hits = found["metrics"]["hr@10"] * 40
    assert hits == pytest.approx(round(hits)) and (fair["worst_decile_hr@10"] == 0) == (
        round(hits) <= 36
    )
    assert set(found["fairness_full_ranking"]) == set(fair)


@pytest.mark.parametrize("name", ["cali3f-neumf", "fedfast-gmf"])
def test_explain_says_that_user_embeddings_are_shown(name: str, command: Command) -> None:
    rows = {
        row["name"]: row for row in command("explain", name, "--json").json["leaves_the_device"]
    }
    assert rows["user"]["when"].startswith("each round, as it is, to the server by name")
    assert "the user's taste, linked to who they are" in rows["user"]["reveals"]
    said = command("explain", name).out
    assert "to the server by name" in said and "no sum hides it" in said


# ---- users whom no negatives are left for --------------------------------------------------------


def test_a_device_without_negatives_learns_from_its_positives() -> None:
    """However many negatives are asked for, what it sends is the same; for who has some left it is
    not.
    """
    some = shop()
    user = np.concatenate([np.repeat(np.arange(24), some.counts), np.full(18, 24)])
    data = build(
        user,
        np.concatenate([some.item, np.arange(18)]),
        users=Vocabulary(size=25),
        items=Vocabulary(size=18),
    )
    updates = []
    for negatives in (1, 7):
        cali3f = Cali3F(
            **{**SMALL, "local_epochs": 1, "negatives": negatives, "batch": 1}, clusters=3
        )
        server, devices = started(cali3f, data)
        updates.append([sent(cali3f, server, devices, data, np.array([of]))[1] for of in (24, 0)])
    (full, usual), (full_more, usual_more) = updates
    assert np.array_equal(full.item, np.arange(18)) and np.abs(full.rows["item"]).sum() > 0
    assert all(np.array_equal(full.rows[name], full_more.rows[name]) for name in full.rows)
    assert np.array_equal(full.shown["user"], full_more.shown["user"])
    assert not np.array_equal(usual.shown["user"], usual_more.shown["user"])


@pytest.mark.parametrize("name", ["cali3f-neumf", "fedavg-neumf", "reptile-neumf"])
def test_a_given_split_in_which_a_user_consumed_everything_is_trained_on(
    name: str, tmp_path: Path, command: Command
) -> None:
    users = [f"u{n % 8},i{n * 5 % 9}" for n in range(24)]
    (tmp_path / "split").mkdir()
    header, everything = "user,item\n", [f"all,i{n}" for n in range(9)]
    (tmp_path / "split" / "train.csv").write_text(header + "\n".join([*users, *everything]) + "\n")
    (tmp_path / "split" / "test.csv").write_text(header + "u0,i1\n")
    options = [
        "--data",
        tmp_path / "split",
        "--protocol",
        "given",
        "--rounds",
        "2",
        "--out",
        tmp_path / "runs",
    ]
    clusters = ["--set", "clusters=2"] if name.startswith("cali3f") else []
    found = command("run", name, *options, *clusters, "--json").json
    assert found["status"] == "finished" and all(
        np.isfinite(value) for value in found["metrics"].values()
    )
    assert (
        command(
            "recommend", found["run"], "--user", "all", "--runs", tmp_path / "runs", "--json"
        ).json["recommendations"]
        == []
    )


def test_rows_in_which_a_user_consumed_everything_leave_nothing_to_hold_them_against(
    command: Command, tmp_path: Path
) -> None:
    lines = [f"u{n % 8},i{n * 5 % 9}" for n in range(24)] + [f"all,i{n}" for n in range(9)]
    (tmp_path / "all.csv").write_text("user,item\n" + "\n".join(lines) + "\n")
    said = command(
        "run",
        "cali3f-gmf",
        "--data",
        tmp_path / "all.csv",
        "--protocol",
        "loo-full",
        "--out",
        tmp_path / "runs",
    ).error
    assert "user 'all' consumed all 9 items" in said and not (tmp_path / "runs").exists()
