"""Cali3F's tables and figures on tiny data: what is trained, on which rows, what is compared, and
the words about it.
"""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from entrenous_lab.papers import (
    cali3f_accuracy,
    cali3f_clusters,
    cali3f_rounds,
    effort,
    render,
    values,
)
from entrenous_lab.papers.cell import CurvePoint, Outcome
from entrenous_lab.papers.effort import Budget, Effort
from entrenous_lab.papers.findings import against
from entrenous_lab.papers.measures import pace, paces, reached
from entrenous_lab.papers.opened import cali3f_study
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.runner import experiments, run_experiment
from entrenous_lab.papers.study import Study, System, best_epochs, mean_curve
from entrenous_lab.papers.table import Trained, system_rows
from entrenous_lab.papers.values import Tuned, printed, settings_of_cali3f, stored
from small_data import random_data
from small_federations import PLAIN

from entrenous.data.load import load
from entrenous.runs import pipeline as experiment
from entrenous.systems._federated_ncf import NCFSettings
from entrenous.systems.named import algorithms

BUDGET = Budget(protocol="loo-20", drawn=30, seeds=2, curve_seeds=2, horizon=4, every=2)
EFFORT = Effort(quick=False, budgets={}, other=BUDGET, clusters=(2, 3))
GMF, NEUMF, FEDAVG = System("cali3f-gmf"), System("cali3f-neumf"), System("fedavg-gmf")


@cache
def data():
    return random_data(users=30, items=60, rows=500)


def study(folder=None, effort=EFFORT, rows=None) -> Study:
    return cali3f_study(
        Context(cells=Cells(folder, threads=1)), effort, data() if rows is None else rows
    )


TABLE_2, TABLE_3 = (printed("cali3f", name) for name in ("table2", "table3"))


def choose(monkeypatch, chosen) -> None:
    monkeypatch.setattr(values, "read_tuned", lambda family, own=chosen: own)


@pytest.fixture
def small_clusters(monkeypatch):
    """More clusters than by default would be more than there are users with rows to tell apart."""
    choose(monkeypatch, {("small", "cali3f-gmf"): Tuned({"clusters": 3}, by="a test")})


def look(rounds: int, ndcg: float, cpu: float = 0.0, **per_user) -> CurvePoint:
    return CurvePoint(
        rounds,
        rounds,
        {"ndcg@10": ndcg},
        {},
        {"bytes_up": 0, "bytes_down": 0},
        per_user,
        cpu_seconds=cpu,
    )


def outcome(*values: float) -> Outcome:
    return Outcome([look(n + 1, value, 10.0 * (n + 1)) for n, value in enumerate(values)], "", 0.0)


# ---- what the paper printed ----------------------------------------------------------------------


def test_table_3_is_consistent_with_itself():
    of = stored("printed", "cali3f")["table3"]["values"]["ml-1m"]
    for name, (std, seconds, ratio) in of.items():
        assert (
            seconds / 60 / 10.6 == pytest.approx(ratio, abs=0.01)
            and TABLE_3["ml-1m", name, "std_ndcg@10"] == std
        )


# ---- settings ------------------------------------------------------------------------------------


def test_with_cali3fs_settings_an_algorithm_keeps_what_only_it_has(monkeypatch):
    mine, ditto = (
        {"learning_rate": 0.123, "factors": 17, "phi": 0.5, "clusters": 9},
        {"learning_rate": 0.2, "reg_global": 0.3},
    )
    known = {("d", "cali3f-neumf"): Tuned(mine, 7, "s"), ("d", "ditto-neumf"): Tuned(ditto, 8, "s")}
    choose(monkeypatch, known)
    fedavg, ditto = (settings_of_cali3f("d", name) for name in ("fedavg-neumf", "ditto-neumf"))
    theirs = {"learning_rate": 0.123, "factors": 17}
    assert (
        fedavg.settings.items() >= theirs.items()
        and ditto.settings.items() >= {**theirs, "reg_global": 0.3}.items()
    )
    assert "phi" not in fedavg.settings and (fedavg.rounds, ditto.rounds) == (None, None)


