"""All experiments in one go: stored with their origin, failures told, stale results seen, and
estimates of what is left.
"""

import json
import re

import pytest
from entrenous_lab.papers import batch, provenance
from entrenous_lab.papers.batch import Asked, run_papers, stock
from entrenous_lab.papers.effort import Budget, RowSource
from entrenous_lab.papers.stored import stored_in
from entrenous_lab.papers.study import Study, System
from entrenous_lab.papers.table import PaperTable

from entrenous.core.errors import InputError
from lab.tests.test_runner import tiny

SYSTEMS = (System("popular"), System("fcf"))


def study(context, notes):
    budget = Budget(seeds=context.seeds or 2, horizon=4, every=2)
    source = RowSource("tiny", "loo-20", label="tiny")
    if not context.wants("tiny"):
        return []
    context.cells.pins["tiny"] = tiny().sha256()
    return [
        Study(
            source=source,
            data=tiny(),
            cells=context.cells,
            budget=budget,
            seed=context.seed,
            family="ncf",
        )
    ]


def broken(trained):
    raise ZeroDivisionError("a finding that fails")


GOOD = PaperTable(title="two systems", data=study, systems=SYSTEMS, metrics=("hr@10", "ndcg@10"))
BAD = PaperTable(
    title="two systems, badly",
    data=study,
    systems=SYSTEMS[:1],
    metrics=("hr@10",),
    findings=(broken,),
)


@pytest.fixture
def two(monkeypatch):
    """Two experiments: a good one, and one that fails at its end."""
    known = {"bad": BAD, "good": GOOD}
    monkeypatch.setattr(batch, "experiments", lambda: known)
    for module in ("runner", "confirm"):
        monkeypatch.setattr(f"entrenous_lab.papers.{module}.experiments", lambda: known)


def run(tmp_path, *names, **more):
    return run_papers(
        names, Asked(**more), out=tmp_path / "out", cells=tmp_path / "cells", threads=1
    )


def test_a_failure_is_told_and_stops_nothing(two, tmp_path):
    lines = {line.name: line for line in run(tmp_path)}
    assert (
        lines["bad"].failed == "ZeroDivisionError: a finding that fails"
        and not lines["good"].failed
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["good.json", "good.md"]
    content = json.loads((tmp_path / "out" / "good.json").read_text())
    origin = content["origin"]
    assert origin["pins"] == {"tiny": tiny().sha256()} and origin["algorithms"] == [
        "fcf",
        "popular",
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", origin["date"]) and origin["versions"]["numpy"]
    assert origin["training_seconds"] >= 0  # rounded to a tenth
    assert all("loo-20" in row["protocol"] for row in content["rows"])


def test_what_is_fresh_is_not_run_again_and_a_quick_result_takes_no_full_ones_place(two, tmp_path):
    run(tmp_path, "good", quick=True)
    assert stock(["good"], tmp_path / "out")[0].wanted() == "quick"
    (again,) = run(tmp_path, "good", quick=True)
    assert again.said == "fresh, not run again"
    run(tmp_path, "good")
    found = stored_in(tmp_path / "out", ["good"])["good"]
    assert not found.quick and found.seeds == "2"
    (kept,) = run(tmp_path, "good", quick=True)
    (again,) = run_papers(
        ["good"], Asked(quick=True), out=tmp_path / "out", cells=tmp_path / "cells", again=True
    )
    assert (
        "not run again" in kept.said
        and "not run again" in again.said
        and not stored_in(tmp_path / "out", ["good"])["good"].quick
    )
    (more,) = run(tmp_path, "good", seeds=3)
    assert more.stored.seeds == "3" and not stock(["good"], tmp_path / "out")[0].wanted(
        Asked(seeds=3)
    )


@pytest.mark.parametrize("part", provenance.PARTS)
def test_a_result_of_another_program_is_seen(two, tmp_path, part):
    run(tmp_path, "good")
    path = tmp_path / "out" / "good.json"
    content = json.loads(path.read_text())
    assert stock(["good"], tmp_path / "out")[0].state == "fresh"
    content["origin"]["confirmed"] |= {part: "0" * 64, "date": "2026-01-02"}
    path.write_text(json.dumps(content))
    (one,) = stock(["good"], tmp_path / "out")
    assert one.state == one.wanted() == f"not confirmed since 2026-01-02: {part}"
    (line,) = run(tmp_path, "good")
    assert "0 trained" in line.said and stock(["good"], tmp_path / "out")[0].state == "fresh"


def test_a_file_that_is_no_result_is_one_line(tmp_path):
    (tmp_path / "fpl-table2.json").write_text("{}")
    with pytest.raises(InputError, match=r"fpl-table2.json: it is not a stored result"):
        stock(["fpl-table2"], tmp_path)
    with pytest.raises(InputError, match="unknown experiment 'fpl'"):
        stock(["fpl"], tmp_path)


@pytest.mark.parametrize(
    ("where", "lie"),
    [
        (("rows",), [1, 2]),
        (("rows", 0, "obtained"), float("nan")),
        (("rows", 0, "obtained"), "much"),
        (("rows", 0, "values"), [None]),
        (("origin",), {}),
        (("origin", "pins"), ["ml-100k"]),
        (("origin", "sample"), ["fcf"]),
        (("origin", "sample"), {"fcf": 1}),
        (("origin", "confirmed"), {"training": "0" * 64}),
        (
            ("origin", "confirmed"),
            {"training": "0" * 64, "date": "today", "commit": "", "trainings": "many"},
        ),
        (("tests",), [{}]),
        (("origin", "settings"), ["ncf"]),
        (("origin", "earlier"), {"tiny": {"date": "today"}}),
        (("figures",), "tiny.svg"),
        (("seconds",), "long"),
        (("quick",), "no"),
    ],
)
def test_a_stored_result_with_wrong_values_is_refused_in_one_line(where, lie, two, tmp_path):
    """Before a page repeats them."""
    run(tmp_path, "good")
    path = tmp_path / "out" / "good.json"
    content = json.loads(path.read_text())
    part = content
    for step in where[:-1]:
        part = part[step]
    part[where[-1]] = lie
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"good.json: it is not a stored result: " + where[0]):
        stock(["good"], tmp_path / "out")
