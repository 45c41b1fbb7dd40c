"""Cali3F's tables and figures on tiny data: what is trained, on which rows, what is compared, and
the words about it.
"""

import json
import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from entrenous_lab.papers import (
    cali3f_ablation,
    cali3f_accuracy,
    cali3f_clusters,
    cali3f_rounds,
    effort,
    render,
    values,
)
from entrenous_lab.papers.cell import CurvePoint, Outcome
from entrenous_lab.papers.effort import FULL, QUICK, Budget, Effort
from entrenous_lab.papers.findings import against, verdict
from entrenous_lab.papers.measures import pace, paces, reached
from entrenous_lab.papers.opened import cali3f_study
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.runner import experiments, run_experiment
from entrenous_lab.papers.study import Study, System, best_epochs, mean_curve
from entrenous_lab.papers.table import Trained, system_rows
from entrenous_lab.papers.values import Tuned, printed, settings_of_cali3f, stored
from paths import ROOT
from small_data import random_data
from small_federations import PLAIN

from entrenous.core.errors import InputError
from entrenous.data.load import load
from entrenous.data.split.protocol import splits
from entrenous.runs import pipeline as experiment
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import check
from entrenous.systems._federated_ncf import NCFSettings
from entrenous.systems.named import algorithms

NAMES = [
    "cali3f-ablation",
    "cali3f-fig3",
    "cali3f-fig4",
    "cali3f-fig5",
    "cali3f-metadata",
    "cali3f-printed",
    "cali3f-printed-fig5",
    "cali3f-printed-metadata",
    "cali3f-printed-rest",
    "cali3f-speed",
    "cali3f-table2",
    "cali3f-table3",
]
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


CHOSEN = dict(values.read_tuned("ncf"))
TABLE_2, TABLE_3, FIGURE_3 = (printed("cali3f", name) for name in ("table2", "table3", "fig3"))


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


def test_every_experiment_is_found_by_name():
    assert [name for name in experiments() if name.startswith("cali3f-")] == NAMES
    assert all("Cali3F" in experiments()[name].title for name in NAMES)


def test_table_2_has_eight_systems_on_three_data_sets():
    assert {
        name: len(systems)
        for name, systems in stored("printed", "cali3f")["table2"]["values"].items()
    } == dict.fromkeys(FULL.budgets, 8)
    assert len(TABLE_2) == 3 * 8 * 2
    assert TABLE_2["ml-100k", "cali3f-neumf", "hr@10"] == 0.71
    assert TABLE_2["ml-1m", "fedavg-neumf", "ndcg@10"] == 0.37
    assert TABLE_2["pinterest-20", "cali3f-neumf", "ndcg@10"] == 0.36


def test_table_3_is_consistent_with_itself():
    of = stored("printed", "cali3f")["table3"]["values"]["ml-1m"]
    for name, (std, seconds, ratio) in of.items():
        assert (
            seconds / 60 / 10.6 == pytest.approx(ratio, abs=0.01)
            and TABLE_3["ml-1m", name, "std_ndcg@10"] == std
        )


def test_the_text_about_figure_3_is_about_714_rounds():
    within, omitted = (
        FIGURE_3["ml-1m", "any", metric] for metric in (cali3f_rounds.NEAR, cali3f_rounds.OMITTED)
    )
    assert round(within / (1 - omitted)) == 714


@pytest.mark.parametrize("name", [name for name in NAMES if experiments()[name].printed])
def test_what_was_printed_belongs_to_systems_that_there_are(name):
    for (where, system, metric), value in experiments()[name].printed.items():
        assert where in FULL.budgets and system in algorithms() and metric and math.isfinite(value)


def test_every_command_of_the_documentation_exists():
    page = (ROOT / "docs" / "cali3f.md").read_text()
    commands = re.findall(r"^entrenous (\w+) ([\w-]+)", page, re.M)
    assert {command for command, _ in commands} == {"run", "explain", "leakcheck", "experiment"}
    known = {
        "run": algorithms(),
        "explain": algorithms(),
        "experiment": experiments(),
        "leakcheck": algorithms(),
    }
    assert all(name in known[command] for command, name in commands)
    assert set(NAMES) <= set(re.findall(r"cali3f-(?:[a-z]+-)?[a-z]+\d?", page))


# ---- settings ------------------------------------------------------------------------------------


def test_every_tuned_setting_is_one_that_its_algorithm_takes():
    for (where, algorithm), found in CHOSEN.items():
        check(
            RunPlan(algorithm=algorithm, data=where, settings=found.settings, rounds=found.rounds)
        )
        assert where in FULL.budgets and found.by


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


