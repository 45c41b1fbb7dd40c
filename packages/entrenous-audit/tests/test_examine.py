"""A whole audit: the report has what it promises, in Python and on the command line, and bad input
is one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Command, write_shop
from entrenous_audit.apart import Attempt
from entrenous_audit.known import known
from entrenous_lab.survey import page

import entrenous
from entrenous.core.errors import InputError
from entrenous.privacy import evidence, told

PROMISED = {
    "algorithm",
    "view",
    "cohort",
    "rounds",
    "profile",
    "popularity",
    "attacks",
    "accuracy",
    "epsilon",
}
FIGURES = {
    "name",
    "precision",
    "recall",
    "r_precision",
    "auc",
    "low",
    "high",
    "rounds_to_half",
    "verdict",
}
VERDICTS = {"EXPOSED", "LEAKS", "NO ADVANTAGE FOUND BY THESE ATTACKS", "NOT TRIED"}
SMALL = {"factors": 4}
pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which holds shop.csv."""
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    return tmp_path


def test_the_report_of_an_audit_says_what_was_promised(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_small = ["--set", "factors=4", "--set", "epochs=2"]
    found = Command(capsys)(
        "audit", "fpl", "--data", "shop.csv", "--protocol", "loo-20", *set_small, "--json"
    ).json
    assert found.keys() >= PROMISED and (found["algorithm"], found["view"], found["profile"]) == (
        "fpl",
        "individual",
        "paper",
    )
    assert (
        found["epsilon"] is None
        and found["popularity"].keys() == {"r_precision", "auc"}
        and "hr@10" in found["accuracy"]
    )
    assert (found["cohort"], found["rounds"]) == (40, 1)
    for one in found["attacks"]:
        assert one["verdict"] in VERDICTS and one.keys() >= FIGURES, one
    views = {one["view"] for one in found["attacks"]}
    assert views <= {"individual", "model"}


def test_the_same_audit_finds_the_same(folder: Path) -> None:
    one, other = (
        entrenous.audit(
            "fpl", "shop.csv", protocol="loo-20", settings=SMALL, quick=True, seed=3
        ).found
        for _ in range(2)
    )
    assert one == other and one["accuracy"] == {}


def test_a_stored_run_is_audited_as_it_was_trained(folder: Path) -> None:
    run = entrenous.run(
        "fcf",
        "shop.csv",
        protocol="loo-20",
        settings={"factors": 3},
        rounds=4,
        seed=2,
        out=folder / "runs",
    )
    found = entrenous.audit("latest", root=folder / "runs", view="sum", cohort=8, rounds=3).found
    assert (found["algorithm"], found["seed"], found["settings"]["factors"]) == ("fcf", 2, 3)
    assert (
        found["accuracy"] == {"hr@10": run.metrics["hr@10"]}
        and found["run"] == Path(str(run.path)).name
    )
    with pytest.raises(InputError, match="a stored run has its own"):
        entrenous.audit("latest", root=folder / "runs", settings=SMALL)


def test_peers_are_audited_as_a_neighbour_sees_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Command(capsys)(
        "audit",
        "pepper-gmf",
        "--data",
        "shop.csv",
        *["--protocol", "random-80-20", "--watched", "3", "--rounds", "2", "--quick"],
    )
    assert (
        said.code == 0
        and "view neighbour" in said.out
        and "3 of 40 peers look on together" in said.out
    )


def test_the_final_model_alone_is_that_of_the_training_whose_accuracy_is_shown(
    folder: Path,
) -> None:
    found = entrenous.audit(
        "fpl", "shop.csv", protocol="loo-20", settings=SMALL, view="model", rounds=3
    ).found
    run = entrenous.run("fpl", "shop.csv", protocol="loo-20", settings=SMALL, rounds=3)
    assert (
        found["accuracy"] == {"hr@10": run.metrics["hr@10"]}
        and found["view"] == "model"
        and found["seen"]["entries"] == 0
    )
    assert {one["view"] for one in found["attacks"]} <= {"model"}


def test_every_attack_says_what_is_known_by_taking_part_or_why_nobody_tried(folder: Path) -> None:
    """Of messages alone (--quick) it is not tried; of a final model both figures are in the table,
    though one attack is asked for.
    """
    asked: Any = {"protocol": "loo-20", "settings": SMALL, "rounds": 2}
    quick = entrenous.audit("fcf", "shop.csv", quick=True, view="sum", cohort=8, **asked)
    assert quick.found["attacks"]
    for one in quick.found["attacks"]:
        part = one["participation"]
        assert part["verdict"] == "NOT TRIED" and "final model" in part["reason"]
    assert any(said.startswith("known by taking part, NOT TRIED of") for said in quick.notes)
    assert "guessable anyway" not in told.said(quick.found)
    whole = entrenous.audit("fcf", "shop.csv", attacks=("membership",), **asked)
    (one,) = whole.found["attacks"]
    part = one["participation"]
    assert part["guessable"] is not None and part["reason"] == "" and part["people"] > 0
    table = whole.table()
    assert table["guessable"].to_list() == [None, part["guessable"]]
    assert table["because"].to_list() == [None, part["because"]]
    assert f"{part['guessable']:.3f} is guessable anyway" in " ".join(whole.notes)
    assert f"{part['guessable']:.3f} guessable anyway" in told.said(
        {**whole.found, "view": "model"}
    )


def test_an_attack_that_failed_is_said_to_have_failed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "entrenous_audit.examine.attempts",
        lambda *_, **__: [Attempt("sign", None, "ValueError: no rows")],
    )
    command = Command(capsys)
    arguments = ["audit", "fpl", "--data", "shop.csv", "--protocol", "loo-20", "--quick"]
    (one,) = command(*arguments, "--json").json["attacks"]
    assert (
        one["verdict"] == "failed: ValueError: no rows"
        and one.keys() >= FIGURES
        and one["r_precision"] is None
    )
    assert "failed: ValueError: no rows" in command(*arguments).out


