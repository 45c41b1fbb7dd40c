"""Attacks on what peers push and on sums: as right as measured on MovieLens-100K, and no worse than
popularity where there is nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import (
    differencing,
    drift,
    first_push,
    membership,
    regression,
)
from entrenous_audit.attacks._rows_seen import prior
from entrenous_audit.claims import Claims
from entrenous_audit.measures import measured
from entrenous_audit.side_knowledge import known_items
from entrenous_audit.transcript import Transcript
from onlooker import histories, movielens, observe, right

from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Seen

some = pytest.mark.parametrize


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


def guessed(transcript: Transcript, claims: Claims, data: Any) -> float:
    """The share of the first n_u items by popularity that are right, of the users of some
    claims.
    """
    return right(
        Claims(claims.users, np.tile(prior(transcript), (len(claims.users), 1))), data
    ).ranked


def noised(seen: Seen, sd: float) -> Seen:
    """What was seen, with noise on every number of it."""
    rng = np.random.default_rng(seen.round)
    add = lambda array: (array + rng.normal(0, sd, array.shape)).astype(array.dtype)  # noqa: E731
    return seen._replace(
        sent={
            name: add(array) if array.dtype.kind == "f" else array
            for name, array in seen.sent.items()
        }
    )


@some("algorithm", ["pepper-gmf", "gossip-age-gmf"])
def test_the_first_push_names_all_that_a_node_trains_on(algorithm: str) -> None:
    transcript = observe(algorithm, movielens(), view="neighbour", rounds=1, watched=20)
    claims = first_push.ATTACK.run(transcript)
    found = right(claims, movielens())
    assert found.precision == 1 and found.recall > (0.84 if algorithm == "pepper-gmf" else 0.99)


def test_later_pushes_tell_more_than_popularity() -> None:
    transcript = observe("pepper-gmf", movielens(), view="neighbour", rounds=4, watched=20)
    later = transcript._replace(
        rounds=tuple(seen for seen in transcript.rounds if int(seen.sent["age"][0]) > 5)
    )
    claims = drift.ATTACK.run(later)
    assert right(claims, movielens()).ranked > guessed(transcript, claims, movielens()) + 0.2
    assert first_push.ATTACK.run(
        transcript._replace(rounds=transcript.rounds[:1] + later.rounds)
    ).note.startswith("1 of")
    beside = later.rounds[0]._replace(
        received=transcript.rounds[0].received
    )  # the base model is public
    assert not first_push.ATTACK.run(later._replace(rounds=(beside, *later.rounds[1:]))).tried


@some("attack", [first_push.ATTACK, drift.ATTACK])
def test_noise_on_pushed_models_leaves_at_least_popularity(small: Any, attack: Any) -> None:
    transcript = observe("gossip-age-gmf", small, view="neighbour", rounds=2, watched=8)
    first = noised(transcript.rounds[0], 10)._replace(received=transcript.rounds[0].received)
    loud = transcript._replace(
        rounds=(first, *(noised(seen, 10) for seen in transcript.rounds[1:]))
    )
    claims = attack.run(loud)
    assert claims.claimed is None or claims.claimed.mean() < 0.01
    assert right(claims, small).ranked > guessed(loud, claims, small) - 0.1


@some("algorithm, settings", [("fcf", {}), ("fcf", {"form": "gram"}), ("pfpl+", {})])
def test_two_sums_that_differ_by_one_party_give_that_party(algorithm: str, settings: Any) -> None:
    transcript = observe(
        algorithm, movielens(), view="difference", rounds=3, settings={"factors": 20, **settings}
    )
    found = right(differencing.ATTACK.run(transcript), movielens())
    assert found.precision > 0.99 and found.recall > (0.99 if algorithm == "fcf" else 0.4)


def test_sums_of_changing_cohorts_leak_by_regression() -> None:
    transcript = observe(
        "pfpl+", movielens(), view="sum", cohort=100, rounds=200, settings={"factors": 8}
    )
    claims = regression.ATTACK.run(transcript)
    assert right(claims, movielens()).ranked > guessed(transcript, claims, movielens()) + 0.015


@some("algorithm", ["fcf", "pfpl+", "fbalf", "fedavg-gmf"])
def test_regression_is_no_worse_than_popularity(small: Any, algorithm: str) -> None:
    data = small if algorithm != "fbalf" else movielens()
    transcript = observe(algorithm, data, view="sum", cohort=10, rounds=6, settings={"factors": 4})
    loud = transcript._replace(rounds=tuple(noised(seen, 30) for seen in transcript.rounds))
    for one in (transcript, loud):
        claims = regression.ATTACK.run(one)
        assert right(claims, data).ranked > guessed(one, claims, data) - 0.03


def test_a_model_says_which_interactions_it_was_trained_on() -> None:
    transcript = observe("pfpl+", movielens(), view="model", rounds=60, settings={"factors": 20})
    found = measured(membership.ATTACK.run(transcript), transcript, movielens())
    assert found["r_precision"] > found["popularity_r_precision"] + 0.05 and found["low"] > 0.03
    known = known_items(transcript)
    assert (
        known is not None
        and 0.48 < known.sum() / histories(movielens()).sum() < 0.52
        and (known & ~histories(movielens())).sum() == 0
    )
