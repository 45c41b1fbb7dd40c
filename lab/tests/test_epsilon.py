"""Trainings under a budget: validation chooses, what was trained is remembered, and large
federations hold out rows of some users.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from entrenous_lab.papers.epsilon import DpCell, DpRows, of_some_users, rehearsed
from entrenous_lab.papers.privacy_epsilon import DpScale, before, cheap_from
from entrenous_lab.papers.remember import Cells
from entrenous_lab.papers.result import Context, row
from entrenous_lab.planted import planted

from entrenous.privacy.accountant import SampledGaussian, epsilon_of
from entrenous.runs.plan import make
from entrenous.runs.train import budgeted

FPL = DpCell(algorithm="fpl", settings={"factors": 2, "cohort": 50}, rounds=3)


@pytest.fixture(scope="module")
def rows() -> DpRows:
    return of_some_users(planted(users=300, items=400, each=10, tastes=2), 80, 0)


def test_two_rows_of_each_chosen_user_are_held_out_and_never_trained_on(rows: DpRows) -> None:
    train, validation, test = rows.split.train, rows.validation.rows, rows.split.test.rows
    assert len(train) == 3000 - 160
    assert np.array_equal(np.flatnonzero(validation.counts), np.flatnonzero(test.counts))
    assert validation.counts.max() == test.counts.max() == 1 and validation.counts.sum() == 80
    pairs = [
        set(zip(part.user.tolist(), part.item.tolist(), strict=True))
        for part in (train, validation, test)
    ]
    assert not pairs[0] & pairs[1] and not pairs[0] & pairs[2] and not pairs[1] & pairs[2]


def test_validation_chooses_whatever_the_test_rows_say(
    rows: DpRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [replace(FPL, clip=clip) for clip in (1.0, 2.0, 3.0)]
    scores = {1.0: (0.3, 0.9), 2.0: (0.5, 0.1), 3.0: (float("nan"), 0.95)}

    def told(self: Any, cell: DpCell, context: Context) -> dict[str, float]:
        return dict(zip(("validation", "test"), scores[cell.clip], strict=True))

    monkeypatch.setattr(DpRows, "measured", told)
    assert rows.chosen(cells, Context(cells=Cells(None))) == cells[1]


def test_where_it_is_cheap() -> None:
    def line(metric: str, epsilon: float | None, obtained: float | None) -> dict[str, Any]:
        return row("d", "fcf", metric, paper=None, obtained=obtained, protocol="", epsilon=epsilon)

    ranked = [
        line("hr@10, x", epsilon, hr)
        for epsilon, hr in ((None, 0.6), (8.0, 0.59), (4.0, 0.585), (2.0, 0.5))
    ]
    assert cheap_from(ranked) == "fcf from epsilon 4"
    assert (
        cheap_from(
            [line("rmse, x", None, 0.9), line("rmse, x", 8.0, 0.91), line("rmse, x", 4.0, None)]
        )
        == "fcf at none of these"
    )


def small(**more: Any) -> DpScale:
    """A federation of 120 devices without a limit: to find the noise of a budget takes the
    accountant seconds.
    """
    cells = [[replace(FPL, settings={"factors": 2, "cohort": 20})]]
    return DpScale(
        **{"name": "small", "delta": 1e-3, "devices": 120, "epsilons": (), "cells": cells, **more}
    )


def test_a_figure_is_the_mean_over_seeds_each_with_its_own_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("entrenous_lab.papers.privacy_epsilon.SCALES", (small(),))
    found = before(Context(cells=Cells(None), seeds=2))
    assert [line["system"] for line in found.rows] == ["fpl", "popular"]
    assert all(line["seeds"] == [0, 1] and "seeds 0, 1" in line["protocol"] for line in found.rows)
    alone = [before(Context(cells=Cells(None), seed=seed, seeds=1)).rows for seed in (0, 1)]
    for line, *each in zip(found.rows, *alone, strict=True):
        assert line["values"] == [one["obtained"] for one in each]
        assert line["obtained"] == pytest.approx(np.mean(line["values"]))


def test_a_training_whose_noise_can_be_drawn_again_has_the_noise_of_an_epsilon_and_claims_none(
    rows: DpRows,
) -> None:
    """With a clip that moves, for which the noise is split. It repeats to the digit, which is why it may not say that it protects anybody."""
    pytest.importorskip("dp_accounting")
    quantile = 0.5
    cell = replace(FPL, epsilon=4.0, delta=1e-3, quantile=quantile)
    algorithm, catalogue = make(cell.plan, rows.split.train), rows.split.train.catalogue
    own, z = rehearsed(cell, algorithm, catalogue)
    assert own.noise_from == "seed" and own.epsilon is None and own.clip_quantile == quantile
    assert (
        own.noise == pytest.approx(z * cell.clip)
        and own.sampling == "poisson"
        and own.clip == cell.clip
    )
    assert 3.9 < epsilon_of(SampledGaussian(z, 50 / 300), cell.rounds, 1e-3) <= 4.0
    assert budgeted(own, algorithm, catalogue, cell.rounds, None)[1] is None, (
        "no budget, so that no run says epsilon"
    )
    found = [rows.measured(cell, Context(cells=Cells(None))) for _ in range(2)]
    assert (
        found[0]["z"] == z
        and found[0]["test"] == found[1]["test"]
        and found[0]["validation"] == found[1]["validation"]
    )