def test_settings_for_another_number_of_clusters_leave_the_rounds_open(monkeypatch):
    choose(monkeypatch, {("d", "cali3f-gmf"): Tuned({"clusters": 9, "phi": 0.1}, 7, "s")})
    mine = replace(study(), chosen_on="d")
    assert mine.tuned(GMF) == Tuned({"clusters": 9, "phi": 0.1}, 7, "s")
    other = cali3f_clusters.with_clusters("gmf", 2)
    assert (
        mine.settings(other) == {"clusters": 2, "phi": 0.1}
        and mine.tuned(other).rounds is None
        and str(other) == "cali3f-gmf, clusters 2"
    )


def test_quick_trainings_are_a_part_of_the_whole():
    assert set(QUICK.budgets) <= set(FULL.budgets) and set(QUICK.clusters) <= set(FULL.clusters)
    for name, budget in QUICK.budgets.items():
        whole = FULL.budgets[name]
        assert (
            budget.protocol == whole.protocol
            and budget.seeds <= whole.seeds
            and budget.horizon <= whole.horizon
        )


def test_looks_of_a_curve_by_hand():
    assert replace(BUDGET, horizon=7, every=3).looks == (1, 3, 6, 7)
    assert replace(BUDGET, horizon=4, every=1).looks == (1, 2, 3, 4)


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


def test_the_further_candidates_are_those_of_loo_k():
    test = study().part("test", 1)
    other = splits("loo-30", data(), seed=1)[0].test
    assert list(test.also) == ["loo-30"] and np.array_equal(
        test.also["loo-30"].candidates, other.candidates
    )
    assert np.array_equal(test.held.rows.item, other.rows.item)


def test_what_is_ranked_is_part_of_what_is_remembered():
    parts = [
        study(effort=replace(EFFORT, other=replace(BUDGET, protocol=name, drawn=drawn)))
        for name, drawn in (("loo-20", 30), ("loo-21", 30), ("loo-20", 31), ("loo-20", 0))
    ]
    assert len({one.part("test", 0).sha256 for one in parts}) == 4
    assert len({one.part("validation", 0).sha256 for one in parts}) == 2


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


def test_a_training_that_diverges_leaves_its_figures_empty(monkeypatch):
    choose(
        monkeypatch,
        {("small", "fedavg-gmf"): Tuned({"learning_rate": 90, "init_std": 1e30}, 2, "s")},
    )
    mine = study()
    assert mine.tested([FEDAVG]) == {FEDAVG: []}
    (line,) = system_rows(Trained(study=mine, systems=[FEDAVG]), FEDAVG, {"hr@10": []}, {})
    assert (
        line["obtained"] is None
        and line["spread"] is None
        and line["protocol"].endswith("; training diverged")
    )


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


def test_seconds_that_are_compared_were_measured_in_one_run(tmp_path, small_clusters):
    first = study(tmp_path)
    curves = first.curves([GMF, FEDAVG], (0, 1), timed=True)
    runs = [{outcomes[seed].measured for outcomes in curves.values()} for seed in (0, 1)]
    assert all(len(some) == 1 and some != {""} for some in runs) and first.cells.computed == 4
    for one in curves[GMF]:
        assert (
            0 < one.looks[0].cpu_seconds < one.looks[-1].cpu_seconds
            and 0 < one.looks[0].seconds < one.looks[-1].seconds
        )
    again = study(tmp_path)
    assert again.curves([GMF, FEDAVG], (0, 1), timed=True) == curves and again.cells.computed == 0


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


def test_systems_are_compared_over_the_means_of_users():
    mine = [look(1, 0, m=[1.0, 2.0, 5.0]), look(1, 0, m=[3.0, 2.0, 5.0])]  # means 2, 2, 5
    other = [
        look(1, 0, m=[1.0, 1.0, 2.0])
    ]  # differences 1, 1, 3: mean 5/3, standard deviation sqrt(4/3)
    trained = Trained(
        study=study(), systems=[GMF, FEDAVG, NEUMF], looks={GMF: mine, FEDAVG: other, NEUMF: []}
    )
    (test,) = against(trained, GMF, [FEDAVG, NEUMF], ["m"])
    assert (
        test["difference"] == pytest.approx(5 / 3)
        and test["users"] == 3
        and test["p_holm"] == test["p"]
    )
    assert test["t"] == pytest.approx(5 / 3 / math.sqrt(4 / 3 / 3))
    half = 4.3027 * math.sqrt(4 / 3 / 3)  # Student's t of two degrees of freedom
    assert (test["low"], test["high"]) == (
        pytest.approx(5 / 3 - half, abs=1e-4),
        pytest.approx(5 / 3 + half, abs=1e-4),
    )
    said = (
        "cali3f-gmf is not told apart from fedavg-gmf, +1.6667 (95 % interval -1.2018 to +4.5351, p"
        " = 0.2)"
    )
    assert verdict({**test, "p_holm": 0.2}) == said


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


