"""Which settings a stored result depends on: those of its data sets, and no others."""

import pytest
from entrenous_lab.papers import named, values

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
