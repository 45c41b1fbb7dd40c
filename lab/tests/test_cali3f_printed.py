"""Cali3F with one gradient a client: what is trained, when the test rows are looked at, what is
called highest observed, and clusters of metadata.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from entrenous_lab.papers import cali3f_metadata, cali3f_printed
from entrenous_lab.papers.cali3f_printed import (
    GOAL_ROUNDS,
    GOAL_SECONDS,
    HIGHEST,
    as_trained,
    looks_of,
    seen,
    with_metadata,
    with_neumf,
)
from entrenous_lab.papers.cell import CurvePoint, Outcome
from entrenous_lab.papers.effort import GRADIENTS, Budget, Effort
from entrenous_lab.papers.measures import paces
from entrenous_lab.papers.opened import cali3f_study
from entrenous_lab.papers.remember import Cells, written
from entrenous_lab.papers.result import Context
from entrenous_lab.papers.table import Trained
from small_data import random_data

BUDGET = Budget(protocol="loo-20", seeds=2, horizon=60, every=30)
EFFORT = Effort(quick=False, budgets={}, other=BUDGET, clusters=(1, 2, 30))


@cache
def data():
    return random_data(users=60, items=60, rows=1200)


def study(folder=None, rows=None):
    context = Context(cells=Cells(folder, threads=1))
    return cali3f_study(context, EFFORT, data() if rows is None else rows, "ncf-printed")


def test_every_system_sends_one_gradient_of_a_twentieth_of_the_clients():
    for system in with_neumf(study())[1:]:
        made = study().made(system)
        assert (made.client, made.cohort, made.local_epochs) == ("gradient", 3, 1)


def test_fedavg_has_cali3fs_settings_and_its_own():
    whole = study(rows=replace(data(), name="ml-100k"))
    mine, theirs, own = cali3f_printed.pair(whole, "neumf")
    settings = [whole.settings(system) for system in (mine, theirs, own)]
    rates = ("learning_rate", "learning_rate_item", "learning_rate_network", "reg", "init_std")
    of = [{name: some[name] for name in rates if name in some} for some in settings]
    assert of[0] == of[1] != of[2] and settings[1]["server_rate_item"] == 1
    assert [str(one) for one in (mine, theirs, own)] == [
        "cali3f-neumf",
        "fedavg-neumf",
        "fedavg-neumf, own rate",
    ]


def test_the_test_rows_are_looked_at_early_and_until_the_end():
    assert looks_of(study()) == (1, 5, 10, 15, 20, 30, 40, 60)
    budgets = GRADIENTS[False].budgets
    assert {name: budget.horizon for name, budget in budgets.items()} == dict.fromkeys(
        ("ml-100k", "ml-1m", "pinterest-20"), 700
    )


def test_highest_observed_is_the_best_look_and_the_rest_is_the_last(tmp_path):
    mine = study(tmp_path)
    trained = seen(mine, with_neumf(mine))
    rows = {(row["system"], row["metric"]): row for row in cali3f_printed.rows_of(trained)}
    for system in trained.systems:
        for seed, outcome in enumerate(trained.curves[system]):
            looks = [look.metrics["ndcg@10"] for look in outcome.looks]
            assert rows[str(system), "ndcg@10"]["values"][seed] == looks[-1]
            assert rows[str(system), f"ndcg@10, {HIGHEST}"]["values"][seed] == max(looks)
    curve = trained.curves[trained.systems[1]][0]
    assert [look.rounds for look in curve.looks] == [1, 5, 10, 15, 20, 30, 40, 60]
    fedavg = rows["fedavg-neumf", "time, x FedAvg"]
    assert fedavg["values"] == [1.0, 1.0]
    assert "chosen on validation here" not in "".join(row["protocol"] for row in rows.values())


def outcome(*values):
    looks = [
        CurvePoint(n, n, {"ndcg@10": value}, {}, {}, {}, cpu_seconds=10.0 * n)
        for n, value in enumerate(values, 1)
    ]
    return Outcome(looks, "", 0.0)


def test_the_goal_of_fedavg_by_hand():
    mine, theirs, own = cali3f_printed.pair(study(), "neumf")
    curves = {
        mine: [outcome(0.1, 0.19, 0.2), outcome(0.3)],
        theirs: [outcome(0.1, 0.1, 0.2), outcome(0.1, 0.3)],
        own: [outcome(0.1), outcome(0.3)],
    }
    more = {system: paces(some) for system, some in curves.items()}
    trained = Trained(study=study(), systems=[*curves], curves=curves, more=more)
    goal = {system: cali3f_printed.goal_of(trained, system) for system in curves}
    assert goal[mine] == {GOAL_ROUNDS: [2, 1], GOAL_SECONDS: [20.0, 10.0]}
    assert goal[theirs] == {GOAL_ROUNDS: [3, 2], GOAL_SECONDS: [30.0, 20.0]}
    assert goal[own] == {}


def with_users(tmp_path, monkeypatch):
    """Gives the small data set metadata of its users, in another order than that of the data."""
    ids = data().users.ids.tolist()
    jobs = ["artist", "writer", "other"]
    table = {
        "user_id": ids,
        "occupation": [jobs[n % 3] for n in range(len(ids))],
        "gender": ["F" if n % 2 else "M" for n in range(len(ids))],
        "age": [20 + n % 5 for n in range(len(ids))],
    }
    pl.DataFrame(table).reverse().write_parquet(tmp_path / "users.parquet")
    source = type("Known", (), {"path": tmp_path})()
    monkeypatch.setattr(cali3f_metadata, "datasets", lambda: {data().name: source})


def test_groups_of_metadata_are_those_of_the_file(tmp_path, monkeypatch):
    with_users(tmp_path, monkeypatch)
    mine = study(tmp_path / "cells")
    table = cali3f_metadata.metadata(mine)
    jobs = cali3f_metadata.grouped(table, "occupation")
    assert jobs.names == ("artist", "other", "writer")
    assert jobs.of.tolist() == [[0, 2, 1][n % 3] for n in range(60)]
    both = cali3f_metadata.grouped(table, *cali3f_metadata.TRAITS)
    assert len(both.names) == 6 and "artist, F" in both.names
    # A round of the small data set has devices for three groups.
    monkeypatch.setattr(cali3f_printed, "SHARE", 0.1)
    system = with_metadata(mine)[1]
    assert str(system) == "cali3f-neumf, clusters by occupation"
    assert mine.made(system).clusters == 3
    # What is stored and what a sample of trainings is known by names no folder.
    cell = mine.cell(system, "test", 0, (1,))
    stored = json.loads(written("name", cell, 1, Outcome([], "", 0.0)))["settings"]["groups"]
    assert stored == repr(jobs) and stored in cell.label
    assert (
        as_trained({"settings": dict(cell.settings), "protocol": ""})["settings"]["groups"]
        == stored
    )


def test_data_without_metadata_have_no_clusters_of_them(tmp_path):
    mine = study(tmp_path)
    assert [str(system) for system in with_metadata(mine)] == ["cali3f-neumf"]
    trained = cali3f_metadata.parted(mine, [])
    assert cali3f_metadata.rows_of(trained) == []
    assert "no metadata" in cali3f_metadata.parts_note(trained)[0]


def test_planted_clusters_have_the_highest_silhouette():
    rng = np.random.default_rng(0)
    centres = np.repeat(np.arange(10), 20)[:, None] * 10.0
    points = (centres + rng.normal(size=(200, 1))).astype(np.float32)
    found = cali3f_metadata.partition(points, range(3))
    assert set(found.best) == {10}
    assert max(found.silhouettes[10]) > 0.8 > max(found.silhouettes[100])


def test_two_users_of_another_gender_differ_by_one():
    table = pl.DataFrame({"occupation": ["a", "a"], "gender": ["F", "M"], "age": [30, 40]})
    apart = cali3f_metadata.distances(cali3f_metadata.vectors(table, with_age=False))
    assert apart == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-6)
