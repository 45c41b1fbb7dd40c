"""Every experiment, whole, on tiny data: rows, notes, figures, files; what is chosen, and on which
rows.
"""

import csv
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from entrenous_lab.papers import fpl_cost, runner
from entrenous_lab.papers.batch import PaperStock, estimates
from entrenous_lab.papers.confirm import confirm
from entrenous_lab.papers.effort import GRIDS, Budget, Effort
from entrenous_lab.papers.findings import agreement
from entrenous_lab.papers.fpl_search import FPL_SYSTEMS, SYSTEMS, Search
from entrenous_lab.papers.opened import fpl_study
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.render import markdown
from entrenous_lab.papers.result import Context, row
from entrenous_lab.papers.runner import experiments, run_experiment
from entrenous_lab.papers.study import System

from entrenous.core.errors import InputError
from entrenous.data.home import VARIABLE
from entrenous.data.interactions import Interactions, Vocabulary, build

TINY = replace(
    GRIDS[True],
    neighbours=(2, 5),
    factors=(2,),
    epochs=(1, 3),
    pi=(0.0, 0.5, 1.0),
    run_pi=(0.5, 1.0),
    run_epochs=(1,),
    fcf_rounds=(2,),
)
LITTLE = Effort(
    quick=True,
    budgets={},
    other=Budget(protocol="loo-20", drawn=30, seeds=2, curve_seeds=1, horizon=3, every=2),
    clusters=(2, 4),
    epochs=2,
)
NAMES = sorted(experiments())


@cache
def tiny(items: int = 60) -> Interactions:
    """40 users with 10 to 20 rows each of some items in two tastes, three categories and a few
    places.
    """
    rng = np.random.default_rng(0)
    pairs = []
    for user in range(40):
        liked = np.flatnonzero((np.arange(items) % 2 == user % 2) | (np.arange(items) < 6))
        pairs += [(user, item) for item in rng.choice(liked, rng.integers(10, 21), replace=False)]
    user, item = np.array(pairs).T
    features = {
        "category": np.array([("Food", "Nightlife Spot", "Event")[n % 3] for n in range(items)])
    }
    features |= {
        "lat": np.array([f"40.{n % 7}" for n in range(items)]),
        "lon": np.array([f"-74.{n % 5}" for n in range(items)]),
    }
    ids = {"users": Vocabulary(size=40, kind="user"), "items": Vocabulary(size=items, kind="item")}
    return build(user, item, time=rng.permutation(len(user)), features=features, name="tiny", **ids)


@pytest.fixture(autouse=True)
def small_shape(monkeypatch, tmp_path):
    """Table 4 counts on a synthetic shape; a small one here. The data folder is a new one, so that
    nobody's is written to.
    """
    monkeypatch.setattr(fpl_cost, "SHAPE", "synthetic-fpl-canada")
    monkeypatch.setattr(fpl_cost, "ROUNDS", {"sfpl": 3, "sfpl+": 2, "pfpl": 1, "pfpl+": 1})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "home"))


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cells")


def run(name, cache_folder, **more):
    data = tiny(
        600 if name.startswith(("pepper", "decentralisation", "privacy-gossip")) else 60
    )  # those have 100 candidates
    data = tiny(140) if name == "pepper-poison" else data  # where items have five consumers, too
    if name.startswith("fbalf"):
        data = replace(data, value=(1 + np.arange(len(data)) % 5).astype(np.float32))
    return run_experiment(name, data=data, grid=TINY, effort=LITTLE, cache=cache_folder, **more)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_runs_on_any_data_and_writes_a_folder(name, cache_folder, tmp_path):
    if name == "fpl-vae":
        pytest.importorskip("torch")
    result = run(name, cache_folder, out=tmp_path)
    for line in result.rows:
        assert {"data", "system", "metric", "paper", "obtained", "protocol"} <= set(line)
        assert isinstance(line["protocol"], str) and len(line["protocol"]) > 20
        assert line["obtained"] is None or math.isfinite(line["obtained"])
    if name == "cali3f-metadata":
        assert result.notes == ["tiny has no metadata of its users."]
        return
    mine = [line for line in result.rows if line["data"].partition(",")[0] == "tiny"]
    assert mine
    assert all(line["paper"] is None for line in mine)
    assert all(
        re.search("seeds? 0", line["protocol"]) for line in mine if line["system"] != "source bias"
    )
    assert result.notes and all("nan" not in note and len(note) > 30 for note in result.notes)
    written = json.loads((result.folder / "result.json").read_text())
    assert written == json.loads(json.dumps(result.as_json())) and written["rows"] == result.rows
    rows = list(csv.DictReader((result.folder / "rows.csv").read_text().splitlines()))
    assert [row["system"] for row in rows] == [row["system"] for row in result.rows]
    table = (result.folder / "table.tex").read_text()
    assert (
        table.count(r"\begin{tabular}")
        == table.count(r"\toprule")
        == table.count(r"\end{table}")
        >= 1
    )
    assert sorted(path.stem for path in result.folder.glob("*.pdf")) == sorted(result.figures)
    assert (result.folder / "table.md").read_text() == markdown(
        result
    ) and result.folder == tmp_path / f"{name}-quick"
    assert [path.name for path in sorted(result.folder.glob("*.svg"))] == sorted(
        f"{figure}.svg" for figure in result.figures
    )
    for path in result.folder.glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_experiments_share_cells(cache_folder):
    run("fpl-table2", cache_folder)
    assert (
        run("fpl-table3", cache_folder).computed == 0
        and run("fpl-table6", cache_folder).computed == 0
    )
    run("fpl-fig2", cache_folder)
    assert (
        run("fpl-fig3", cache_folder).computed == 0
        and run("fpl-table4", cache_folder).computed == 0
    )


