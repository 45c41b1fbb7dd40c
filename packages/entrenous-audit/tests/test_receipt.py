"""Receipts: a run is repeated to the bit, and what one device sent in it is counted as that device
sent it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command, write_shop
from entrenous_audit.apart import attempts
from entrenous_audit.measures import histories_of, r_precision
from entrenous_audit.observe import observe
from entrenous_audit.plan import AuditPlan

from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.privacy import evidence
from entrenous.privacy.protection import Protection
from entrenous.runs import pipeline, store

OF_MESSAGES: dict[str, Any] = {
    "algorithm": "fcf",
    "view": "individual",
    "profile": "paper",
    "cohort": 943,
    "people": 1,
    "rounds": 1,
    "data": "ml-100k",
    "protocol": "loo-99",
    "seed": 0,
    "users": 200,
    "popularity": {"r_precision": 0.33, "auc": 0.87},
    "accuracy": {},
    "epsilon": None,
    "settings": {"factors": 32, "cohort": 943, "rounds": 100},
    "protect": {"noise": 0.0},
    "attacks": [
        {
            "name": "gradient",
            "precision": 1.0,
            "recall": 1.0,
            "r_precision": 1.0,
            "popularity_r_precision": 0.33,
            "auc": 1.0,
            "by_round": [[1, 1.0]],
            "verdict": "EXPOSED",
        }
    ],
}
MEMBERSHIP = {
    "name": "membership",
    "precision": None,
    "recall": 0,
    "r_precision": 0.432,
    "popularity_r_precision": 0.249,
    "auc": 0.9,
    "by_round": [],
    "verdict": "LEAKS",
    "participation": {
        "people": 179,
        "guessable": 0.402,
        "took_part": 0.432,
        "because": 0.03,
        "low": 0.021,
        "high": 0.038,
        "verdict": "KNOWN BECAUSE THEY TOOK PART",
    },
}
OF_MODEL: dict[str, Any] = {**OF_MESSAGES, "view": "model", "rounds": 0, "attacks": [MEMBERSHIP]}
TOTALS = ("rows", "positives", "numbers")


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
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
    assert (
        found["history"] == len(own) and found["rounds_answered"] == 3 and found["epsilon"] is None
    )
    assert all(found[name] == sum(one[name] for one in found["rounds"]) for name in TOTALS)
    assert 0 < found["different_positives"] <= len(own) and found["positives"] < found["rows"]


def test_only_rounds_in_which_the_device_took_part_count(command: Command) -> None:
    run("fcf", rounds=4, settings={"cohort": 5, "factors": 4})
    parts = [
        command("receipt", "--user", user, "--json").json["rounds_answered"]
        for user in ("u1", "u2", "u3", "u4", "u5")
    ]
    assert max(parts) <= 4 and sum(parts) < 5 * 4


def test_rounds_of_one_device_are_repeated_as_they_were_compiled(command: Command) -> None:
    """sFPL's many rounds of one device are run as a whole; the hash of the model, which is checked,
    would show a round left out.
    """
    run("sfpl", rounds=400, settings={"factors": 4})
    found = [
        command("receipt", "--user", f"u{n}", "--json").json["rounds_answered"]
        for n in range(0, 40, 8)
    ]
    assert 25 <= sum(found) <= 80 and all(found)  # 400 rounds among 40 devices, ten each


def never(run_: pipeline.RunResult, rounds: int) -> str:
    """A user who was in none of the rounds of a run."""
    recorder = Recorder("individual")
    again = Rounds(run_.recommender.algorithm, run_.train, recorder=recorder)
    again.advance(again.start(), rounds)
    asked = {int(user) for seen in recorder.rounds for user in seen.users}
    return str(run_.train.users.ids[min(set(range(len(run_.train.users))) - asked)])


def test_who_was_in_no_round_is_told_so_and_of_no_attack_on_messages(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "entries", lambda: (OF_MESSAGES, OF_MODEL))
    made = run("fcf", rounds=3, settings={"cohort": 5, "factors": 4})
    user = never(made, 3)
    found = command("receipt", "latest", "--user", user, "--json").json
    assert (
        found["rounds"] == found["expected"] == []
        and found["rounds_answered"] == found["numbers"] == 0
    )
    assert found["own"] == [] and found["part"][0] == (
        "You were not in this run, in none of its 3 rounds; nothing left your device."
    )
    assert "no operator" in found["part"][1] and "cannot be undone" in found["part"][-1]
    assert "--view model --attack user-membership" in found["part"][2]
    assert found["guessable"] == [
        "The model of a whole training, with half of a list known, guesses 40 of 100 other items of"
        " anybody, a list of what is popular 25 (attack 'membership', tried on 179 people who never"
        " took part, measured at factors 32 (here 4))."
    ]
    assert found["because"] == ["Nothing: you did not take part."]
    printed = command("receipt", "latest", "--user", user).out
    for word in (
        "gradient",
        "EXPOSED",
        "LEAKS",
        "What left",
        "could read each answer",
        "sums alone",
    ):
        assert word not in printed, word


def test_of_messages_that_hold_the_whole_list_no_row_is_said_to_be_0(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FCF sends one array over all items: "rows 0, of items consumed 0" stood above an attack that
    knows all of them.
    """
    monkeypatch.setattr(evidence, "entries", lambda: (OF_MESSAGES, OF_MODEL))
    run("fcf", rounds=5, settings={"factors": 32})
    found = command("receipt", "latest", "--user", "u7", "--json").json
    size = found["history"]
    assert {(one["rows"], one["positives"]) for one in found["rounds"]} == {(None, None)} and found[
        "rows"
    ] is None
    assert found["numbers"] == 5 * 60 * 32 and found["different_positives"] == size
    assert found["part"][:2] == [
        "Your device answered 5 times, in 5 rounds.",
        f"Each answer contains your whole list of {size} items: it has numbers for every item at"
        " once (f), and rows are not counted.",
    ]
    assert found["because"] == [
        f"Whoever reads 5 of your messages, and nobody else's, finds {size} of your {size} items"
        " (attack 'gradient', R-precision 1.000); a list of what is popular finds 6 of them.",
        "The model knows 3.0 of 100 items more of people who took part (95 % interval 2.1 to 3.8).",
        "No guarantee: there is no differential privacy.",
    ]
    assert "guesses 40 of 100 other items of anybody" in found["guessable"][0]
    printed = " ".join(command("receipt", "latest", "--user", "u7").out.split())
    assert "not counted" in printed and f"finds {size} of your {size} items" in printed


