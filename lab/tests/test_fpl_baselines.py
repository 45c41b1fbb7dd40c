"""FPL's baselines with choices of their own, on tiny data: each row rests on validation rows, and a
training that diverges leaves its row without a figure.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from entrenous_lab.papers import fpl_baselines
from entrenous_lab.papers.effort import GRIDS
from entrenous_lab.papers.fpl_search import Chosen
from entrenous_lab.papers.opened import fpl_study
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.study import Study
from entrenous_lab.papers.table import Trained
from small_data import random_data

from entrenous.core.errors import InputError

GRID = replace(GRIDS[True], epochs=(1, 2), neighbours=(5, 10), fcf_rounds=(1, 2))
CELLS = Cells(None, threads=1)


def study(**more: object) -> Study:
    """FPL's protocol on 40 users, with two seeds."""
    data = replace(random_data(users=40, items=60, rows=1200), name="tiny")
    return fpl_study(Context(cells=CELLS, grid=replace(GRID, **more), seeds=2), data)


@cache
def trained(name: str) -> Trained:
    return fpl_baselines.EXPERIMENTS[name].measured(study(vae=((8, 4, 1), (4, 2, 2))), [])


def figures(done: Trained) -> dict[tuple[str, str], float | None]:
    return {(row["system"], row["metric"]): row["obtained"] for row in done.rows}


def test_fcf_has_a_row_at_every_rate_and_at_the_one_it_chose() -> None:
    done = figures(trained("fpl-fcf"))
    points = ("rate 0.005", "rate 0.05", "rate 0.5", "chosen rate")
    wanted = {f"{form}, {point}" for form in ("fcf", "fcf-huawei") for point in points}
    assert {system for system, _ in done} == wanted | {"popular", "user-knn", "item-knn"}
    assert all(value is not None for value in done.values())


def test_the_chosen_rate_is_the_best_on_validation_rows_and_has_its_figures() -> None:
    rows = {row.label: row for row in trained("fpl-fcf").more}
    for form in ("fcf", "fcf-huawei"):
        chosen = rows.pop(f"{form}, chosen rate")
        of_form = [row for label, row in rows.items() if label.startswith(f"{form},")]
        assert chosen.chosen.validation == max(row.chosen.validation for row in of_form)
        same = next(row for row in of_form if row.chosen == chosen.chosen)
        assert [look.metrics for look in chosen.looks] == [look.metrics for look in same.looks]


def test_both_forms_are_tested_against_each_other_and_against_the_untuned_systems() -> None:
    pairs = {(test["a"], test["b"]) for test in trained("fpl-fcf").tests}
    assert ("fcf, rate 0.05", "fcf-huawei, rate 0.05") in pairs
    assert ("fcf-huawei, chosen rate", "user-knn") in pairs


def test_vae_chooses_a_topology_on_validation_rows() -> None:
    pytest.importorskip("torch")
    done = trained("fpl-vae")
    (row,) = [row for row in done.more if row.label == "vae"]
    assert isinstance(row.chosen, Chosen)
    assert row.chosen.settings["hidden"] in (8, 4) and len(row.looks) == 2
    assert figures(done)["vae", "precision@10"] is not None
    assert {(test["a"], test["b"]) for test in done.tests} >= {("vae", "user-knn")}


def test_vae_is_refused_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: str) -> None:
        raise InputError("vae", "torch is not installed", expected="entrenous[torch]")

    monkeypatch.setattr(fpl_baselines, "need", absent)
    with pytest.raises(InputError, match="torch"):
        fpl_baselines.EXPERIMENTS["fpl-vae"].measured(study(), [])