@pytest.mark.parametrize("model", ["gmf", "mlp", "neumf"])
def test_cali3fs_settings_are_its_defaults_too(model):
    """Where nothing was chosen, and where its file has another default than FedAvg's."""
    cali3f, make = algorithms()[f"cali3f-{model}"](), algorithms()[f"fedavg-{model}"]
    alike = make(**settings_of_cali3f("elsewhere", f"fedavg-{model}").settings)
    names = {*NCFSettings.model_fields} - {"rounds"}
    assert {name: getattr(alike, name) for name in names} == {
        name: getattr(cali3f, name) for name in names
    }


# ---- what is trained and opened ------------------------------------------------------------------


def test_a_look_is_what_entrenous_run_finds(small_clusters):
    mine = study()
    first, second = mine.tested([GMF])[GMF]
    rounds = mine.rounds([GMF])[GMF]
    told = experiment.run(
        "cali3f-gmf", data(), protocol="loo-20", seed=1, rounds=rounds, settings={"clusters": 3}
    ).manifest
    names = [name for name in second.metrics if name.endswith("@10") or name == "auc"]
    assert {name: second.metrics[name] for name in names} == {
        name: told["metrics"][name] for name in names
    }
    assert {name: second.full[name] for name in names} == {
        name: told["full_ranking"][name] for name in names
    }
    assert (
        second.fairness == told["fairness"]
        and second.ledger == told["ledger"]
        and first.metrics != second.metrics
    )


def test_rounds_come_from_the_settings_or_from_the_mean_curve(monkeypatch):
    popular = System("popular")
    choose(monkeypatch, {("small", "fedavg-gmf"): Tuned({}, 9, "s")})
    mine, quick = study(), study(effort=replace(EFFORT, quick=True))
    assert mine.rounds([FEDAVG, popular]) == {FEDAVG: 9, popular: 0} and quick.rounds([FEDAVG]) == {
        FEDAVG: 4
    }
    other = System("fedavg-mlp")
    assert mine.rounds([other]) == {other: best_epochs(mine.curves([other])[other])}


def test_the_mean_curve_by_hand():
    seeds = [outcome(0.1, 0.4, 0.2), outcome(0.3, 0.2, 0.5)]
    rounds, values = mean_curve(seeds)
    assert (
        rounds == [1, 2, 3]
        and values == pytest.approx([0.2, 0.3, 0.35])
        and best_epochs(seeds) == 3
    )
    in_epochs = [
        Outcome([one._replace(rounds=100 * one.epochs) for one in seed.looks], "", 0.0)
        for seed in seeds
    ]
    assert (
        mean_curve(in_epochs)[0] == [100, 200, 300] and best_epochs(in_epochs) == 3
    )  # what a cell's looks are counted in
    assert mean_curve([seeds[0], outcome(0.3)]) == ([1], [0.2]) and best_epochs([outcome()]) == 1


def test_choosing_opens_no_test_rows(tmp_path, small_clusters):
    mine, spoiled = study(tmp_path), study()
    mine.rounds([GMF])
    assert {json.loads(path.read_text())["part"] for path in tmp_path.glob("*.json")} == {
        "validation"
    }
    for seed in (0, 1):
        part = spoiled.part("test", seed)
        half = part.held.rows.select(np.arange(len(part.held.rows)) % 2 == 0)
        spoiled._parts[seed] = {
            **spoiled._parts[seed],
            "test": replace(part, held=part.held._replace(rows=half)),
        }
    assert spoiled.rounds([GMF]) == mine.rounds([GMF])


