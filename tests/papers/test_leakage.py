"""The tables on privacy: which settings nothing beats, by hand, and what a row says of how it came about."""

from __future__ import annotations

from entrenous.audit.subject import AuditPlan
from entrenous.papers.leakage import LeakPoint, front, said_of, table_rows
from entrenous.papers.privacy_pi import figure
from entrenous.papers.remember import Cells
from entrenous.papers.result import Context
from tests.papers.test_runner import tiny

PLAN = AuditPlan(algorithm="pfpl+", view="sum", rounds=5, protect={"noise": 0.1}, protocol="loo-20")


def point(name: str, accuracy: float, found: float | None, popularity: float = 0.3) -> LeakPoint:
    return LeakPoint(name, "sums of 100", PLAN, "hr@10", accuracy, found, popularity, 0.0, "regression", "LEAKS", 1.5)


def test_the_front_is_what_nothing_beats() -> None:
    """b is beaten by a (as accurate, tells less); c tells more than a and is more accurate; below popularity there is nothing to gain."""
    a, b, c = point("a", 0.5, 0.31), point("b", 0.5, 0.4), point("c", 0.6, 0.4)
    under, nothing = point("under", 0.5, 0.2), point("nothing", 0.4, 0.1)
    assert [one.system for one in front([a, b, c])] == ["a", "c"]
    assert [one.system for one in front([a, under, nothing])] == ["under"]
    assert front([point("unseen", 0.9, None)]) == []
    assert front([a, a]) == [a, a]


def test_a_row_says_how_it_came_about() -> None:
    rows = table_rows([point("a", 0.5, None)], Context(cells=Cells(None), data=tiny()))
    assert {row["metric"]: row["obtained"] for row in rows}["R-precision"] is None
    assert all("noise=0.1" in row["protocol"] and "5 rounds" in row["protocol"] and "seed 0" in row["protocol"] for row in rows)
    assert "not attacked" in said_of([point("a", 0.5, None)], "sums")


def test_a_figure_has_what_was_attacked_alone() -> None:
    assert figure([point("a", 0.5, None)]) == {}
