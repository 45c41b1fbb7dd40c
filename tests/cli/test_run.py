"""The commands of the first hour, as a user types them: run, runs, recommend, report, compare,
split, algorithms, explain.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import Command, shop, write_shop

from entrenous.core.contract.declared import declared
from entrenous.privacy.told import of_the_list
from entrenous.runs import pipeline as experiment
from entrenous.systems.named import algorithms

PRINTED = (
    "run",
    "algorithm",
    "data",
    "protocol",
    "seed",
    "rounds",
    "metrics",
    "full_ranking",
    "fairness",
    "seconds",
    "bytes",
    "model_sha256",
)
SMALL = ["--protocol", "loo-20", "--rounds", "5", "--set", "factors=5"]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """In a folder that holds shop.csv."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_shop(tmp_path / "shop.csv")
    return Command(capsys)


# ---- run -----------------------------------------------------------------------------------------


def test_run_prints_one_json_object_with_the_promised_keys(
    command: Command, tmp_path: Path
) -> None:
    said = command(
        "run", "pfpl+", "--data", "shop.csv", *SMALL, "--seed", "3", "--threads", "1", "--json"
    )
    found = said.json
    assert [name for name in PRINTED if name not in found] == []
    assert (found["algorithm"], found["protocol"], found["seed"], found["rounds"]) == (
        "pfpl+",
        "loo-20",
        3,
        5,
    )
    assert found["data"] == str(tmp_path / "shop.csv") and found["run"] == "pfpl+-shop-loo-20-seed3"
    assert {"hr@10", "ndcg@10", "precision@10", "recall@10", "item_coverage@10", "gini@10"} <= set(
        found["metrics"]
    )
    assert set(found["seconds"]) == {"train", "evaluate"} and set(found["bytes"]) == {"up", "down"}
    assert "round 5/5" in said.err
    own = experiment.run(
        "pfpl+", shop(tmp_path), protocol="loo-20", rounds=5, seed=3, settings={"factors": 5}
    )
    assert (found["model_sha256"], found["metrics"]) == (own.manifest["model_sha256"], own.metrics)
    assert (tmp_path / "runs" / found["run"] / "model.safetensors").is_file()


def test_run_as_a_table_shows_the_same_numbers_and_how_to_go_on(command: Command) -> None:
    found = command("run", "pfpl+", "--data", "shop.csv", *SMALL, "--json").json
    said = command("run", "pfpl+", "--data", "shop.csv", *SMALL)
    assert said.code == 0
    row = next(line for line in said.out.splitlines() if "ndcg@10" in line)
    assert (
        f"{found['metrics']['ndcg@10']:.4f}" in row
        and f"{found['full_ranking']['ndcg@10']:.4f}" in row
    )
    assert found["model_sha256"] in said.out and f"{found['bytes']['up']:,} bytes up" in said.out
    assert "users evaluated: 40, with 40 held-out rows" in said.out
    fair = found["fairness"]
    assert (
        f"std of ndcg@10 over users {fair['std_ndcg@10']:.4f} (less is fairer);"
        f" {fair['std_by_chance']:.4f} by chance" in said.out
    )
    assert (
        "worst tenth of users by each metric: hr@10 0.0000, ndcg@10 0.0000, auc"
        f" {fair['worst_decile_auc']:.4f}" in said.out
    )
    assert f"entrenous recommend {found['run']}-2 --user ID" in said.out
    elsewhere = command(
        "run", "popular", "--data", "shop.csv", "--protocol", "loo-20", "--out", "else"
    ).out
    assert "entrenous recommend else/popular-shop-loo-20-seed0 --user ID" in elsewhere


@pytest.mark.parametrize(
    "protocol",
    ["loo-20", "temporal-80-20", "global-80-20", "random-80-20", "kfold-5"],
)
def test_every_protocol(protocol: str, command: Command) -> None:
    found = command("run", "popular", "--data", "shop.csv", "--protocol", protocol, "--json").json
    assert found["protocol"] == protocol
    assert ("full_ranking" in found) == ("fairness_full_ranking" in found) == (protocol == "loo-20")
    assert {"std_ndcg@10", "std_by_chance", "worst_decile_hr@10"} <= set(found["fairness"])
    assert len(found.get("folds", [])) == (5 if protocol == "kfold-5" else 0)


def test_split_says_what_it_did(command: Command) -> None:
    done = command("split", "shop.csv", "--protocol", "global-80-20", "--out", "split")
    assert (done.code, done.out) == (0, "split\n")
    assert "one moment for all users: rows before 1970-01-12T" in done.err
    assert "(20.0 %) test" in done.err


