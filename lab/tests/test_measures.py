"""What one evaluation tells by name, by hand; and rows that are named otherwise than their
systems.
"""

from dataclasses import replace

import pytest
from entrenous_lab.papers.cell import CurvePoint
from entrenous_lab.papers.effort import Budget, RowSource
from entrenous_lab.papers.findings import agrees, still_rising
from entrenous_lab.papers.measures import (
    CPU_SECONDS,
    KB_UP,
    MB_SENT,
    ROUNDS,
    STD,
    ConvergencePace,
    each,
    mean,
    measured,
)
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import row
from entrenous_lab.papers.study import Study, System
from entrenous_lab.papers.table import Trained, metric_rows
from small_data import random_data

LEDGER = {"bytes_up": 3_000_000, "bytes_down": 1_000_000, "device_rounds": 50}
LOOK = CurvePoint(2, 7, {"hr@10": 0.5}, {}, LEDGER, {}, cpu_seconds=1.5, fairness={STD: 0.25})


def trained(*systems: System, **more) -> Trained:
    study = Study(
        source=RowSource("small", "loo-10"),
        data=random_data(),
        cells=Cells(None),
        budget=Budget(horizon=9),
        family="ncf",
    )
    return Trained(study=study, systems=systems, **more)


@pytest.mark.parametrize(
    ("name", "value"),
    [("hr@10", 0.5), (STD, 0.25), (MB_SENT, 4), (KB_UP, 60), (CPU_SECONDS, 1.5), (ROUNDS, 7)],
)
def test_a_figure_by_name(name, value):
    assert measured(LOOK, name) == value


def test_figures_of_seeds():
    other = LOOK._replace(metrics={"hr@10": 0.7})
    assert each([LOOK, other], "hr@10") == [0.5, 0.7] and mean(
        [LOOK, other], "hr@10"
    ) == pytest.approx(0.6)


def test_a_row_has_what_its_system_is_called_and_says_under_which_conditions():
    plain = System("popular")
    named = plain._replace(called="popular, another")
    mine = trained(
        plain, named, looks={plain: [LOOK], named: [LOOK]}, seeds=(3,), conditions="; at noon"
    )
    first, second = metric_rows(
        mine, ("hr@10",), {("small, loo-10", "popular, another", "hr@10"): 0.4}
    )
    assert (first["system"], first["paper"]) == ("popular", None) and (
        second["system"],
        second["paper"],
    ) == (str(named), 0.4)
    assert (
        first["protocol"] == second["protocol"]
        and first["protocol"].endswith("seed 3; at noon")
        and first["seeds"] == [3]
    )
    assert named.name == "popular" and named.base == plain


def test_findings_of_several_papers():
    rows = [
        row("d", s, "m", paper=1, obtained=o, protocol="")
        for s, o in (("a", 1), ("b", 2), ("b, twice", 9))
    ]
    mine = replace(trained(), rows=rows)
    (note,) = agrees("m", without="twice")(mine)
    assert "a 1.00, b 2.00. Median 1.50" in note
    rising, settled = (
        [ConvergencePace(LOOK, LOOK, last)] for last in (LOOK, LOOK._replace(rounds=8))
    )
    mine.more = {"a": rising, "b": settled, "c": rising}
    assert (
        still_rising(mine, mine.more) == ["small, loo-10, still rising at round 9: a, c."]
        and still_rising(mine, ["b"]) == []
    )
