"""Receipts: a run is repeated to the bit, and what one device sent in it is counted as that device sent it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import Command, write_shop

from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.runs import pipeline, store

TOTALS = ("rows", "positives", "numbers")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    return Command(capsys)


def run(algorithm: str, **options: object) -> pipeline.RunResult:
    return pipeline.run(algorithm, "shop.csv", protocol="loo-20", out="runs", threads=1, **options)  # type: ignore[arg-type]


def test_rows_and_positives_are_those_that_the_device_sent(command: Command) -> None:
    made = run("pfpl+", rounds=3, settings={"factors": 4, "pi": 0.5})
    found = command("receipt", "latest", "--user", "u7", "--json").json
    who, recorder = made.train.users.index("u7"), Recorder("individual")
    rounds = Rounds(made.recommender.algorithm, made.train, recorder=recorder)
    rounds.advance(rounds.start(), 3)
    own = set(made.train.of_users(np.array([who])).item.tolist())
    for line, seen in zip(found["rounds"], recorder.rounds, strict=True):
        item = seen.sent["item"][seen.sent["ptr"][who] : seen.sent["ptr"][who + 1]].tolist()
        assert (line["rows"], line["positives"]) == (len(item), len(own & set(item)))
        assert line["numbers"] == 5 * len(item)  # four factors and the bias
    assert found["history"] == len(own) and found["rounds_answered"] == 3 and found["epsilon"] is None
    assert all(found[name] == sum(one[name] for one in found["rounds"]) for name in TOTALS)
    assert 0 < found["different_positives"] <= len(own) and found["positives"] < found["rows"]


def test_only_rounds_in_which_the_device_took_part_count(command: Command) -> None:
    run("fcf", rounds=4, settings={"cohort": 5, "factors": 4})
    parts = [command("receipt", "--user", user, "--json").json["rounds_answered"] for user in ("u1", "u2", "u3", "u4", "u5")]
    assert max(parts) <= 4 and sum(parts) < 5 * 4


def test_rounds_of_one_device_are_repeated_as_they_were_compiled(command: Command) -> None:
    """sFPL's many rounds of one device are run as a whole; the hash of the model, which is checked, would show a round left out."""
    run("sfpl", rounds=400, settings={"factors": 4})
    found = [command("receipt", "--user", f"u{n}", "--json").json["rounds_answered"] for n in range(0, 40, 8)]
    assert 25 <= sum(found) <= 80 and all(found)  # 400 rounds among 40 devices, ten each


def test_under_private_a_row_leaves_for_every_item(command: Command) -> None:
    run("pfpl+", rounds=2, settings={"factors": 4}, profile="private", protect={"people": 20})
    found = command("receipt", "--user", "u3", "--json").json
    assert [one["rows"] for one in found["rounds"]] == [60, 60] and found["profile"] == "private"
    assert any("sums alone" in said for said in found["sentences"]), found["sentences"]
    assert (found["expected"] == [] and "no audit" in found["not_measured"]) or found["expected"]


def test_a_peer_gives_its_model_away_with_each_push(command: Command) -> None:
    run("gossip-average-gmf", rounds=3, settings={"factors": 2})
    found = command("receipt", "--user", "u3", "--json").json
    assert found["rounds_answered"] == 3 and found["arrays"] == ["model"] and found["different_positives"] == found["history"]


def test_a_central_server_was_given_the_whole_history(command: Command) -> None:
    run("popular")
    found = command("receipt", "--user", "u3", "--json").json
    assert found["rows"] == found["positives"] == found["history"] > 0
    assert "whole history" in found["sentences"][0]


def test_who_is_unknown_and_what_cannot_be_repeated_is_one_line(command: Command) -> None:
    made = run("pfpl+", rounds=2, settings={"factors": 4})
    assert "unknown user 'u77'" in command("receipt", "--user", "u77").error
    assert "no-such-run" in command("receipt", "no-such-run", "--user", "u7").error
    assert made.path is not None
    manifest = store.read_manifest(made.path)
    store.write_manifest(made.path, {**manifest, "model_sha256": "0" * 64})
    assert "ends with another model" in command("receipt", "--user", "u7").error
    store.write_manifest(made.path, {**manifest, "status": "running"})
    assert "not finished" in command("receipt", str(made.path), "--user", "u7").error


def test_people_can_read_it(command: Command) -> None:
    run("pfpl+", rounds=25, settings={"factors": 4})
    said = command("receipt", "--user", "u7")
    assert said.code == 0 and "1 to 3" in said.out and "all" in said.out
    assert "What attacks are expected to know" in said.out or "no audit" in said.out


def test_a_run_whose_data_changed_is_refused(command: Command, tmp_path: Path) -> None:
    run("pfpl+", rounds=1, settings={"factors": 4})
    write_shop(tmp_path / "shop.csv", seed=1)
    assert "has changed since the run" in command("receipt", "--user", "u7").error
