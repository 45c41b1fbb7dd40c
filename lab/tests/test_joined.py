"""A stored table grows by the data sets that it lacks, and data sets are made anew one at a time;
what stays is not trained again, and keeps its day.
"""

import json
from dataclasses import replace

import pytest
from entrenous_lab.papers.batch import Asked, run_papers, stock
from entrenous_lab.papers.effort import Budget, RowSource
from entrenous_lab.papers.result import Found
from entrenous_lab.papers.runner import run_experiment
from entrenous_lab.papers.stored import stored_in
from entrenous_lab.papers.study import Study, System
from entrenous_lab.papers.table import PaperTable

from lab.tests.test_runner import tiny

ITEMS = {"one": 60, "two": 50}


def studies(context, notes):
    """Two data sets of different size; a third that is not here."""
    if context.wants("three"):
        notes.append("Left out: three: it is not here")
    for name, items in ITEMS.items():
        if context.wants(name):
            rows = replace(tiny(items), name=name)
            context.cells.pins[name] = rows.sha256()
            budget = Budget(seeds=context.seeds or 2)
            yield Study(
                source=RowSource(name, "loo-20", label=name),
                data=rows,
                cells=context.cells,
                budget=budget,
                family="ncf",
            )


TABLE = PaperTable(
    title="two data sets",
    data=lambda context, notes: [*studies(context, notes)],
    systems=(System("popular"), System("random")),
    metrics=("hr@10",),
    findings=(lambda trained: [f"{trained.name}: a finding."],),
    figures=lambda trained: {f"of-{trained.slug}": f"<svg width='1'>{trained.name}</svg>"},
)


@pytest.fixture
def known(monkeypatch):
    tables = {"good": TABLE}
    for module in ("batch", "runner", "confirm"):
        monkeypatch.setattr(f"entrenous_lab.papers.{module}.experiments", lambda: tables)
    return tables


def run(tmp_path, *only, again=False, **more):
    """Without what is remembered of earlier runs, so that what is trained shows."""
    cells = tmp_path / f"cells-{len([*tmp_path.glob('cells-*')])}"
    (line,) = run_papers(
        ["good"],
        Asked(only=only, **more),
        out=tmp_path / "out",
        cells=cells,
        threads=1,
        again=again,
    )
    assert not line.failed, line.failed
    return line


def content(tmp_path):
    return stored_in(tmp_path / "out", ["good"])["good"].content


def test_a_part_grows_and_the_whole_is_what_one_run_gives(known, tmp_path):
    run(tmp_path, "one")
    grown = run(tmp_path, "two")
    assert "4 trained" in grown.said  # of the second data set alone
    both = content(tmp_path)
    assert both["only"] == ["one", "two"] and not stock(["good"], tmp_path / "out")[0].changed
    whole = run_experiment(
        "good", only=("one", "two"), cache=tmp_path / "cells-whole", threads=1
    ).as_json()
    for name in ("rows", "tests", "notes"):
        assert both[name] == whole[name]
    assert (
        both["origin"]["pins"] == whole["origin"]["pins"]
        and both["origin"]["program"] == whole["origin"]["program"]
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "good-of-one.svg",
        "good-of-two.svg",
        "good.json",
        "good.md",
    ]
    text = (tmp_path / "out" / "good.md").read_text()
    assert "good-of-one.svg" in text and "good-of-two.svg" in text and "trained now: 8" in text


def stale(tmp_path):
    """Makes what is stored that of another program."""
    path = tmp_path / "out" / "good.json"
    other = json.loads(path.read_text())
    other["origin"] |= {"date": "2026-01-01", "commit": "of-before"}
    other["origin"]["program"]["training"] = "0" * 64
    del other["origin"]["confirmed"]
    path.write_text(json.dumps(other))


@pytest.mark.parametrize("why", ["stale", "seeds", "again", "after", "before"])
def test_what_cannot_be_added_to_is_made_whole(why, known, tmp_path):
    if why in ("after", "before"):
        known["good"] = replace(TABLE, **{why: lambda of: Found(notes=["of all"])})
    run(tmp_path, "one")
    if why == "stale":
        stale(tmp_path)
    line = run(
        tmp_path, "one", "two", again=why == "again", **({"seeds": 3} if why == "seeds" else {})
    )
    assert f"{12 if why == 'seeds' else 8} trained" in line.said
    assert "earlier" not in content(tmp_path)["origin"]
