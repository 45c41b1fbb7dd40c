"""A6: what canaries say of one training is no more than was promised, and more than a promise that
is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Command, write_shop
from entrenous_audit.canaries import audited_once
from entrenous_audit.one_run import chance_of, lower_bound, refuted

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic
from entrenous.federation.shard import Threads
from entrenous.privacy.accountant import SampledGaussian, epsilon_of
from entrenous.privacy.protection import Protection
from entrenous.runs.plan import algorithm_of

ROUNDS, CLAIMED, NOISE = (
    25,
    2.0,
    2.97,
)  # the noise for that claim: a user takes part with probability 40 / 150
SETTINGS = {
    "fcf": {"factors": 4},
    "fpl": {"factors": 4, "triples": 5},
    "fedavg-gmf": {"factors": 4},
}


@pytest.fixture(scope="module")
def data() -> Any:
    return synthetic(users=150, items=120, interactions=1500, seed=0)


def bounded(data: Any, algorithm: str, clip: float = 1.0, noise: float = NOISE) -> float:
    """The bound of 150 canaries of a training."""
    made: Any = algorithm_of(algorithm, {**SETTINGS[algorithm], "cohort": 40})
    real = Protection(clip=clip, noise=noise, sampling="poisson", noise_by="server", rows="all")
    return audited_once(made, data, real, 150, ROUNDS, seed=0, executor=Threads(1))[0].epsilon


def test_the_noise_of_these_tests_is_that_of_the_claim() -> None:
    pytest.importorskip("dp_accounting")
    assert CLAIMED - 0.05 < epsilon_of(SampledGaussian(NOISE, 40 / 150), ROUNDS, 1e-5) <= CLAIMED


@pytest.mark.parametrize("algorithm", list(SETTINGS))
def test_a6_the_lower_bound_is_no_more_than_what_noise_promises(data: Any, algorithm: str) -> None:
    assert 0 <= bounded(data, algorithm) <= CLAIMED


@pytest.mark.parametrize("algorithm", list(SETTINGS))
def test_a6_a_training_that_forgets_its_noise_or_its_clip_is_found_out(
    data: Any, algorithm: str
) -> None:
    assert bounded(data, algorithm, noise=0.0) > CLAIMED
    if algorithm == "fcf":
        assert (
            bounded(data, algorithm, clip=20.0) > CLAIMED
        )  # the noise is still that of a clip of 1


def test_the_bound_is_that_of_the_paper() -> None:
    """All of r guesses right: e^-epsilon = 1 / p^(1/r) - 1 without delta. With delta a little less;
    with chance alone 0.
    """
    assert refuted(100, 100, 100, 0.0, 0.05) == pytest.approx(
        -np.log(0.05 ** (-1 / 100) - 1), abs=1e-3
    )
    assert refuted(100, 100, 100, 1e-3, 0.05) < refuted(100, 100, 100, 0.0, 0.05)
    assert refuted(100, 100, 55, 0.0, 0.05) == 0.0
    assert chance_of(1000, 100, 60, 0.0, 1e-2) > chance_of(1000, 100, 60, 0.0, 0.0)


def test_under_randomised_response_the_bound_stays_below_the_truth() -> None:
    """Coins told rightly with probability e / (1 + e), which is epsilon 1: below 1 in at least 95 %
    of 60 repetitions, and not idle.
    """
    draws, bounds = np.random.default_rng(0), []
    for _ in range(60):
        inside = draws.uniform(size=400) < 0.5
        told = np.where(draws.uniform(size=400) < np.e / (1 + np.e), inside, ~inside)
        bounds.append(lower_bound(told + 0.1 * draws.uniform(size=400), inside, 0.0).epsilon)
    assert np.mean(np.array(bounds) <= 1) >= 0.95 and np.median(bounds) > 0.5


def test_an_audit_says_what_was_spent_and_what_canaries_leave_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("dp_accounting")
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    asked = [
        "fcf",
        "--data",
        "shop.csv",
        "--protocol",
        "loo-20",
        "--set",
        "rounds=12",
        "--cohort",
        "8",
        "--rounds",
        "3",
        "--quick",
    ]
    private = [*asked, "--profile", "dp", "--protect", "people=1", "--protect", "noise=1.5"]
    command = Command(capsys)
    found = command("audit", *private, "--canaries", "30", "--json").json
    assert 0 < found["epsilon"] < found["budget"] == 8 and found["epsilon_whole"] is None
    assert (
        found["canaries"]["epsilon_at_least"]
        <= found["canaries"]["epsilon"]
        == pytest.approx(found["epsilon"])
    )
    assert "what was seen has spent epsilon" in command("audit", *private).out
    assert "nothing bounds the message" in command("audit", *asked, "--canaries", "30").error
    assert "expected 10 to 40" in command("audit", *private, "--canaries", "41").error


def test_more_canaries_than_users_are_refused(data: Any) -> None:
    made: Any = algorithm_of("fcf", SETTINGS["fcf"])
    with pytest.raises(InputError):
        audited_once(made, data, Protection(clip=1), 151, 1, seed=0, executor=Threads(1))
