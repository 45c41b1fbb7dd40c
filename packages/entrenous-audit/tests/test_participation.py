"""What is known because people took part, apart from what would be guessed anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.claims import Claims
from entrenous_audit.examine import audited
from entrenous_audit.left_out import in_training
from entrenous_audit.participation import (
    ANYWAY,
    BECAUSE,
    by_taking_part,
    never_took_part,
)
from entrenous_audit.plan import AuditPlan
from onlooker import histories, observe

from entrenous.data.synthetic import synthetic

DATA = synthetic(users=60, items=120, interactions=1200, seed=0)


def claims(score: Any, tried: bool = True) -> Claims:
    return Claims(np.arange(60), score.astype(np.float32), tried=tried)


@pytest.fixture(scope="module")
def final() -> Any:
    return observe("fcf", DATA, view="model", rounds=2, settings={"factors": 4})


def test_only_what_a_model_adds_counts_as_known_by_taking_part(final: Any) -> None:
    inside = in_training(0, 60)
    truth = claims(histories(DATA))
    chart = claims(np.tile(DATA.popularity, (60, 1)))
    found = by_taking_part(truth, chart, inside, final, DATA)
    assert found["verdict"] == BECAUSE and found["took_part"] == 1
    assert found["because"] == pytest.approx(1 - (found["guessable"] or 0))
    assert found["people"] <= (~inside).sum()
    same = by_taking_part(truth, truth, inside, final, DATA)
    assert same["verdict"] == ANYWAY and same["guessable"] == 1 and same["because"] == 0


def test_an_attack_that_failed_or_declined_or_left_nobody_out_is_not_tried(final: Any) -> None:
    inside = in_training(0, 60)
    truth = claims(histories(DATA))
    declined = claims(histories(DATA), tried=False)
    everybody = np.ones(60, np.bool_)
    for took, never, who in (
        (None, truth, inside),
        (truth, declined, inside),
        (truth, truth, everybody),
    ):
        found = by_taking_part(took, never, who, final, DATA)
        assert found["verdict"] == "NOT TRIED" and found["because"] is None and found["reason"]


def test_scores_that_are_no_numbers_rank_last(final: Any) -> None:
    nothing = claims(np.full((60, 120), np.nan))
    found = by_taking_part(nothing, nothing, in_training(0, 60), final, DATA)
    assert found["because"] == 0


def test_the_onlooker_of_both_models_knows_the_same(final: Any) -> None:
    other = final._replace(model={"y": final.model["y"] + 1, "candidates/ptr": np.zeros(1)})
    never = never_took_part(final, other)
    assert set(never.model) == {"y", "known/ptr", "known/item"}
    assert np.array_equal(never.model["y"], other.model["y"])
    assert np.array_equal(never.model["known/item"], final.model["known/item"])


@pytest.mark.parametrize("view", ["model", "sum"])
def test_a_training_of_devices_that_decide_by_themselves_is_audited_whole(view: Any) -> None:
    """The training without some people has the noise of the training with them."""
    plan = AuditPlan(
        algorithm="fcf",
        view=view,
        cohort=20,
        rounds=8,
        profile="private",
        protect={"sampling": "poisson", "people": 14, "answers": 4, "noise": 0.2, "parties": 1},
        settings={"factors": 4},
        protocol="random-80-20",
        threads=1,
    )
    found = audited(plan, DATA)
    assert found["protect"]["answers"] == 4
    names = {attack["name"]: attack["verdict"] for attack in found["attacks"]}
    assert {"membership", "user-membership"} <= names.keys()
    assert not any(verdict.startswith("failed") for verdict in names.values())