# The moves of a few users' items are small, and the program says so.
@pytest.mark.filterwarnings("ignore:most moves of item embeddings")
def test_tables_and_figures_share_trainings(tmp_path, monkeypatch):
    choose(monkeypatch, chosen())
    table = run("cali3f-table3", tmp_path)
    of = {(line["system"], line["metric"]): line for line in table.rows}
    assert of["fedavg-neumf", cali3f_rounds.RATIO]["values"] == [1.0, 1.0]
    assert of["fedavg-neumf, Cali3F's settings", cali3f_rounds.RATIO]["values"] == [1.0, 1.0]
    assert all(
        0 < line["obtained"] < 1
        for line in table.rows
        if line["metric"] in ("std_ndcg@10", "std_by_chance")
    )
    figure = run("cali3f-fig3", tmp_path)
    assert (
        figure.computed == 2 * 4
    )  # GMF and MLP, two seeds; of each Cali3F and FedAvg, whose two settings are one here
    assert run("cali3f-fig3", tmp_path).rows == figure.rows and list(figure.figures) == [
        f"convergence-small-{model}" for model in ("gmf", "mlp", "neumf")
    ]
    whole = run("cali3f-table2", tmp_path)
    assert any("are the same here" in note for note in whole.notes)
    metrics = {line["metric"] for line in whole.rows}
    assert {
        "hr@10",
        "ndcg@10",
        "hr@10, loo-30",
        "ndcg@10, loo-30",
        "hr@10, full ranking",
        "ndcg@10, full ranking",
    } == metrics
    assert all(len(line["values"]) == 2 for line in whole.rows)
    compared = {test["b"] for test in whole.tests}
    assert compared == {"fedavg-neumf", "fedavg-neumf, Cali3F's settings", "central-neumf"}


# The moves of a few users' items are small, and the program says so.
@pytest.mark.filterwarnings("ignore:most moves of item embeddings")
def test_fedavg_with_settings_of_its_own_is_trained_with_both(tmp_path, monkeypatch):
    choose(monkeypatch, chosen(learning_rate=0.2))
    figure = run("cali3f-fig3", tmp_path)
    assert (
        figure.computed == 2 * 9
    )  # three models, two seeds; of each Cali3F, FedAvg and FedAvg with Cali3F's settings
    whole = run("cali3f-table2", tmp_path)
    (said,) = (note for note in whole.notes if "both readings of FedAvg" in note)
    own, theirs = (
        next(
            line["obtained"]
            for line in whole.rows
            if (line["system"], line["metric"]) == (name, "ndcg@10")
        )
        for name in ("fedavg-neumf", "fedavg-neumf, Cali3F's settings")
    )
    assert (
        f"NDCG@10 {own:.4f} with its own settings, {theirs:.4f} with Cali3F's" in said
        and own != theirs
    )


def test_a_data_set_that_is_absent_is_named_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("ENTRENOUS_DATA", str(tmp_path))
    monkeypatch.setattr(effort, "load", lambda name, **how: load(name, fetch=False, **how))
    for name, missing in (("cali3f-table2", 3), ("cali3f-table3", 2), ("cali3f-fig5", 1)):
        result = run_experiment(name, cache=tmp_path / "cells")
        assert result.rows == [] and len(result.notes) == missing
        assert all(note.startswith("Left out: ") and "\n" not in note for note in result.notes)


def test_data_without_validation_rows_are_refused_in_one_line():
    few = data().select(np.concatenate([np.arange(n) < 2 for n in data().counts]))
    with pytest.raises(InputError, match=r"^small: "):
        study(rows=few).part("validation", 0)


def test_what_cannot_be_split_is_left_out_with_a_note():
    effort = replace(EFFORT, other=replace(BUDGET, protocol="ncf-99"))
    found = experiments()["cali3f-table2"].run(
        Context(cells=Cells(None), data=data(), effort=effort)
    )
    assert found.rows == [] and found.notes[0].startswith(
        "Left out: small: no rows that ncf held out"
    )


def test_the_ablation_trains_each_change_and_says_which_matter(tmp_path, monkeypatch):
    choose(monkeypatch, chosen())
    monkeypatch.setattr(
        cali3f_ablation, "CHANGES", ({"fast": False}, {"one_pass": True}, {"clusters": 10_000})
    )
    found = run("cali3f-ablation", tmp_path)
    assert {line["system"] for line in found.rows} == {
        "cali3f-neumf",
        "cali3f-neumf, fast false",
        "cali3f-neumf, one_pass true",
    }
    assert {"std_hr@10", "std_ndcg@10", "worst_decile_auc"} <= {
        line["metric"] for line in found.rows
    }
    assert len(found.tests) == 2 and any(
        "of 2 changes to Cali3F-NeuMF" in note for note in found.notes
    )
