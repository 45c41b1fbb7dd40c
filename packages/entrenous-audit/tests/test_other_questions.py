"""Attacks that ask who was in training and who shares a taste: as good as measured on
MovieLens-100K, and no better than chance where there is nothing to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import communities, user_membership
from entrenous_audit.claims import Claims, read_claims, write_claims
from entrenous_audit.left_out import trained_without
from entrenous_audit.other_questions import communities_found, members_found
from entrenous_audit.plan import AuditPlan
from onlooker import movielens, observe

from entrenous.core.contract.protocols import silent
from entrenous.data.synthetic import synthetic
from entrenous.runs.plan import algorithm_of


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=60, items=120, interactions=1200, seed=0)


def without(data: Any, algorithm: str, rounds: int, own: int = 0, **settings: Any) -> Any:
    made: Any = algorithm_of(algorithm, settings)
    plan = AuditPlan(algorithm=algorithm, rounds=rounds)
    return trained_without(plan, made, data, silent, own)


def test_a_final_model_says_who_was_in_training_and_an_untrained_one_does_not() -> None:
    """Of all 943 people in 20 rounds it is 0.84 under `private` (`--attack user-membership`)."""
    seen, inside = without(movielens(), "fcf", 20, own=5, factors=16)
    found = members_found(user_membership.ATTACK.run(seen), inside)
    assert found["auc"] > 0.8 and found["low"] > 0.25 and found["verdict"] == "LEAKS"
    assert 0.75 < inside.mean() < 0.85 and found["popularity_r_precision"] == pytest.approx(
        inside.mean()
    )
    # Each candidate is in four of five models that the onlooker trains.
    assert set(seen.model["own/inside"].sum(axis=0)) == {4}
    draws = np.random.default_rng(0)
    untrained = {"y": draws.normal(size=seen.model["y"].shape).astype(np.float32)}
    other = seen._replace(model={**seen.model, **untrained})
    assert 0.42 < members_found(user_membership.ATTACK.run(other), inside)["auc"] < 0.58


def test_candidates_are_all_users_and_say_nothing_by_their_order(small: Any) -> None:
    seen, inside = without(small, "fcf", 2, factors=4)
    ptr = seen.model["candidates/ptr"]
    assert sorted(np.diff(ptr).tolist()) == sorted(small.counts.tolist()) and len(inside) == 60
    assert (
        int(seen.popularity.sum()) == int(np.diff(ptr)[inside].sum()) < len(small)
    )  # the left out are in no chart
    assert "known/ptr" not in seen.model and np.diff(inside.astype(int)).any()


@pytest.mark.parametrize(
    "algorithm, view", [("pfpl+", "individual"), ("fcf", "individual"), ("pepper-gmf", "neighbour")]
)
def test_messages_say_who_shares_a_taste(algorithm: str, view: Any) -> None:
    watched = 30 if view == "neighbour" else 300
    seen = observe(algorithm, movielens(), view=view, rounds=1, watched=watched)
    found = communities_found(communities.ATTACK.run(seen), seen, movielens())
    assert found["r_precision"] > found["popularity_r_precision"] + 0.15 and found["low"] > 0.1


def test_a_ranking_by_chance_finds_no_community_and_the_truth_finds_all(small: Any) -> None:
    seen = observe("pfpl+", small, settings={"factors": 4})
    users, targets = np.arange(60), len(seen.model["targets/owner"])
    draws = np.random.default_rng(0).normal(size=(60, targets)).astype(np.float32)
    found = communities_found(Claims(users, draws, asks="communities"), seen, small)
    assert found["advantage"] == pytest.approx(0, abs=0.05) and found["verdict"].startswith(
        "NO ADVANTAGE"
    )
    own = np.zeros((60, 120))
    own[small.user, small.item] = 1
    taste = own[seen.model["targets/owner"]]
    both = own @ taste.T
    near = (both / (own.sum(1)[:, None] + taste.sum(1)[None] - both)).astype(np.float32)
    assert (
        communities_found(Claims(users, near, asks="communities"), seen, small)["r_precision"] > 0.9
    )  # all but ties


def test_claims_about_another_question_survive_their_file(tmp_path: Any) -> None:
    write_claims(
        tmp_path / "claims", Claims(np.arange(3), np.zeros((3, 1), np.float32), asks="members")
    )
    assert read_claims(tmp_path / "claims").asks == "members"
