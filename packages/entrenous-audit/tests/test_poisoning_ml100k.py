"""P1 to P6 of the study of poisoning, on MovieLens-100K: what docs/poisoning.md claims, and what it
says does not hold.
"""

from __future__ import annotations

from typing import Any

import pytest
from entrenous_audit.python.attacking import attack
from paths import SHARED, real

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
FPL: dict[str, Any] = {"settings": {"cohort": 94, "factors": 20}, "rounds": 100}


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    """MovieLens-100K, or the test is skipped."""
    real("ml-100k")
    monkeypatch.setenv("ENTRENOUS_DATA", str(SHARED))


@pytest.mark.parametrize("name", ["boost", "fake", "pip"])
def test_p1_robust_holds_against_ten_percent_on_three_targets_and_three_seeds(name: str) -> None:
    none, robust = attack(
        "pfpl+", "ml-100k", attack=name, share=0.1, targets=3, seeds=3, **FPL
    ).found["rows"]
    assert robust["er@10_most"] <= 0.01
    assert (
        none["hr@10"] - robust["hr@10"] <= 0.04 and none["hr@10"] - robust["hr@10_attacked"] <= 0.04
    )
    assert none["er@10"] > (0.05 if name == "fake" else 0.5)  # the attack is one


def test_p1_robust_holds_against_fake_users_with_the_target_alone() -> None:
    found = attack(
        "pfpl+", "ml-100k", attack="fake", targets=3, attack_settings={"fillers": 0}, **FPL
    ).found
    none, robust = found["rows"]
    assert none["er@10"] > 0.5 and robust["er@10_most"] <= 0.01


@pytest.mark.parametrize("name", ["boost", "fake", "pip"])
def test_p2_robust_holds_some_of_twenty_percent(name: str) -> None:
    (robust,) = attack(
        "pfpl+", "ml-100k", attack=name, share=0.2, defences=("robust",), **FPL
    ).found["rows"]
    assert robust["er@10"] <= 0.2


@pytest.mark.parametrize("name", ["fake", "pip"])
def test_p3_no_claim_is_made_at_thirty_percent(name: str) -> None:
    (robust,) = attack(
        "pfpl+", "ml-100k", attack=name, share=0.3, defences=("robust",), **FPL
    ).found["rows"]
    assert robust["er@10"] > 0.1  # if this fails, the page understates the defence: measure anew


@pytest.mark.parametrize("name", ["fedrecattack", "sidestep"])
def test_an_attack_that_writes_vectors_for_estimated_users_is_held_back_by_support_and_not_stopped(
    name: str,
) -> None:
    satcap, robust = attack(
        "pfpl+", "ml-100k", attack=name, defences=("satcap", "robust"), **FPL
    ).found["rows"]
    assert satcap["er@10"] > 0.3  # as docs/results/poisoning.md says
    assert 0.01 < robust["er@10"] < 0.2  # if it is less, say something better there


def peers(name: str, defence: str) -> dict[str, Any]:
    """What a tenth of PEPPER's peers reach by one attack under one defence."""
    (row,) = attack("pepper-gmf", "ml-100k", attack=name, defences=(defence,), rounds=100).found[
        "rows"
    ]
    return dict(row)


def test_p4_models_that_are_not_finite_cost_little() -> None:
    lost = peers("not-finite", "none")
    assert lost["refused"] > 0 and lost["hr@10"] - lost["hr@10_attacked"] <= 0.02


def test_p5_models_turned_round_cost_little_where_alike_ones_are_merged() -> None:
    wary = peers("sign-flip", "alike")
    assert (
        wary["hr@10_attacked"] >= wary["hr@10"] - 0.03
        and wary["hr@10"] >= peers("noise", "none")["hr@10"] - 0.01
    )


def test_p6_an_item_is_promoted_among_peers_as_the_page_says() -> None:
    assert peers("pip", "none")["er@10"] > 0.3  # unprotected by default
    assert peers("pip", "distrust")["er@10"] <= 0.3
