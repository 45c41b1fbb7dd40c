"""Cali3F from end to end, as a user types it: fairness beside chance, what the server sees,
recommending, the report, odd users.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command, write_shop
from forked import run
from small_federations import SMALL, sent, shop, started
from stored_runs import Page

from entrenous.data.interactions import Vocabulary, build
from entrenous.runs import pipeline as experiment
from entrenous.systems.cali3f import Cali3F
from entrenous.systems.named import algorithms

OPTIONS = ["--data", "shop.csv", "--protocol", "loo-20", "--rounds", "6", "--every", "2"]
CLUSTERS = ["--set", "clusters=4", "--set", "cohort=20"]
ASKED = ("std_ndcg@10", "std_by_chance", "worst_decile_hr@10")


def process(folder: Path, *arguments: str) -> Any:
    """The JSON object that a real `entrenous` prints."""
    code = "from entrenous.cli import main; main()"
    done = run(
        [sys.executable, "-c", code, *arguments, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """shop.csv: 40 users with 12 of 60 items."""
    return write_shop(tmp_path_factory.mktemp("cali3f") / "shop.csv").parent


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Any]:
    """What a real process prints of a run of each."""
    more = {"cali3f-gmf": CLUSTERS, "fedavg-gmf": ["--set", "cohort=0"]}
    return {
        name: process(folder, "run", name, *OPTIONS, *settings) for name, settings in more.items()
    }


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "300")
    return Command(capsys)


@pytest.mark.parametrize("name", ["cali3f-gmf", "fedavg-gmf"])
def test_a_run_says_how_alike_users_are_served_beside_chance(
    name: str, runs: dict[str, Any]
) -> None:
    found, fair = runs[name], runs[name]["fairness"]
    assert (found["algorithm"], found["rounds"], found["status"]) == (name, 6, "finished")
    assert [key for key in ASKED if not 0 <= fair[key] <= 1] == []
    # a user with one held-out item is hit or not: 40 users, so the hit rate is a whole number of
    # fortieths; 36 hits leave one tenth without
    hits = found["metrics"]["hr@10"] * 40
    assert hits == pytest.approx(round(hits)) and (fair["worst_decile_hr@10"] == 0) == (
        round(hits) <= 36
    )
    assert set(found["fairness_full_ranking"]) == set(fair)


def test_another_process_ends_with_the_same_bytes_as_this_one(
    folder: Path, runs: dict[str, Any]
) -> None:
    settings = {"clusters": 4, "cohort": 20}
    here = experiment.run(
        "cali3f-gmf",
        str(folder / "shop.csv"),
        protocol="loo-20",
        rounds=6,
        settings=settings,
        threads=2,
    )
    assert here.manifest["model_sha256"] == runs["cali3f-gmf"]["model_sha256"]
    assert here.metrics == runs["cali3f-gmf"]["metrics"]


def test_devices_that_show_themselves_send_more(runs: dict[str, Any]) -> None:
    """A device of Cali3F sends a share with every row, a second network, the user embedding and
    n.
    """
    bytes_up = {
        name: found["bytes"]["up"] / found["ledger"]["device_rounds"]
        for name, found in runs.items()
    }
    assert (
        runs["cali3f-gmf"]["ledger"]["device_rounds"] == 6 * 20
        and runs["fedavg-gmf"]["ledger"]["device_rounds"] == 6 * 40
    )
    assert bytes_up["cali3f-gmf"] > 1.5 * bytes_up["fedavg-gmf"]


@pytest.mark.parametrize(
    "name",
    [f"{system}-{model}" for system in ("cali3f", "fedfast") for model in ("gmf", "mlp", "neumf")],
)
def test_explain_says_that_user_embeddings_are_shown(name: str, command: Command) -> None:
    rows = {
        row["name"]: row for row in command("explain", name, "--json").json["leaves_the_device"]
    }
    assert rows["user"]["when"].startswith("each round, as it is, to the server by name")
    assert "the user's taste, linked to who they are" in rows["user"]["reveals"]
    said = command("explain", name).out
    assert "to the server by name" in said and "no sum hides it" in said


@pytest.mark.parametrize(
    "name", [name for name in algorithms() if name.startswith(("fedavg", "ditto", "reptile"))]
)
def test_elsewhere_they_are_not(name: str, command: Command) -> None:
    shown = {row["name"] for row in command("explain", name, "--json").json["leaves_the_device"]}
    assert "item" in shown and "user" not in shown
    assert name.endswith("-prme-g") or shown == {"item", "network", "weight"}


def test_settings_are_shown_as_they_are_typed(command: Command) -> None:
    found = {
        name: {
            one["name"]: one["default"]
            for one in command("explain", name, "--json").json["settings"]
        }
        for name in ("cali3f-neumf", "cali3f-gmf", "cali3f-mlp")
    }
    layers = found["cali3f-neumf"]["layers"]
    assert (
        layers == ",".join(map(str, Cali3F().layers))
        and Cali3F.parse({"layers": layers}) == Cali3F()
    )
    assert (found["cali3f-gmf"]["layers"], found["cali3f-mlp"]["factors"]) == ("", "0")


def test_a_stored_run_recommends(runs: dict[str, Any], folder: Path, command: Command) -> None:
    made = command(
        "recommend", runs["cali3f-gmf"]["run"], "--user", "u3", "--n", "5", "--json"
    ).json
    scores = [row["score"] for row in made["recommendations"]]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True) and np.isfinite(scores).all()
    consumed = {
        line.split(",")[1]
        for line in (folder / "shop.csv").read_text().splitlines()
        if line.startswith("u3,")
    }
    assert (
        len(consumed & {row["item"] for row in made["recommendations"]}) <= 2
    )  # the held-out ones may be there


def test_the_report_of_two_runs(runs: dict[str, Any], folder: Path, command: Command) -> None:
    names = [found["run"] for found in runs.values()]
    assert command("report", *names, "--out", "two.html").out == "two.html\n"
    page = Page((folder / "two.html").read_text(encoding="utf-8"))
    assert page.wrong == []
    heads = [row[0] for row in page.tables["What leaves a device under cali3f-gmf"]]
    assert any(head.startswith("user") for head in heads) and "to the server by name" in page.text
    assert page.tables["What leaves a device under fedavg-gmf"][1][0].startswith("item")
    fair = [runs["cali3f-gmf"]["fairness"][key] for key in ASKED]
    table = next(
        table
        for frame, table in page.tables.items()
        if frame.startswith("Fairness, ") and "full" not in frame
    )
    shown = next(row for row in table if row[0].startswith("cali3f-gmf"))
    assert [float(shown[table[0].index(key)]) for key in ASKED] == pytest.approx(fair, abs=5e-4)


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
