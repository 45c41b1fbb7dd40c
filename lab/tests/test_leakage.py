"""The tables on privacy: which settings nothing beats, by hand, and what a row says of how it came
about.
"""

from __future__ import annotations

from dataclasses import replace

from entrenous_audit.plan import AuditPlan
from entrenous_lab.papers.leakage import LeakPoint, found_of, front, said_of, table_rows
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context

from lab.tests.test_runner import tiny

PLAN = AuditPlan(algorithm="pfpl+", view="sum", rounds=5, protect={"noise": 0.1}, protocol="loo-20")


def point(name: str, accuracy: float, found: float | None, popularity: float = 0.3) -> LeakPoint:
    return LeakPoint(
        name,
        "sums of 100",
        PLAN,
        "hr@10",
        accuracy,
        found,
        popularity,
        0.0,
        "regression",
        "LEAKS",
        1.5,
    )


def test_the_front_is_what_nothing_beats() -> None:
    """b is beaten by a (as accurate, tells less); c tells more than a and is more accurate; below
    popularity there is nothing to gain.
    """
    a, b, c = point("a", 0.5, 0.31), point("b", 0.5, 0.4), point("c", 0.6, 0.4)
    under, nothing = point("under", 0.5, 0.2), point("nothing", 0.4, 0.1)
    assert [one.system for one in front([a, b, c])] == ["a", "c"]
    assert [one.system for one in front([a, under, nothing])] == ["under"]
    assert front([point("unseen", 0.9, None)]) == []
    assert front([a, a]) == [a, a]


def test_a_row_says_how_it_came_about() -> None:
    rows = table_rows([[point("a", 0.5, None)]], Context(cells=Cells(None), data=tiny()))
    assert {row["metric"]: row["obtained"] for row in rows}["R-precision"] is None
    assert all(
        "noise=0.1" in row["protocol"]
        and "5 rounds" in row["protocol"]
        and "seeds 0" in row["protocol"]
        for row in rows
    )
    assert "not attacked" in said_of([point("a", 0.5, None)], "sums")


def test_a_table_has_means_over_seeds_and_every_value() -> None:
    def measure(context: Context):
        found = {0: 0.25, 1: 0.75}[context.seed]
        for name, popularity in (("a", 0.3), ("b", found)):
            attack = "regression" if context.seed else "signs"
            yield point(name, found, found, popularity)._replace(
                plan=replace(PLAN, seed=context.seed), attack=attack
            )

    found = found_of(measure, lambda points: [said_of(points, "sums")])(
        Context(cells=Cells(None), seeds=2, data=tiny())
    )
    rows = {(row["system"], row["metric"]): row for row in found.rows}
    assert [system for system, metric in rows if metric == "hr@10"] == ["a", "b"]
    assert (
        rows["a", "R-precision"]["values"] == [0.25, 0.75]
        and rows["a", "R-precision"]["obtained"] == 0.5
    )
    assert (
        rows["b", "popularity alone"]["obtained"] == 0.5
        and rows["a", "popularity alone"]["spread"] == 0.0
    )
    assert rows["a", "hr@10"]["seeds"] == [0, 1] and "seeds 0, 1" in rows["a", "hr@10"]["protocol"]
    assert "a 0.500 (signs or regression; popularity 0.300" in found.notes[0]
