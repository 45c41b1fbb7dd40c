"""Printed values and tuned settings: every file parses, and names systems and metrics that there
are.
"""

import math
from importlib.resources import files

import pytest
from entrenous_lab.papers import values
from entrenous_lab.papers.runner import experiments
from entrenous_lab.papers.study import System

from entrenous.runs.options import RunPlan
from entrenous.runs.plan import check
from entrenous.systems.named import algorithms

PAPERS = ("cali3f", "fbalf", "fpl", "pepper")


@pytest.mark.parametrize("paper", PAPERS)
def test_every_printed_file_parses_and_its_columns_fit(paper):
    whole = values.stored("printed", paper)
    for section in whole:
        found = values.printed(paper, section)
        assert found and all(math.isfinite(value) and all(where) for where, value in found.items())


FAMILIES = ("ncf", "rating", "pepper", "anchors")


def test_there_is_no_other_file():
    for folder, names in (
        ("printed", (*PAPERS, "anchors")),
        ("tuned", (*FAMILIES, "ncf-printed")),
        ("trained", ("budgets", "grids")),
        ("words", (*PAPERS, "field", "findings")),
    ):
        assert {file.name for file in (files("entrenous_lab.papers") / folder).iterdir()} == {
            f"{name}.toml" for name in names
        }


@pytest.mark.parametrize("name", sorted(experiments()))
def test_a_table_names_known_systems_and_metrics(name):
    table = experiments()[name]
    systems = [] if callable(table.systems) else table.systems
    assert all(
        isinstance(system, System) and system.algorithm in algorithms() for system in systems
    )
    for _, system, metric in table.printed:
        known = system.partition(",")[0].partition(" pi ")[0]
        assert known in algorithms() or known in ("source bias", "training rows")
        assert isinstance(metric, str) and metric
    if not callable(table.metrics):
        assert all(isinstance(metric, str) and metric for metric in table.metrics)


@pytest.mark.parametrize("family", (*FAMILIES, "ncf-printed"))
def test_tuned_settings_are_those_that_their_algorithms_take(family):
    for (data, system), found in values.read_tuned(family).items():
        name = system.partition(",")[0]
        check(RunPlan(algorithm=name, settings=found.settings, rounds=found.rounds))
        assert data and found.by