@pytest.mark.parametrize("options", [["--data", "split"], ["--given", "split"]])
def test_a_split_in_files_gives_the_same_run(
    options: list[str], command: Command, tmp_path: Path
) -> None:
    written = command("split", "shop.csv", "--protocol", "loo-20", "--out", "split", "--seed", "3")
    assert (written.code, written.out) == (0, "split\n")
    own = command("run", "pfpl+", "--data", "shop.csv", *SMALL, "--seed", "3", "--json").json
    given = command(
        "run", "pfpl+", *options, *SMALL[2:], "--protocol", "given", "--seed", "3", "--json"
    ).json
    assert given["protocol"] == "given" and given["data"] == str(tmp_path / "split")
    assert {name: given[name] for name in ("metrics", "full_ranking", "model_sha256", "bytes")} == {
        name: own[name] for name in ("metrics", "full_ranking", "model_sha256", "bytes")
    }
    resumed = command("recommend", given["run"], "--user", "u3", "--json").json["recommendations"]
    assert (
        resumed
        == command("recommend", own["run"], "--user", "u3", "--json").json["recommendations"]
    )


def test_settings_and_reading_options(command: Command, tmp_path: Path) -> None:
    text = (tmp_path / "shop.csv").read_text()
    (tmp_path / "odd.txt").write_text(
        text.replace("item_id", "venue").replace(",", ";") + "u0;i99;3;5\nu0;i99;4;6\n"
    )
    options = [
        "--data",
        "odd.txt",
        "--load",
        "item=venue",
        "--load",
        "delimiter=;",
        "--load",
        "duplicates=last",
    ]
    found = command("run", "pfpl+", *options, *SMALL, "--set", "pi=0.5", "--json").json
    assert found["settings"] == {"factors": "5", "pi": "0.5"}
    assert found["load"] == {"item": "venue", "delimiter": ";", "duplicates": "last"}
    assert found["catalogue"]["interactions"] == 40 * 12 + 1
    assert (
        command("recommend", found["run"], "--user", "u3").code == 0
    )  # reads the file as the run did