def test_clusters_beyond_the_devices_of_a_round_are_left_out_and_named(monkeypatch):
    choose(monkeypatch, {("small", "cali3f-neumf"): Tuned({"cohort": 4}, None, "s")})
    mine = study(effort=replace(EFFORT, clusters=(2, 4, 5, 31)))
    assert cali3f_clusters.clusters_of(mine, "neumf") == [2, 4]
    assert cali3f_clusters.clusters_note(mine, "neumf") == [
        "small, left out, as a round has fewer devices: P = 5, 31."
    ]
    choose(monkeypatch, {})
    assert "there are no subordinates" in cali3f_clusters.clusters_note(study(), "neumf")[0]


# ---- time ----------------------------------------------------------------------------------------


def test_what_was_measured_apart_is_measured_again_together(tmp_path, small_clusters):
    study(tmp_path).curves([GMF])
    mine = study(tmp_path)
    mine.curves([GMF, FEDAVG], (0, 1), timed=True)
    assert mine.cells.computed == 4
    for path in tmp_path.glob("*.json"):
        if (
            json.loads(path.read_text())["algorithm"] == "fedavg-gmf"
            and json.loads(path.read_text())["seed"] == 0
        ):
            path.unlink()
    later = study(tmp_path)
    later.curves([GMF, FEDAVG], (0, 1), timed=True)
    assert later.cells.computed == 2  # both of seed 0


def test_pace_by_hand():
    one = pace(outcome(0.1, 0.192, 0.2, 0.15))  # .95 * .2 = .19
    assert one is not None
    assert (one.near.rounds, one.best.rounds, one.last.rounds) == (2, 3, 4)
    assert one.omitted == pytest.approx(1 / 3) and not one.rising
    rising = pace(outcome(0.1, 0.3))
    assert rising is not None and rising.rising and rising.near.rounds == 2
    assert pace(outcome()) is None and reached(outcome(0.1, 0.2), 0.3) is None
    assert paces([outcome(0.1), outcome()]) == []


def test_ratios_by_hand():
    fast, slow = paces([outcome(0.2, 0.2)]), paces([outcome(0.1, 0.1, 0.1, 0.2)])
    assert cali3f_rounds.ratios(fast, slow) == [10 / 40]


def test_the_same_goal_by_hand():
    systems = (System("fedavg-neumf"), NEUMF, System("ditto-neumf"))
    curves = dict(
        zip(systems, ([outcome(0.1, 0.2)], [outcome(0.25)], [outcome(0.1, 0.15)]), strict=True)
    )
    said = cali3f_rounds.same_goal(curves, systems)
    assert said == "fedavg-neumf round 2, 20.0 s, cali3f-neumf round 1, 10.0 s, ditto-neumf never"


# ---- rows, tests, words --------------------------------------------------------------------------


def row_of(name, system, values):
    """The row of a system's HR@10 on data of this name, with the numbers of table II."""
    trained = Trained(
        study=study(rows=replace(data(), name=name)), systems=[system], seeds=range(len(values))
    )
    return system_rows(trained, system, {"hr@10": values}, TABLE_2)[0]


def test_a_row_is_a_mean_over_seeds_with_all_of_their_values():
    line = row_of("ml-100k", NEUMF, [0.6, 0.8])
    assert (
        line["obtained"] == pytest.approx(0.7)
        and line["spread"] == pytest.approx(math.sqrt(0.02))
        and line["paper"] == 0.71
    )
    assert line["values"] == [0.6, 0.8] and line["seeds"] == [0, 1]
    assert render._pair(line, False) == ["0.7100", "0.7000 ± 0.1414"]
    assert render._pair(
        {**line, "values": [120.0], "obtained": 120.04, "spread": None, "paper": None}, False
    ) == ["-", "120.0"]
    other = row_of("ml-100k", System("cali3f-neumf", more=(("clusters", 2),)), [0.6])
    assert other["paper"] is None and other["spread"] is None