def test_what_no_attack_could_try_is_said_in_that_word_wherever_it_is_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of everybody: `regression` needs cohorts that change."""
    found = entrenous.audit(
        "fcf",
        "shop.csv",
        protocol="loo-20",
        settings=SMALL,
        view="sum",
        cohort=40,
        rounds=5,
        quick=True,
        protect={"noise": 1.0},
    ).found
    # `em` tries; what is said without it is the matter here.
    untried = [one for one in found["attacks"] if one["verdict"] == "NOT TRIED"]
    found = {**found, "attacks": untried}
    assert evidence.best(found) is None and told.verdict_of(found) == "NOT TRIED"
    said = told.said(found)
    assert said.endswith(": NOT TRIED") and "'regression' (cohorts do not change)" in said
    monkeypatch.setattr(evidence, "entries", lambda: ({**found, "users": 8},))
    (line,) = [line for line in page().splitlines() if line.startswith("| `fcf`")]
    assert "| NOT TRIED |" in line and "NO ADVANTAGE" not in line


def test_a_table_is_printed_and_attacks_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    shown = command(
        "audit",
        "fcf",
        "--data",
        "shop.csv",
        "--protocol",
        "loo-20",
        "--view",
        "sum",
        "--cohort",
        "6",
        "--quick",
    )
    assert shown.code == 0 and "popularity alone" in shown.out and "safe" not in shown.out
    listed = command("audit", "--attacks", "--json").json["attacks"]
    assert [one["name"] for one in listed] == sorted(known()) and all(
        one["source"] and one["views"] for one in listed
    )
    assert command("audit", "--attacks").code == 0


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "nothing was named"),
        (["fpll"], "unknown algorithm 'fpll'"),
        (["popular"], "nothing leaves a device"),
        (["fpl", "--view", "all"], "Invalid value"),
        (["fpl", "--view", "neighbour"], "no view 'neighbour'"),
        (["pepper-gmf", "--view", "sum"], "no server"),
        (["fpl", "--cohort", "41"], "--cohort: got 41"),
        (["fpl", "--rounds", "-1"], "--rounds"),
        (["fpl", "--attack", "sgn"], "unknown attack 'sgn'"),
        (["fpl", "--profile", "secret"], "Invalid value"),
        (["fpl", "--set", "pi=2"], "--set pi: got '2'"),
        (["fpl", "--protect", "noise=-1"], "--protect noise"),
    ],
)
def test_bad_input_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    found: Any = Command(capsys)(
        "audit", *arguments, *(["--data", "shop.csv", "--protocol", "loo-20"] if arguments else [])
    )
    assert said in found.error
