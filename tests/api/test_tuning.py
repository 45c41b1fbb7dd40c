"""`entrenous.tune` takes what `run` takes, and gives what `run` takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import shop
from paths import ROOT

import entrenous
from entrenous.core.errors import InputError
from entrenous.core.registry.own import load_place

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


def test_a_class_of_ones_own_is_tuned_and_run_with_the_best(tmp_path: Path) -> None:
    data, kind = shop(tmp_path), load_place(str(EXAMPLE))
    found = entrenous.tune(
        kind(factors=4), data, grid={"weight": [0.5, 3.0]}, rounds=4, protocol="loo-20"
    )
    assert {row["settings"]["weight"] for row in found.found["rows"]} == {0.5, 3.0}
    assert (
        found.best["factors"] == 4
        and found.table().height == 2
        and "validation, mean of 1 seed(s), best first" in repr(found)
    )
    best = found.found["rows"][0]["validation"]["ndcg@10"]
    assert best == max(row["validation"]["ndcg@10"] for row in found.found["rows"])
    run = entrenous.run(kind, data, settings=found.best, rounds=4, protocol="loo-20")
    assert run.manifest["settings_in_force"]["factors"] == 4


def test_a_choice_needs_a_grid(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"grid: there is nothing to choose from"):
        entrenous.tune("fpl", shop(tmp_path))
    with pytest.raises(InputError, match="unknown setting; did you mean 'factors'"):
        entrenous.tune("fpl", shop(tmp_path), grid={"factor": [2]})