def test_attacks_find_of_each_user_what_an_audit_of_everybody_finds_of_that_user(
    command: Command,
) -> None:
    """Of the messages that the user sent, at the settings of the run; of the one item of who has
    one, too.
    """
    with Path("shop.csv").open("a", encoding="utf-8") as shop:
        shop.writelines(f"lone,{item},5,{time}\n" for time, item in enumerate(("i1", "i2")))
    made = run("pfpl+", rounds=5, settings={"factors": 4, "pi": 0.5})
    plan = AuditPlan(algorithm="pfpl+", view="individual", rounds=5)
    seen = observe(plan, made.train, algorithm=made.recommender.algorithm)
    (claims,) = (one.claims for one in attempts(seen, ["sign"]))
    assert claims is not None
    audited = r_precision(claims.score, histories_of(made.train, claims.users))
    figures = []
    for user in ("u3", "u7", "lone"):
        found = command("receipt", "latest", "--user", user, "--json").json
        (sign,) = (one for one in found["own"] if one["name"] == "sign")
        assert sign["r_precision"] == audited[made.train.users.index(user)]
        assert "Whoever reads 5 of your messages, and nobody else's, finds" in found["because"][0]
        figures.append((sign["r_precision"], sign["popularity_r_precision"]))
    assert len(set(figures)) == 3 and found["history"] == 1


def test_where_no_row_of_a_consumed_item_leaves_it_is_said(command: Command) -> None:
    run("pfpl+", rounds=2, settings={"pi": 0, "factors": 80})
    found = command("receipt", "latest", "--user", "u7", "--json").json
    assert found["rows"] > 0 and found["positives"] == found["different_positives"] == 0
    assert found["part"][1].startswith("You sent no row of an item that you consumed.")


