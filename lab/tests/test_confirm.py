"""Stored results of a program that has changed since: a sample of their trainings is begun again
and compared to the last digit.
"""

import json
import subprocess

import pytest
from entrenous_lab.papers import batch, provenance
from entrenous_lab.papers.batch import Asked, run_papers, stock
from entrenous_lab.papers.confirm import confirm
from entrenous_lab.papers.documents import caption
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
    assert line.said.endswith(
        "; fresh, 5 trainings recorded"
    )  # of a curve, and of two seeds of each system
    return tmp_path / "out"


def origin(results):
    return stored_in(results, ["good"])["good"].origin


def change(results, **more):
    """The result as if it had been made by another program, or with another sample."""
    path = results / "good.json"
    content = json.loads(path.read_text())
    content["origin"] = {**content["origin"], **more}
    path.write_text(json.dumps(content))


def another(results, *parts):
    change(results, program={**origin(results)["program"], **{part: "0" * 64 for part in parts}})


def confirmed(results):
    (line,) = confirm(["good"], out=results, threads=1)
    return line


def test_a_fresh_result_gets_a_sample_of_every_algorithm_and_keeps_its_figures(results):
    first = origin(results)["sample"]
    change(results, sample={})
    before = stored_in(results, ["good"])["good"].content
    assert confirmed(results).said == "fresh, 5 trainings recorded"
    after = stored_in(results, ["good"])["good"].content
    assert {**after, "origin": before["origin"]} == before
    assert after["origin"]["sample"] == first
    labels = sorted(first)
    assert (
        sum("fcf" in label for label in labels) == 3
        and sum("popular" in label for label in labels) == 2
    )
    assert confirmed(results).said == "fresh, 5 trainings recorded" and "confirmed" not in origin(
        results
    )


def test_a_stale_result_whose_trainings_give_the_same_is_fresh_again_and_says_so(results):
    another(results, "training")
    assert stock(["good"], results)[0].state == "stale: training"
    line = confirmed(results)
    assert line.said == "confirmed: 5 trainings give the same to the last digit" and not line.differ
    (one,) = stock(["good"], results)
    assert one.state == "fresh: confirmed by 5 trainings" and not one.wanted()
    assert "; 5 of its trainings, begun again by commit" in caption(one.stored)
    assert origin(results)["program"]["training"] == "0" * 64  # what made it is not forgotten
    change(
        results, confirmed={**origin(results)["confirmed"], "training": "1" * 64}
    )  # and the program has changed once more
    assert stock(["good"], results)[0].state == "stale: training"


def test_a_training_that_gives_something_else_is_named_and_leaves_the_result_stale(results):
    label, *_ = sample = origin(results)["sample"]
    change(results, sample={**sample, label: "0" * 16})
    another(results, "training")
    line = confirmed(results)
    assert line.differ == [label] and line.said.startswith(
        "stale: 1 of 5 trainings give something else"
    )
    assert stock(["good"], results)[0].state == "stale: training"


@pytest.mark.parametrize("parts", [("table",), ("training", "table")])
def test_a_table_that_makes_the_same_of_made_up_outcomes_is_confirmed(results, parts):
    assert len(origin(results)["table_sample"]) == 64
    another(results, *parts)
    assert stock(["good"], results)[0].state == f"stale: {', '.join(parts)}"
    said = "confirmed: 5 trainings give the same to the last digit, and so does the table"
    assert confirmed(results).said == said
    assert stock(["good"], results)[0].state == "fresh: confirmed by 5 trainings"


def test_a_table_that_makes_something_else_leaves_the_result_stale(results):
    change(results, table_sample="0" * 64)
    another(results, "table")
    line = confirmed(results)
    assert line.differ == ["the table"] and "makes something else" in line.said
    assert stock(["good"], results)[0].state == "stale: table"


def test_the_command_fails_where_something_differs(results, capsys):
    from entrenous_lab.commands.papers import papers

    papers("good", confirm=True, out=results, threads=1)
    assert "good: fresh, 5 trainings recorded" in capsys.readouterr().err
    change(results, sample={"of old": "0" * 16})
    another(results, "training")
    with pytest.raises(CheckFailed, match="1 of 1 not confirmed: good"):
        papers("good", confirm=True, out=results, threads=1)
    assert "differs: of old" in capsys.readouterr().err


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
    for option in ([], ["--confirm"], ["--restate"]):
        with pytest.raises(SystemExit) as ended:
            main(["papers", "cali3f-table2", *option])
        assert ended.value.code == 2
        assert "changes that 0123456789ab-dirty does not have" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
