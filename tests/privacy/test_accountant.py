"""Differential privacy: epsilon is what dp-accounting says, and no training passes its budget, over
interruptions too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrenous.core.contract.declared import bound
from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.privacy.budget import BudgetSpent, PrivacyBudget
from entrenous.privacy.protection import PROFILES, Protection, protection_of
from entrenous.runs.train import budgeted
from entrenous.systems.fpl import FPL

dpa: Any = pytest.importorskip("dp_accounting")

from entrenous.privacy.accountant import (  # noqa: E402
    SampledGaussian,
    epsilon_of,
    most_rounds,
    multiplier_for,
)

DATA = synthetic(users=200, items=100, interactions=2000, seed=1)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize(("multiplier", "rate", "rounds"), [(1.25, 0.1, 40), (4.0, 1.0, 20)])
def test_a5_epsilon_is_that_of_dp_accounting(
    exchanged: bool, multiplier: float, rate: float, rounds: int
) -> None:
    accountant = dpa.pld.PLDAccountant(dpa.NeighboringRelation(1 + exchanged))
    one = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(multiplier))
    accountant.compose(dpa.SelfComposedDpEvent(one, rounds))
    spent = epsilon_of(SampledGaussian(multiplier, rate), rounds, 1e-4, exchanged=exchanged)
    assert spent == accountant.get_epsilon(1e-4)


def test_a5_the_noise_for_a_budget_spends_it_and_no_more() -> None:
    multiplier = multiplier_for(4.0, 1e-4, 0.1, 100)
    assert multiplier == pytest.approx(1.25, abs=0.01), "as measured: ../research/privacy.md, 3.1"
    spent = epsilon_of(SampledGaussian(multiplier, 0.1), 100, 1e-4)
    assert 3.98 < spent <= 4.0
    assert most_rounds(SampledGaussian(multiplier, 0.1), 4.0, 1e-4, 100) == 100
    unsampled = SampledGaussian(4.0, 1.0)
    fewer = most_rounds(unsampled, 2.0, 1e-4, 100)
    assert epsilon_of(unsampled, fewer, 1e-4) <= 2 < epsilon_of(unsampled, fewer + 1, 1e-4)


def test_a5_a_budget_counts_over_interruptions_and_refuses_the_round_that_would_pass_it(
    tmp_path: Path,
) -> None:
    def again() -> PrivacyBudget:
        return PrivacyBudget(SampledGaussian(4.0, 1.0), 1.5, 1e-5, 100, tmp_path / "releases")

    first = again()
    assert 0 < first.most < 100
    for _ in range(first.most - 1):
        first.spend()
    second = again()  # killed, and begun again
    second.spent_before(1)  # an older checkpoint knows of fewer
    assert second.left == 1
    second.spend()
    for budget in (second, again()):
        with pytest.raises(BudgetSpent, match=r"another round would pass epsilon 1\.5"):
            budget.spend()
    assert again().told()["epsilon"] <= 1.5 and again().told()["stopped"]


def protected(**changed: Any) -> Protection:
    return Protection.parse({**PROFILES["dp"], "people": 1, "noise": 0.6, **changed})


def test_a5_every_number_of_a_sum_has_the_noise_of_the_budget_and_no_message_is_longer_than_the_clip() -> (
    None
):
    wide = synthetic(users=100, items=4000, interactions=500, seed=2)
    fpl = FPL(factors=6, triples=3, cohort=20)
    protection, budget = budgeted(
        protected(clip=0.5, noise=0, epsilon=2), fpl, wide.catalogue, 3, None
    )
    assert budget is not None and protection.noise == pytest.approx(
        budget.mechanism.multiplier * 0.5
    )
    recorder = Recorder("sum")
    rounds = Rounds(fpl, wide, protection=protection, budget=budget, recorder=recorder)
    rounds.advance(rounds.start(), 3)
    drawn = np.concatenate([seen.sent["q"].ravel() for seen in recorder.rounds])
    assert abs(np.var(drawn) / protection.noise**2 - 1) < 0.03, (
        "a sum of 20 messages of length .5 is small beside it"
    )
    with pytest.raises(BudgetSpent):
        rounds.one_round(rounds.start())


def test_what_the_proof_does_not_cover_is_refused() -> None:
    for wrong in (
        {"sampling": "fixed"},
        {"clip": 0},
        {"noise_by": "devices"},
        {"noise_from": "seed"},
    ):
        with pytest.raises(InputError, match="do not go together"):
            protected(**wrong)
    assert bound(FPL().configured(DATA.catalogue), DATA.catalogue).cohort == 200


def test_no_epsilon_stands_over_noise_that_anybody_can_draw_again() -> None:
    """Whoever knows the seed of a run, which its manifest holds, draws its noise again: what is
    left is the sum itself.
    """
    seeded = protected(noise_from="seed", noise=40.0, epsilon=None, sampling="fixed")
    silent = seeded.model_copy(update={"noise": 0.0})
    sums = {
        name: _first_sum(own)
        for name, own in (("noisy", seeded), ("again", seeded), ("silent", silent))
    }
    assert np.abs(sums["noisy"] - sums["silent"]).std() > 20
    drawn_again = sums["again"] - sums["silent"]
    assert np.abs(sums["noisy"] - drawn_again - sums["silent"]).max() < 1e-6
    for profile in PROFILES:
        asked = {
            "epsilon": 8.0,
            "clip": 1.0,
            "sampling": "poisson",
            "noise_by": "server",
            "noise_from": "seed",
        }
        with pytest.raises(InputError, match="noise_from=system"):
            protection_of(profile, {**asked, "defence": "none"}, FPL.traits)


def _first_sum(protection: Protection) -> np.ndarray:
    """The sum of a first round."""
    recorder = Recorder("sum")
    rounds = Rounds(FPL(factors=4, cohort=20), DATA, protection=protection, recorder=recorder)
    rounds.one_round(rounds.start())
    return recorder.rounds[0].sent["q"]
