"""FBALF's table and figures on tiny data: what is trained on which folds, what is compared, and
where the printed numbers belong.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from entrenous_lab.papers import fbalf_accuracy, fbalf_reg, values
from entrenous_lab.papers.cell import parts_of
from entrenous_lab.papers.effort import Budget, ratings
from entrenous_lab.papers.fbalf_variance import (
    biases_alone,
    full_model,
)
from entrenous_lab.papers.loss_win import TOTAL
from entrenous_lab.papers.opened import FOLDS
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import row
from entrenous_lab.papers.runner import run_experiment
from entrenous_lab.papers.stored import stored_in
from entrenous_lab.papers.study import Study, System
from entrenous_lab.papers.values import Tuned, tuned
from paths import ROOT
from rated_rows import SMALL_BAYES
from rated_rows import rated as rows

from entrenous.data.interactions import Interactions, Vocabulary, build
from entrenous.data.split.protocol import splits
from entrenous.runs import pipeline as experiment

FEW = {
    name: value
    for name, value in {**SMALL_BAYES, "rounds": 3}.items()
    if name not in ("rho", "user_bias", "item_bias")
}
QUICK = {
    ("small", "fbalf-bayes"): Tuned(FEW, by="a test"),
    ("small", "fbalf"): Tuned({"factors": 3, "rounds": 2}, by="a test"),
    ("small", "fbalf, decoys_move_u"): Tuned({"factors": 3, "rounds": 2}, by="a test"),
    ("small", "fedmf-ratings"): Tuned({"factors": 3, "rounds": 3}, by="a test"),
    ("small", "fedrec, batch"): Tuned(
        {"factors": 3, "rounds": 60, "decay": 1.0, "learning_rate": 0.2}, by="a test"
    ),
    ("small", "fedrec, stochastic"): Tuned({"factors": 3, "rounds": 2}, by="a test"),
    ("small", "fedrec++, batch"): Tuned(
        {"factors": 3, "rounds": 60, "decay": 1.0, "learning_rate": 0.2}, by="a test"
    ),
    ("small", "fedrec++, stochastic"): Tuned({"factors": 3, "rounds": 2}, by="a test"),
    ("small", "metamf"): Tuned(
        {"user": 16, "taste": 16, "hidden": 16, "cohort": 4, "rounds": 2}, by="a test"
    ),
    ("small", "rfrec"): Tuned({"factors": 3, "clients": 4, "rounds": 2}, by="a test"),
    ("small", "rfrecf"): Tuned({"factors": 3, "clients": 4, "rounds": 3}, by="a test"),
    ("small", "pmf"): Tuned({"factors": 3, "epochs": 2}, by="a test"),
    ("small", "biased-mf"): Tuned({"factors": 3, "epochs": 2}, by="a test"),
    ("small", "svd++"): Tuned({"factors": 3, "epochs": 2}, by="a test"),
}


@cache
def data() -> Interactions:
    return replace(rows(30, 25), name="small")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "read_tuned", lambda family, own=QUICK: own)


def test_a_system_follows_the_one_that_it_is_compared_with() -> None:
    assert tuned("rating", "small", "fedrec, hybrid filling") == QUICK["small", "fedrec, batch"]
    assert tuned("rating", "small", "unknown") == Tuned()


@pytest.mark.parametrize(
    "system",
    [System("fbalf-bayes"), System("metamf"), System("svd++"), fbalf_accuracy.FEDREC_S],
    ids=str,
)
def test_a_test_cell_is_what_entrenous_run_finds_in_each_fold(system: System) -> None:
    study = Study(
        source=ratings("small"),
        data=data(),
        cells=Cells(threads=1),
        budget=Budget(folds=FOLDS),
        family="rating",
    )
    looks = study.tested([system])[system]
    found = experiment.run(system.algorithm, data(), settings=study.settings(system))
    assert [look.metrics for look in looks] == [
        {name: fold[name] for name in ("mae", "rmse")} for fold in found.manifest["folds"]
    ]
    assert looks[0].per_user["rmse"] == found.evaluations[0].per_user["rmse"].tolist()
    assert looks[0].by_category["rmse"]["all"] == pytest.approx(looks[0].metrics["rmse"])


def test_the_statistics_of_the_printed_errors_are_the_printed_ones() -> None:
    """The table's own arithmetic on the paper's numbers gives the paper's loss/win, p and
    F-ranks.
    """

    lines = [
        row(data, str(system), metric, paper=None, obtained=printed_error, protocol="")
        for data in fbalf_accuracy.ON
        for system in fbalf_accuracy.SIX
        for metric in ("mae", "rmse")
        for printed_error in [fbalf_accuracy.PAPER[data, str(system), metric]]
    ]
    label = f"the paper's six systems, {fbalf_accuracy.CELLS}"
    rows = [line for line in fbalf_accuracy.statistics(lines) if line["data"] == label]
    printed = [row for row in rows if row["paper"] is not None]
    assert (
        len(printed) == 6 + 3 * 5 + 2
    )  # F-ranks; losses, wins and p of five; losses and wins of all
    (friedman,) = [row["obtained"] for row in rows if row["metric"] == "p (Friedman)"]
    assert friedman < 0.01
    assert [round(row["obtained"], 4) for row in printed] == pytest.approx(
        [round(row["paper"], 4) for row in printed]
    )


def test_biases_alone_explain_what_they_made_and_nothing_of_noise() -> None:
    rng = np.random.default_rng(0)
    user, item = (
        where.ravel() for where in np.meshgrid(np.arange(60), np.arange(50), indexing="ij")
    )
    ids = {"users": Vocabulary(size=60, kind="user"), "items": Vocabulary(size=50, kind="item")}
    made = {
        "users": rng.normal(size=60)[user],
        "items": rng.normal(size=50)[item],
        "noise": rng.normal(size=len(user)),
    }
    for value, asked, least, most in [
        (made["users"], (True, False), 0.95, 1),
        (made["users"], (False, True), -0.1, 0.05),
        (made["items"], (False, True), 0.95, 1),
        (made["users"] + made["items"], (True, True), 0.95, 1),
        (made["users"] + made["items"], (True, False), 0.2, 0.8),
        (made["noise"], (True, True), -0.2, 0.05),
    ]:
        whole = build(user, item, value=value, scale=(-9, 9), **ids)
        part = parts_of(splits("kfold-5", whole, seed=0)[0])["test"]
        assert least <= biases_alone(part, *asked) <= most
    off = part.held.rows.value - float(part.rows.value.mean())
    assert full_model(part, float(np.sqrt(np.mean(off**2)))) == pytest.approx(0, abs=1e-6)
    assert full_model(part, 0.0) == 1


def test_reg_is_chosen_on_validation_rows_and_its_test_rows_are_opened_once(tmp_path: Path) -> None:
    found = run_experiment("fbalf-reg", data=data(), cache=tmp_path, threads=1)
    validation = {
        row["system"]: row["obtained"]
        for row in found.rows
        if row["metric"] == fbalf_reg.VALIDATION
    }
    named = [f"{system}, reg {reg}" for system in fbalf_reg.SEARCHED for reg in fbalf_reg.REGS]
    assert list(validation) == named
    for system in fbalf_reg.SEARCHED:
        (row,) = (
            row
            for row in found.rows
            if (row["system"], row["metric"]) == (f"{system}, reg chosen", "rmse")
        )
        best = min(fbalf_reg.REGS, key=lambda reg: validation[f"{system}, reg {reg}"])
        assert row["settings"]["reg"] == best and len(row["values"]) == FOLDS
        assert f"{system} {best:g}" in found.notes[0]
    tested = {row["system"] for row in found.rows if row["metric"] == "mae"}
    assert tested == {*(f"{s}, reg chosen" for s in fbalf_reg.SEARCHED), "fbalf, reg chosen, rho 0"}


def test_stored_statistics_follow_from_the_stored_rows() -> None:
    stored = stored_in(ROOT / "lab" / "results", ["fbalf-table3"])["fbalf-table3"]
    rows = stored.content["rows"]
    across = [line for line in rows if fbalf_accuracy.CELLS in line["data"]]
    again = fbalf_accuracy.statistics([line for line in rows if line not in across])
    assert [line["obtained"] for line in again] == [line["obtained"] for line in across]
    label = f"the paper's six systems, {fbalf_accuracy.CELLS}"
    losses = stored.row(label, TOTAL, "losses")
    assert losses is not None and losses["obtained"] == 0 == losses["paper"]
