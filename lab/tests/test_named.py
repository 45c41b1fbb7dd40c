"""Which settings, printed figures and words a stored result depends on: those of its data sets and
of its table, and no others.
"""

import pytest
from entrenous_lab.papers import named, provenance, values

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
