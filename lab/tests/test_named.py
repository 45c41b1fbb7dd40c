"""Which settings, printed figures and words a stored result depends on: those of its data sets and
of its table, and no others.
"""

import pytest
from entrenous_lab.papers import named, provenance, values
from entrenous_lab.papers.effort import DEFAULTS, FULL, pepper_place
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.study import System

from entrenous.core.registry import program

ML_1M = ("tuned", "ncf", "tuned", "ml-1m")


@pytest.fixture
def other(monkeypatch):
    """Puts other content into a TOML file."""

    def put(folder, name, content):
        read = values.stored
        monkeypatch.setattr(
            named, "stored", lambda *of: content if of == (folder, name) else read(*of)
        )

    return put


def test_what_stands_at_a_place_is_its_own_data_set_alone(other):
    before = named.text_of([ML_1M])
    assert '"data": "ml-1m"' in before and "ml-100k" not in before
    mine = [entry for entry in values.stored("tuned", "ncf")["tuned"] if entry["data"] == "ml-1m"]
    other(
        "tuned",
        "ncf",
        {"tuned": [*mine, {"data": "ml-100k", "systems": ["x"], "by": "another search"}]},
    )
    assert named.text_of([ML_1M]) == before
    other("tuned", "ncf", {"tuned": [{**mine[0], "rounds": 1}, *mine[1:]]})
    assert named.text_of([ML_1M]) != before


def test_nothing_at_a_place_is_told_from_something():
    assert named.text_of([("tuned", "ncf", "tuned", "nowhere")]) == "tuned/ncf/tuned/nowhere: []\n"
    assert (
        named.text_of([("trained", "budgets", "nowhere", "full")])
        == "trained/budgets/nowhere/full: null\n"
    )


def test_a_budget_is_that_of_its_data_set_and_what_all_of_the_effort_share():
    places = FULL.places("ml-1m")
    assert ("trained", "budgets", "cali3f", "full", "budgets", "ml-1m") in places and len(
        places
    ) == 4
    assert ("trained", "budgets", "defaults", "full", "other") in DEFAULTS[False].places(
        "elsewhere"
    )
    text = named.text_of(places)
    assert '"horizon": 120' in text and "pinterest" not in text
    assert [
        pepper_place(*of)[-1]
        for of in (("ml-100k", False), ("gowalla-nyc", False), ("planted-2", False), ("x", True))
    ] == [
        "movielens",
        "places",
        "planted",
        "quick",
    ]


@pytest.mark.parametrize(
    ("said", "places"),
    [
        (
            'printed("fpl", "table2", "table3")',
            {("printed", "fpl", "table2"), ("printed", "fpl", "table3")},
        ),
        (
            'worded("fpl", "gain-explained" if sure else "gain-absent", 1)',
            {("words", "fpl", "gain-explained"), ("words", "fpl", "gain-absent")},
        ),
        ('worded("fpl", f"computation-{cause}")', {("words", "fpl")}),
        ('printed("fbalf", *sections)', {("printed", "fbalf")}),
        ("printed(paper, 'table2')", set()),
        ('other("fpl", "table2")', set()),
    ],
)
def test_what_code_names_is_found_and_what_it_makes_up_is_the_whole_file(
    said, places, tmp_path, monkeypatch
):
    (tmp_path / "table.py").write_text(f"x = {said}\n")
    monkeypatch.setattr(named, "path_of", lambda module: tmp_path / f"{module}.py")
    named._named_in.cache_clear()
    assert named.named_by(["table"]) == places
    named._named_in.cache_clear()


def test_a_table_depends_on_its_own_printed_figures_and_words(other):
    names = ("cali3f-table2", "fpl-table2")
    before = {name: provenance.programs(name, [])["table"] for name in names}
    content = values.stored("printed", "cali3f")
    other("printed", "cali3f", {**content, "table2": {**content["table2"], "values": {}}})
    assert [provenance.programs(name, [])["table"] != before[name] for name in names] == [
        True,
        False,
    ]
    other("printed", "cali3f", {**content, "fig3": {}})
    assert provenance.programs("cali3f-table2", [])["table"] == before["cali3f-table2"]


def test_every_printed_section_is_named_by_some_table():
    """One that no table names would stand beside no row, and a change of it would make nothing
    stale.
    """
    modules = [one.__name__ for one in provenance.modules("entrenous_lab.papers").values()]
    found = named.named_by(program.closure(*modules))
    for paper in ("anchors", "cali3f", "fbalf", "fpl", "pepper"):
        missing = {
            section
            for section in values.stored("printed", paper)
            if ("printed", paper, section) not in found
        }
        assert not missing or ("printed", paper) in found, (paper, missing)


def test_a_study_notes_the_settings_that_it_reads():
    from lab.tests.test_batch import study

    context = Context(cells=Cells())
    (one,) = study(context, [])
    one.settings(System("fedavg-gmf"))
    assert context.cells.settings == {
        ("tuned", "ncf", "tuned", "tiny"),
        ("tuned", "ncf", "follows"),
    }