def test_a_run_with_a_budget_says_its_epsilon_and_tells_no_draw_that_was_not_that_of_the_run(
    command: Command,
) -> None:
    """Who took part is drawn by the operating system: a repetition has other devices in its
    rounds.
    """
    pytest.importorskip("dp_accounting")
    run(
        "fcf",
        rounds=4,
        settings={"cohort": 10, "factors": 4},
        profile="dp",
        protect={"people": 1, "noise": 3, "delta": 1e-3},
    )
    found = command("receipt", "latest", "--user", "u7", "--json").json
    spent = store.read("latest", Path("runs")).manifest["privacy"]
    assert 0 < found["epsilon"] == spent["epsilon"]
    assert (
        f"epsilon {spent['epsilon']:.3f} at delta 0.001 of each user, of 1 training, over noise of"
        f" the operating system ({spent['epsilon_exchanged']:.3f} where one user is exchanged for"
        " another)" in found["because"][-1]
    )
    assert not any("no differential privacy" in said for said in found["because"])
    assert (
        found["rounds"] == []
        and found["rounds_answered"] is None
        and found["rows"] is found["numbers"] is None
    )
    assert (
        "by chance, 0.25 in each of the 4 rounds" in found["part"][0]
        and "cannot be said" in found["part"][0]
    )
    assert found["own"] == [] and "own messages tell was not measured" in found["because"][-2]
    printed = command("receipt", "latest", "--user", "u7")
    assert printed.code == 0 and "cannot be said" in printed.out and "What left" not in printed.out


def test_poisson_sampling_from_the_seed_is_the_very_draw_of_the_run(command: Command) -> None:
    """Without an epsilon draws may come from the seed, and then they are repeated."""
    drawn = {"sampling": "poisson", "noise": 1.0, "noise_by": "server", "clip": 1.0, "rows": "all"}
    made = run("fcf", rounds=6, settings={"cohort": 20, "factors": 4}, protect=drawn)
    recorder = Recorder("individual")
    again = Rounds(
        made.recommender.algorithm,
        made.train,
        recorder=recorder,
        protection=Protection.parse(drawn, ""),
    )
    again.advance(again.start(), 6)
    for user in ("u1", "u2", "u3"):
        who = made.train.users.index(user)
        mine = [seen.round for seen in recorder.rounds if who in seen.users]
        found = command("receipt", "latest", "--user", user, "--json").json
        assert [one["round"] for one in found["rounds"]] == mine and 0 < len(mine) < 6


def test_under_private_a_row_leaves_for_every_item(command: Command) -> None:
    run("pfpl+", rounds=2, settings={"factors": 4}, profile="private", protect={"people": 20})
    found = command("receipt", "--user", "u3", "--json").json
    assert [one["rows"] for one in found["rounds"]] == [60, 60] and found["profile"] == "private"
    assert any("sums alone" in said for said in found["part"]), found["part"]
    assert found["part"][0].startswith("An operator who plants models finds 0.324 of a list")
    assert "before they are added up; the server saw sums" in found["because"][0]
    assert "95 %" in command("receipt", "--user", "u3").out
    assert (found["expected"] == [] and "no audit" in found["not_measured"]) or found["expected"]


def test_a_peer_gives_its_model_away_with_each_push(command: Command) -> None:
    run("gossip-average-gmf", rounds=3, settings={"factors": 2})
    found = command("receipt", "--user", "u3", "--json").json
    assert (
        found["rounds_answered"] == 3
        and found["arrays"] == ["model"]
        and found["different_positives"] == found["history"]
    )
    assert {one["name"] for one in found["own"]} == {"drift", "first-push"}
    assert found["because"][0].startswith("Whoever reads 9 of your messages")


def test_a_central_server_was_given_the_whole_history(command: Command) -> None:
    run("popular")
    found = command("receipt", "--user", "u3", "--json").json
    assert found["rows"] == found["positives"] == found["history"] > 0
    assert found["part"] == ["The server was given your whole list."]


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