def test_compiling_is_spoken_of_after_all_was_checked(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrenous.core.compiled_code.is_ready", lambda function: False)
    for wrong in (
        ["--set", "fators=3"],
        ["--protocol", "lo-20"],
        ["--data", "none.csv"],
        ["--protocol", "loo-99"],
    ):
        assert (
            "compiling"
            not in command(
                "run", "pfpl+", *["--data", "shop.csv"] * ("--data" not in wrong), *wrong
            ).error
        )
    assert (
        "compiling"
        not in command("tune", "pfpl+", "--data", "shop.csv", "--grid", "fators=3").error
    )
    said = command("run", "pfpl+", "--data", "shop.csv", *SMALL).err.splitlines()
    assert said[0].startswith("profile paper: ")
    assert (
        said[1].startswith("compiling pfpl+'s device code for this machine")
        and said[2] == "round 0/5"
    )
    tuned = command("tune", "pfpl+", "--data", "shop.csv", *SMALL, "--grid", "pi=0,1").err
    assert tuned.count("compiling pfpl+'s device code") == 1
    assert (
        "compiling" not in command("run", "popular", "--data", "shop.csv", *SMALL[:2]).err
    )  # there is nothing to compile


# ---- what is stored ------------------------------------------------------------------------------


def test_runs_lists_what_is_stored_and_names_what_cannot_be_read(
    command: Command, tmp_path: Path
) -> None:
    nothing = command("runs")
    assert (nothing.code, nothing.out) == (0, "") and nothing.err.startswith(
        "no runs under runs; make one with"
    )
    assert command("runs", "--json").json == {"runs": []}
    made = command("run", "popular", "--data", "shop.csv", "--protocol", "loo-20", "--json").json
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{")
    (listed,) = command("runs", "--json").json["runs"]
    assert listed["run"] == made["run"] and listed["metrics"] == made["metrics"]
    said = command("runs")
    assert made["run"] in said.out and f"{made['metrics']['hr@10']:.4f}" in said.out
    assert said.err.startswith("left out: runs/broken/manifest.json: cannot be read")
    assert command("recommend", "--user", "u3", "--json").json["run"] == made["run"]


def test_recommend_is_what_the_run_recommends_in_python(command: Command, tmp_path: Path) -> None:
    made = experiment.run("pfpl+", "shop.csv", protocol="loo-20", rounds=5, out="runs")
    found = command("recommend", "--user", "u3", "--n", "7", "--scores", "--json").json
    assert found == {
        "run": made.manifest["run"],
        "user": "u3",
        "recommendations": made.recommend("u3", 7),
    }
    user = made.train.users.index("u3")
    own = {
        made.train.items[int(item)]
        for item in made.train.item[made.train.ptr[user] : made.train.ptr[user + 1]]
    }
    whole = command("recommend", "--user", "u3", "--n", "99", "--json").json["recommendations"]
    assert len(own) == 11 and own.isdisjoint(row["item"] for row in whole)
    assert {row["score"] for row in whole} == {None}
    said = command("recommend", made.manifest["run"], "--user", "u3", "--n", "7")
    assert [row["item"] in said.out for row in found["recommendations"]] == [True] * 7
    assert "score" not in said.out and "score" in command("recommend", "--user=u3", "--scores").out
    assert (
        command("recommend", made.path, "--user", "u3", "--n", "7", "--runs", "elsewhere").out
        == said.out
    )


def test_report_writes_one_file_and_prints_its_path(command: Command, tmp_path: Path) -> None:
    for algorithm in ("pfpl+", "popular"):
        command("run", algorithm, "--data", "shop.csv", *SMALL[:4], "--every", "2")
    one, two = (
        command("report"),
        command(
            "report",
            "pfpl+-shop-loo-20-seed0",
            "popular-shop-loo-20-seed0",
            "--out",
            "new/two.html",
            "--user",
            "u3",
        ),
    )
    assert (one.code, one.out, one.err) == (0, "runs/popular-shop-loo-20-seed0/report.html\n", "")
    assert (two.code, two.out) == (0, "new/two.html\n")
    page = (tmp_path / "new" / "two.html").read_text()
    assert (
        page.startswith("<!DOCTYPE html>")
        and "u3" in page
        and "pfpl+" in page
        and "popular" in page
    )
    assert os.listdir(tmp_path / "new") == ["two.html"]


# ---- what there is -------------------------------------------------------------------------------


def test_algorithms_lists_all_that_is_discovered(command: Command) -> None:
    found = command("algorithms", "--json").json["algorithms"]
    assert [one["name"] for one in found] == list(algorithms())
    wanted = [
        "fpl",
        "sfpl",
        "sfpl+",
        "pfpl",
        "pfpl+",
        "fcf",
        "random",
        "popular",
        "user-knn",
        "item-knn",
        "bpr-mf",
        "vae",
        "ials",
    ]
    kinds = {one["name"]: one["kind"] for one in found}
    assert [kinds[name] for name in wanted] == ["federated"] * 6 + ["central"] * 7
    assert kinds["pepper-gmf"] == kinds["gossip-average-gmf"] == "gossip"
    assert next(one for one in found if one["name"] == "sfpl")["preset"] == {
        "cohort": 1,
        "triples": 1,
    }
    said = command("algorithms")
    assert said.code == 0 and all(name in said.out for name in wanted)


@pytest.mark.parametrize("name", list(algorithms()))
def test_explain_says_what_leaves_the_device_and_which_settings_there_are(
    name: str, command: Command
) -> None:
    found = command("explain", name, "--json").json
    kind = algorithms()[name]
    kind = getattr(kind, "func", kind)
    assert [one["name"] for one in found["settings"]] == list(kind.model_fields)
    assert all(len(one["description"]) > 10 for one in found["settings"])
    said = command("explain", name)
    assert said.code == 0 and said.out.startswith(f"{name}: {found['summary']}")
    assert ("There is no server" in said.out) is (found["kind"] == "gossip")
    assert "stays: the history" not in said.out, "what leaves may give it away"
    if found["kind"] in ("federated", "gossip"):
        assert [one["name"] for one in found["leaves_the_device"]] == [
            one.name for one in declared(algorithms()[name]()).sends
        ]
        assert "What leaves the device" in said.out and all(
            one["reveals"] for one in found["leaves_the_device"]
        )
        assert f"{of_the_list(name)} The device's own arrays stay on it." in " ".join(
            said.out.split()
        )
        for account in found["people"].values():
            assert account["guessable"] and account["because"] and account["part"]
        private = any(one["profile"] == "private" for one in found["measured"])
        assert ("an operator who follows the protocol" in " ".join(said.out.split())) is private
    else:
        assert found["leaves_the_device"] == [] and "given every user's whole history" in said.out


def test_explain_shows_what_a_preset_changes(command: Command) -> None:
    settings = {
        name: {
            one["name"]: one["default"]
            for one in command("explain", name, "--json").json["settings"]
        }
        for name in ("fpl", "sfpl")
    }
    assert settings["sfpl"]["triples"] == "1" and settings["sfpl"]["cohort"] == "1"
    assert (
        settings["fpl"]["triples"] != "1"
        and settings["fpl"]["pi"] == settings["sfpl"]["pi"] == "1.0"
    )
