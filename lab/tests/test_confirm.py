"""Stored results of a program that has changed since: a sample of their trainings is begun again
and compared to the last digit.
"""

import json
import subprocess

import pytest
from entrenous_lab.papers import batch, provenance
from entrenous_lab.papers.batch import Asked, run_papers, stock
from entrenous_lab.papers.cell import CurvePoint, Outcome
from entrenous_lab.papers.confirm import DAILY, confirm, is_cheap, of_day, outcome_sha256
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.stored import stored_in
from paths import ROOT

from entrenous.cli import main
from entrenous.core.errors import CheckFailed
from lab.tests.test_batch import GOOD

RESULTS = ROOT / "lab" / "results"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder with one result, fresh, and what is kept of its trainings."""
    known = {"good": GOOD}
    monkeypatch.setattr(batch, "experiments", lambda: known)
    for module in ("runner", "confirm"):
        monkeypatch.setattr(f"entrenous_lab.papers.{module}.experiments", lambda: known)
    (line,) = run_papers(
        ["good"], Asked(), out=tmp_path / "out", cells=tmp_path / "cells", threads=1
    )
    # Of a curve, and of two seeds of each system.
    assert line.said.endswith("; fresh: 5 trainings are the same to the last digit")
    return tmp_path / "out"


def origin(results):
    return stored_in(results, ["good"])["good"].origin


def change(results, **more):
    """The result as if it had been made by another program, or with another sample."""
    path = results / "good.json"
    content = json.loads(path.read_text())
    content["origin"] = {**content["origin"], **more}
    path.write_text(json.dumps(content))


def confirmed(results):
    (line,) = confirm(["good"], out=results, threads=1)
    return line


def state(results):
    return stock(["good"], results)[0].state


def test_a_fresh_result_has_a_sample_of_every_algorithm_and_keeps_its_figures(results):
    before = stored_in(results, ["good"])["good"].content
    first = origin(results)["sample"]
    change(results, sample={}, table_sample="")
    assert confirmed(results).said == "fresh: 5 trainings are the same to the last digit"
    after = stored_in(results, ["good"])["good"].content
    assert {**after, "origin": before["origin"]} == before
    assert after["origin"]["sample"] == first and len(after["origin"]["table_sample"]) == 64
    assert sum("fcf" in label for label in first) == 3
    assert sum("popular" in label for label in first) == 2


def test_a_result_whose_sample_is_the_same_is_fresh_whatever_changed(results):
    was = origin(results)["confirmed"]
    change(results, confirmed={**was, "date": "2026-01-02", "training": "0" * 64})
    assert state(results) == "not confirmed since 2026-01-02: training"
    assert not confirmed(results).differ and state(results) == "fresh"
    # What no short training shows is found where the sample is begun again.
    made = {**origin(results)["program"], "training": "0" * 64}
    change(results, confirmed=None, sample={}, table_sample="", program=made)
    assert "nothing was recorded while it was fresh" in confirmed(results).said


def test_a_training_that_gives_something_else_is_named_and_the_result_is_stale(results):
    label, *_ = sample = origin(results)["sample"]
    change(results, sample={**sample, label: "0" * 16})
    line = confirmed(results)
    assert line.differ == [label] and line.said.startswith("stale: 1 of 6 of its sample")
    assert state(results) == "stale: 1 of its sample give something else"
    assert origin(results)["sample"][label] == "0" * 16  # what was recorded stays
    change(results, sample={**sample, "elsewhere, test: fcf , seed 0, 1": ""})
    assert confirmed(results).said.endswith("digit; 1 recorded are asked for no more")
    assert state(results) == "fresh" and origin(results)["sample"] == sample


def test_a_table_that_makes_something_else_of_made_up_outcomes_is_stale(results):
    change(results, table_sample="0" * 64)
    assert confirmed(results).differ == ["the table"] and state(results).startswith("stale")


def test_names_and_new_counts_change_no_identity():
    outcome = Outcome([CurvePoint(1, 1, {"hr@10": 0.5}, {}, {"vectors": 3}, {})], "", 1.0)
    look = outcome.looks[0]._replace(ledger={"vectors": 3, "unopened": 0}, seconds=9.0)
    assert outcome_sha256(Outcome([look], "", 2.0)) == outcome_sha256(outcome)
    other = look._replace(ledger={"vectors": 4})
    assert outcome_sha256(Outcome([other], "", 1.0)) != outcome_sha256(outcome)


def test_what_short_trainings_give_decides_for_the_algorithms_that_gave_it(tmp_path, monkeypatch):
    recorded = json.loads(provenance.GOLDEN.read_text())
    before = [provenance.programs([name]) for name in ("fpl", "fcf")]
    other = tmp_path / "results.json"
    other.write_text(json.dumps({**recorded, "fpl-once": {}}))
    monkeypatch.setattr(provenance, "GOLDEN", other)
    after = [provenance.programs([name]) for name in ("fpl", "fcf")]
    assert after[0] != before[0] and after[1] == before[1]


def test_every_cheap_result_comes_round(results):
    stored = stored_in(RESULTS, experiments())
    days = [of_day(stored, day) for day in range(len(stored))]
    cheap = {name for name, one in stored.items() if is_cheap(one)}
    assert {name for day in days for name in day} == cheap
    assert all(len({*day}) == DAILY for day in days)


def test_the_command_fails_where_something_differs(results, capsys):
    from entrenous_lab.commands.papers import papers

    papers("good", confirm=True, out=results, threads=1)
    assert "good: fresh: 5 trainings" in capsys.readouterr().err
    change(results, table_sample="of old")
    with pytest.raises(CheckFailed, match="1 of 1 not confirmed: good"):
        papers("good", confirm=True, out=results, threads=1)
    assert "differs: the table" in capsys.readouterr().err


def test_the_commit_says_whether_the_program_differs_from_it_and_nothing_of_what_lies_beside(
    tmp_path,
):
    program = tmp_path / "src"
    program.mkdir()
    assert provenance.commit(program) == ""
    (program / "one.py").write_text("1")
    (program / "__init__.py").write_text("")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for said in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(tmp_path), *said], check=True)
    name = provenance.commit(program)
    (tmp_path / "result.json").write_text("{}")
    assert provenance.commit(program) == name and len(name) == 12
    (program / "one.py").write_text("2")
    assert provenance.commit(program) == f"{name}-dirty"
    # A package installed into an environment in that checkout is no part of it.
    installed = tmp_path / "env" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert provenance.commit(installed) == provenance.commit(program, installed) == ""


def test_no_result_stays_of_a_program_that_nobody_can_have(tmp_path, monkeypatch, capsys):
    named = [path.name for path in RESULTS.glob("*.json") if provenance.CHANGED in path.read_text()]
    assert RESULTS.is_dir() and named == []
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789ab-dirty")
    monkeypatch.chdir(tmp_path)
    for option in ([], ["--confirm"]):
        with pytest.raises(SystemExit) as ended:
            main(["papers", "cali3f-table2", *option])
        assert ended.value.code == 2
        assert "changes that 0123456789ab-dirty does not have" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
