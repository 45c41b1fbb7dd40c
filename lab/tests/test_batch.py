"""All experiments in one go: stored with their origin, failures told, stale results seen, and
estimates of what is left.
"""

import json
import re
from dataclasses import replace

import pytest
from command_line import Command
from entrenous_lab.commands.papers import papers
from entrenous_lab.papers import batch, provenance
from entrenous_lab.papers.batch import Asked, run_papers, stock
from entrenous_lab.papers.cell import Cell, parts_of
from entrenous_lab.papers.effort import Budget, RowSource
from entrenous_lab.papers.estimate import TrainingCosts, WorkLeft, work_left
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.stored import stored_in
from entrenous_lab.papers.study import Study, System
from entrenous_lab.papers.table import PaperTable

from entrenous.core.errors import InputError
from entrenous.data.split.protocol import splits
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


def test_a_part_takes_no_full_ones_place_and_is_seen(two, tmp_path):
    (other,) = run(tmp_path, "good", only=("elsewhere",))
    assert other.said == "nothing of elsewhere" and not other.failed and other.stored is None
    run(tmp_path, "good", only=("tiny",))
    (part,) = stock(["good"], tmp_path / "out")
    assert (
        part.stored.kind == "part"
        and not part.wanted(Asked(only=("tiny",)))
        and part.wanted() == "part"
    )
    assert part.wanted(Asked(only=("tiny", "more"))) == "part" and not part.wanted(
        Asked(quick=True)
    )
    run(tmp_path, "good")
    (full,) = stock(["good"], tmp_path / "out")
    assert full.stored.kind == "full" and not full.wanted(Asked(only=("tiny",)))
    (kept,) = run(tmp_path, "good", only=("tiny",))
    assert (
        kept.said == "fresh of all its data sets, which is more than was asked for, not run again"
    )


def test_data_sets_are_told_apart_by_commas_but_for_those_inside_a_name(two, tmp_path):
    papers(
        "good",
        data=("tiny,elsewhere", "tiny, 10 or more ratings"),
        out=tmp_path / "out",
        cells=tmp_path / "cells",
        threads=1,
    )
    (part,) = stock(["good"], tmp_path / "out")
    assert part.stored.only == ("tiny", "elsewhere", "tiny, 10 or more ratings")
    for empty in ("tiny,,elsewhere", ",", ""):
        with pytest.raises(InputError, match="--data: an empty name"):
            papers("good", data=(empty,), out=tmp_path / "out", cells=tmp_path / "cells")


@pytest.mark.parametrize("part", provenance.PARTS)
def test_a_result_of_another_program_is_seen(two, tmp_path, part):
    run(tmp_path, "good")
    path = tmp_path / "out" / "good.json"
    content = json.loads(path.read_text())
    assert stock(["good"], tmp_path / "out")[0].state == "fresh"
    content["origin"]["program"][part] = "0" * 64
    path.write_text(json.dumps(content))
    (one,) = stock(["good"], tmp_path / "out")
    assert one.state == f"stale: {part}" and one.wanted() == f"stale: {part}"
    (line,) = run(tmp_path, "good")
    assert "0 trained" in line.said and stock(["good"], tmp_path / "out")[0].state == "fresh"


def test_the_program_of_a_result_is_that_of_its_algorithms_settings_and_table():
    one, other = (provenance.programs("fpl-table2", [name]) for name in ("pfpl", "fcf"))
    assert one["training"] != other["training"] and one["settings"] == other["settings"]
    assert provenance.programs("cali3f-table2", ["pfpl"])["table"] != one["table"]
    places = [("tuned", "ncf", "tuned", "ml-1m"), ("tuned", "ncf", "tuned", "ml-100k")]
    assert (
        len(
            {
                provenance.programs("fpl-table2", [], used)["settings"]
                for used in ([], places[:1], places[1:], places)
            }
        )
        == 4
    )


def test_an_estimate_counts_what_is_not_remembered_and_trains_nothing(two, tmp_path):
    cells = tmp_path / "cells"
    context = Context(cells=Cells(cells))
    left = work_left(GOOD, context, TrainingCosts(cells))
    assert left.unknown == len(left.missing) == 5  # a curve of fcf; two seeds of both
    assert not cells.exists() and context.cells.computed == 0
    run(tmp_path, "good")
    none = work_left(GOOD, context, TrainingCosts(cells))
    assert none.missing == {} and none.studied
    assert not work_left(
        GOOD, Context(cells=Cells(cells), only=("elsewhere",)), TrainingCosts(cells)
    ).studied
    more = work_left(GOOD, Context(cells=Cells(cells), seeds=3), TrainingCosts(cells))
    assert len(more.missing) == 2 and more.unknown == 0 and more.seconds > 0
    assert WorkLeft.together([more, more]) == more


def test_an_estimate_says_which_data_sets_are_not_in_it(monkeypatch, capsys, tmp_path):
    def without(context, notes):
        notes.append("Left out: x: it is not here")
        return study(context, notes)

    monkeypatch.setattr(batch, "experiments", lambda: {"good": replace(GOOD, data=without)})
    told = Command(capsys)(
        "papers", "--list", "--estimate", "--out", tmp_path, "--cells", tmp_path / "cells"
    )
    assert (
        told.err.count("Not counted. Left out: x: it is not here") == 1
        and "5 trainings" in told.err
    )
    found = Command(capsys)(
        "papers", "--list", "--estimate", "--out", tmp_path, "--cells", tmp_path / "cells", "--json"
    ).json
    assert found["papers"][0]["absent"] == ["Left out: x: it is not here"]


def test_costs_grow_with_rows_and_epochs(tmp_path):
    part = parts_of(splits("temporal-80-20", tiny())[0])["test"]
    for n, seconds in enumerate((1.0, 2.0, 9.0)):
        kept = {
            "algorithm": "fcf",
            "seconds": seconds,
            "rows": len(part.rows) // 2,
            "looks": [{"epochs": 1}, {"epochs": 10}],
        }
        (tmp_path / f"{n}.json").write_text(json.dumps(kept))
    (tmp_path / "damaged.json").write_text("{")
    costs = TrainingCosts(tmp_path)
    cell = Cell(algorithm="fcf", settings={}, part="test", looks=(5, 20))
    assert costs.of(cell, part) == pytest.approx(2.0 * 2 * 2, rel=0.02)
    assert costs.of(Cell(algorithm="popular", settings={}, part="test"), part) is None


def test_costs_are_those_of_trainings_on_about_as_many_rows(tmp_path):
    part = parts_of(splits("temporal-80-20", tiny())[0])["test"]
    for times, pace in ((0.05, 9.0), (0.06, 9.0), (0.9, 1.0), (1.1, 1.0), (30, 5.0)):
        rows = round(len(part.rows) * times)
        kept = {"algorithm": "fcf", "seconds": pace * rows, "rows": rows, "looks": [{"epochs": 1}]}
        (tmp_path / f"{times}.json").write_text(json.dumps(kept))
    cell = Cell(algorithm="fcf", settings={}, part="test", looks=(1,))
    assert TrainingCosts(tmp_path).of(cell, part) == pytest.approx(len(part.rows), rel=0.02)


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
