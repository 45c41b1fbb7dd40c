"""FPL at every learning rate, on tiny data: which points there are, what each rests on, and what is
said of a training that diverges.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from entrenous_lab.papers import fpl_goal, fpl_rates
from entrenous_lab.papers.effort import GRIDS
from entrenous_lab.papers.opened import fpl_study
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.table import Trained
from small_data import random_data

GRID = replace(GRIDS[True], epochs=(1, 2), neighbours=(5, 10))
CELLS = Cells(None, threads=1)


@cache
def trained(name: str) -> Trained:
    """A table over pi or not, on rows of 40 users, with two seeds."""
    data = replace(random_data(users=40, items=60, rows=1200), name="tiny")
    study = fpl_study(Context(cells=CELLS, grid=GRID, seeds=2), data)
    table = {**fpl_rates.EXPERIMENTS, **fpl_goal.EXPERIMENTS}[name]
    return table.measured(study, [])


def figures(done: Trained) -> dict[tuple[str, str], float | None]:
    return {(row["system"], row["metric"]): row["obtained"] for row in done.rows}


def test_every_system_has_a_row_at_every_rate_and_at_the_one_it_chose() -> None:
    found = {system for system, metric in figures(trained("fpl-rates")) if metric == "gini@10"}
    rates = ["rate 0.005", "rate 0.05", "rate 0.5", "chosen rate"]
    rated = {f"{system}, {rate}" for system in fpl_rates.SYSTEMS for rate in rates}
    assert found == rated | {"popular", "user-knn"}


def test_the_chosen_rate_is_that_of_the_best_validation_figure() -> None:
    points = trained("fpl-rates").more.points
    for system in fpl_rates.SYSTEMS:
        mine = {point.rate: point for point in points if point.system == system}
        chosen = mine.pop(fpl_rates.CHOSEN_RATE)
        best = max(point.chosen.validation for point in mine.values())
        assert chosen.chosen.validation == best
        assert chosen.looks == mine[f"rate {chosen.chosen.settings['learning_rate']:g}"].looks


def test_a_pi_chooses_its_epochs_and_a_rate_its_pi_on_validation_rows_alone() -> None:
    done = trained("fpl-rates-pi").more
    for point in done.points:
        if point.system not in fpl_rates.FPL:
            continue
        of_rate = [
            other
            for other in done.over_pi
            if (other.system, other.rate) == (point.system, point.rate)
        ]
        assert [other.pi for other in of_rate] == list(fpl_rates.PI)
        assert [other.chosen.settings["pi"] for other in of_rate] == list(fpl_rates.PI)
        assert max(other.chosen.validation for other in of_rate) == point.chosen.validation


def test_a_diverged_training_has_a_row_without_a_figure_and_a_name_in_the_note() -> None:
    done = trained("fpl-rates")
    points = [
        point._replace(looks=[]) if point.label == "pfpl+ (run), rate 0.5" else point
        for point in done.more.points
    ]
    failed = replace(done, more=done.more._replace(points=points, failed=["pfpl+ (run) after 10"]))
    rows = [row for row in fpl_rates.rows_of(failed) if row["system"] == "pfpl+ (run), rate 0.5"]
    assert rows and all(row["obtained"] is None for row in rows)
    assert all("diverged" in row["protocol"] for row in rows)
    (note,) = fpl_rates.diverged_note(failed)
    assert "diverged: pfpl+ (run), rate 0.5." in note and "pfpl+ (run) after 10" in note
    assert not any("pfpl+ (run), rate 0.5" in (t["a"], t["b"]) for t in fpl_rates.tests_of(failed))


@pytest.mark.parametrize("name", ["pfpl+ (printed), rate 0.5", "pfpl+ (run), rate 0.5"])
def test_the_cost_is_that_of_section_6_3(name: str) -> None:
    """CCE = rpe |U-| (|I| + T (1 + pi)); rpe |U-| is X+ as run and X+ / T as printed."""
    done = trained("fpl-rates")
    (point,) = (one for one in done.more.points if one.label == name)
    rows = done.study.part("test").trained
    t = len(rows) / 40
    exchanges = len(rows) if "run" in name else len(rows) / t
    vectors = exchanges * (len(rows.items) + t * (1 + point.chosen.settings["pi"]))
    cost = point.chosen.epochs * vectors / 1e12
    assert figures(done)[name, fpl_rates.COST] == pytest.approx(cost, rel=1e-9)


def test_a_goal_is_reached_by_t_1_and_what_is_below_it_is_a_bound() -> None:
    done = trained("fpl-goal")
    goals, reached = done.more
    several = [(one.rate, one.triples) for one in reached]
    t = int(len(done.study.part("test").rows) / 40)
    assert several == [(rate, some) for rate in fpl_goal.RATES for some in (1, 5, 20, t)]
    for one in reached:
        assert all(epochs in fpl_goal.EPOCHS for epochs in one.epochs)
        ends = [epochs == fpl_goal.EPOCHS[-1] for epochs in one.epochs]
        assert all(end for end, censored in zip(ends, one.censored, strict=True) if censored)
    rows = {row["system"]: row for row in done.rows if row["metric"] == fpl_goal.TO_GOAL}
    for one in reached:
        marked = rows[one.label].get("censored", [False, False])
        assert marked == one.censored
    assert f"{goals[0.5]:.4f} at rate 0.5" in fpl_goal.goal_note(done)[0]