def test_systems_are_compared_over_users_and_seeds():
    """Differences 0 1 3 and 2 1 3: of users 1 1 3, squared error 4/9; of seeds 4/3 2, squared error
    1/9. Freedom (5/9)^2 / ((4/9)^2 / 2 + (1/9)^2).
    """
    mine = [look(1, 0, m=[1.0, 2.0, 5.0]), look(1, 0, m=[3.0, 2.0, 5.0])]
    other = [look(1, 0, m=[1.0, 1.0, 2.0])] * 2
    trained = Trained(
        study=study(), systems=[GMF, FEDAVG, NEUMF], looks={GMF: mine, FEDAVG: other, NEUMF: []}
    )
    (test,) = against(trained, GMF, [FEDAVG, NEUMF], ["m"])
    named = ("difference", "users", "seeds", "freedom", "t")
    assert [test[name] for name in named] == pytest.approx([5 / 3, 3, 2, 25 / 9, math.sqrt(5)])
    assert test["p_holm"] == test["p"]


@pytest.mark.parametrize(
    ("difference", "p", "seen"),
    [(0.1, 0.001, "is seen"), (0.1, 0.2, "is not seen"), (-0.1, 0.001, "is not seen")],
)
def test_a_claim_is_held_against_the_numbers(difference, p, seen):
    test = {
        "a": "cali3f-neumf",
        "b": "fedavg-neumf",
        "metric": "ndcg@10",
        "difference": difference,
        "low": 0.0,
        "high": 0.0,
        "holds": "users and seeds",
        "p_holm": p,
    }
    (said,) = cali3f_accuracy.claims("d", [test])
    assert f"Cali3F outperforms FedAvg; this {seen} here" in said


def test_fewest_rounds_of_figure_5_by_hand():
    found = {
        2: paces([outcome(0.1, 0.2), outcome(0.2)]),
        5: paces([outcome(0.2), outcome(0.1, 0.1, 0.2)]),
    }
    line = cali3f_clusters.fewest_rows(study(), found)[0]
    assert line["values"] == [5.0, 2.0] and line["metric"] == cali3f_clusters.FEWEST
    first, *_ = cali3f_clusters.influence(
        study(), found
    )  # mean rounds 1.5 and 2; within seeds 2/1 and 3/1
    assert (
        "differs by 0.0%" in first
        and "by a factor of 1.33 (between seeds at one P, by 2.50 on average)" in first
    )
    assert "Fewest rounds at P = 2" in first


# ---- whole experiments ---------------------------------------------------------------------------


def run(name, folder):
    return run_experiment(name, data=data(), effort=EFFORT, cache=folder)


def chosen(**fedavg):
    """Settings of FedAvg and Cali3F for the data of these tests: the same but for `fedavg`, and for
    what only Cali3F has.
    """
    alike, models = (
        {**PLAIN, "cohort": 0, "init_std": 0.01},
        {"gmf": {"factors": 8}, "mlp": {"layers": "16,8"}},
    )
    models["neumf"] = {**models["gmf"], **models["mlp"]}
    cali3f = {
        f"cali3f-{model}": {**alike, **shape, "clusters": 3} for model, shape in models.items()
    }
    other = {
        f"fedavg-{model}": {**alike, **shape, **values.PLAIN, **fedavg}
        for model, shape in models.items()
    }
    return {
        ("small", name): Tuned(settings, None, "a test")
        for name, settings in {**cali3f, **other}.items()
    }


def test_a_data_set_that_is_absent_is_named_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    monkeypatch.setattr(effort, "load", lambda name, **how: load(name, fetch=False, **how))
    for name, missing in (("cali3f-table2", 3), ("cali3f-table3", 2), ("cali3f-fig5", 1)):
        result = run_experiment(name, cache=tmp_path / "cells")
        assert result.rows == [] and len(result.notes) == missing
        assert all(note.startswith("Left out: ") and "\n" not in note for note in result.notes)


def test_what_cannot_be_split_is_left_out_with_a_note():
    effort = replace(EFFORT, other=replace(BUDGET, protocol="ncf-99"))
    found = experiments()["cali3f-table2"].run(
        Context(cells=Cells(None), data=data(), effort=effort)
    )
    assert found.rows == [] and found.notes[0].startswith(
        "Left out: small: no rows that ncf held out"
    )