def test_every_fpl_row_stands_under_both_readings(cache_folder):
    rows = run("fpl-table2", cache_folder).rows
    for system in FPL_SYSTEMS:
        (line,) = (
            r
            for r in rows
            if (r["system"], r["reading"]) == (system.algorithm, system.reading)
            and r["metric"] == "precision@10"
        )
        assert f"rounds per epoch as {system.reading}" in line["protocol"]
    of = {(r["system"], r["reading"]): r["obtained"] for r in rows if r["metric"] == "recall@10"}
    assert (
        of["sfpl", "printed"] == of["sfpl", "run"] and of["pfpl", "printed"] == of["pfpl", "run"]
    )  # T = 1
    assert of["pfpl+", "printed"] != of["pfpl+", "run"]


def test_pairwise_tests_cover_every_pair_once(cache_folder):
    tests = run("fpl-table2", cache_folder).tests
    systems = len(SYSTEMS) - 1 - 2  # without vae, and sfpl and pfpl once
    assert len(tests) == 2 * systems * (systems - 1) // 2
    assert all(0 <= test["p"] <= test["p_holm"] <= 1 and test["users"] == 40 for test in tests)


def test_equal_triples_are_equal(cache_folder):
    rows = run("fpl-table2", cache_folder).rows
    epochs = {(r["system"], r["reading"]): r["epochs"] for r in rows}
    t = len(tiny()) * 8 // 10 // 40  # about: T = X+ / |U| on the training rows
    assert epochs["pfpl, long", ""] / epochs["pfpl+", "run"] in (t, t + 1)
    assert epochs["pfpl, short", ""] == epochs["pfpl+, short", ""] == epochs["pfpl+", "run"]


# ---- choosing ------------------------------------------------------------------------------------


def search(data: Interactions | None = None, folder: Path | None = None) -> Search:
    return Search(fpl_study(Context(cells=Cells(folder), grid=TINY), data or tiny()))


def test_settings_are_the_best_on_validation():
    mine = search()
    for name in ("user-knn", "bpr-mf"):
        outcomes = mine.outcomes([mine.cell(name, settings) for settings in TINY.central()[name]])
        values = [outcome.looks[0].metrics["precision@10"] for outcome in outcomes]
        assert mine.chosen[System(name)].settings == TINY.central()[name][values.index(max(values))]
        assert mine.chosen[System(name)].validation == max(values)
    bpr = mine.chosen[System("bpr-mf")].settings
    for system in (*FPL_SYSTEMS, System("fcf")):
        chosen = mine.chosen[system].settings
        assert (chosen["learning_rate"], chosen["factors"]) == (
            bpr["learning_rate"],
            bpr["factors"],
        )


def choices(mine: Search) -> dict:
    return {
        system: chosen and (chosen.settings, chosen.epochs)
        for system, chosen in mine.chosen.items()
    }


def test_the_test_rows_choose_nothing(tmp_path):
    mine, spoiled = search(folder=tmp_path), search()
    test = spoiled.study.part("test")
    half = test.held.rows.select(np.arange(len(test.held.rows)) % 2 == 0)
    spoiled.study._parts[0] = {
        **spoiled.study._parts[0],
        "test": replace(test, held=test.held._replace(rows=half)),
    }
    assert choices(spoiled) == choices(mine)
    assert {json.loads(path.read_text())["part"] for path in tmp_path.glob("*.json")} == {
        "validation"
    }


def test_users_with_few_rows_are_refused_in_one_line():
    few = tiny().select(np.concatenate([np.arange(n) < 4 for n in tiny().counts]))
    with pytest.raises(InputError, match=r"^tiny: "):
        search(few).chosen  # noqa: B018


# ---- the rest ------------------------------------------------------------------------------------


def test_agreement_by_hand():
    rows = [
        row("d", name, "m", paper=p, obtained=o, protocol="", reading="")
        for name, p, o in (("a", 1, 1), ("b", 2, 4), ("c", 3, 2))
    ]
    (note,) = agreement(rows, "m")  # ratios 1, 2, 2/3; a < b and a < c as in the paper, b > c not
    assert (
        "a 1.00, b 2.00, c 0.67. Median 1.00; within a quarter of the paper: a. 2 of 3 pairs"
        in note
    )


def test_an_unknown_experiment_is_one_line_with_the_nearest_name():
    with pytest.raises(
        InputError, match=r"unknown experiment 'fpl-table22'; did you mean 'fpl-table2'"
    ):
        run_experiment("fpl-table22")


def test_missing_data_is_one_line_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match=r"foursquare-italy: the data set is not in "):
        run_experiment("fpl-table2", quick=True, cache=tmp_path / "cells", out=tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / "cells").exists()


def test_without_scipy_it_says_what_to_install_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    for call in (
        lambda: run_experiment("fpl-table4", out=tmp_path / "out"),
        lambda: list(estimates([PaperStock("fpl-table4", None, ())], tmp_path / "cells")),
        lambda: list(confirm(["fpl-table4"], out=tmp_path / "out")),
    ):
        with pytest.raises(InputError, match=r"SciPy is not installed.*pip install entrenous-lab"):
            call()
    assert not list(tmp_path.iterdir())


def test_cells_are_kept_beside_the_results_or_in_the_data_folder(tmp_path):
    run("fpl-table3", None, out=tmp_path / "out")
    assert list((tmp_path / "out" / "cells").glob("*.json")) and not (tmp_path / "home").exists()
    run("fpl-table3", None)
    assert list((tmp_path / "home" / "experiments").glob("*.json"))
