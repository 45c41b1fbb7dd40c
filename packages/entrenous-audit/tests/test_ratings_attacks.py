"""Attacks on single updates of rating models: whole ratings among made-up ones, lists, what always
comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import integers, intersection, listed, two_step
from entrenous_audit.attacks._rows_seen import prior
from entrenous_audit.claims import Attack, Claims
from onlooker import (
    clipped,
    every_item,
    first_users,
    histories,
    movielens,
    noised,
    right,
    seen,
    sorted_rows,
)
from small_data import few_ratings

ALL = (integers.ATTACK, intersection.ATTACK, listed.ATTACK, two_step.ATTACK)
some = pytest.mark.parametrize


@pytest.fixture(scope="module")
def small() -> Any:
    return few_ratings(30, 80)


@some(("rho", "precision", "recall"), [(1, 0.98, 0.99), (3, 0.98, 0.95)])
def test_real_ratings_of_one_update_stand_out_by_whole_steps(
    rho: float, precision: float, recall: float
) -> None:
    found = right(
        integers.ATTACK.run(first_users(seen(movielens(), "fbalf", rho=rho, factors=16), 300)),
        movielens(),
    )
    assert found.precision >= precision and found.recall >= recall


@pytest.mark.beside
def test_the_bayesian_rows_of_decoys_are_exact_multiples() -> None:
    found = right(
        integers.ATTACK.run(first_users(seen(movielens(), "fbalf-bayes", factors=8), 200)),
        movielens(),
    )
    assert found.precision > 0.999 and found.recall > 0.99


@some("algorithm", ["fedmf-ratings", "fedrec"])
def test_two_rounds_give_the_ratings_of_models_without_biases(algorithm: str) -> None:
    transcript = first_users(
        seen(
            movielens(),
            algorithm,
            rounds=2,
            **({"send": "part"} if algorithm == "fedmf-ratings" else {}),
        ),
        200,
    )
    claims = two_step.ATTACK.run(transcript)
    found = right(claims, movielens())
    assert found.precision >= 0.97 and found.recall >= 0.99
    first, second = (
        two_step.messages(transcript, place, one)[3] for place, one in enumerate(transcript.rounds)
    )
    ratings = two_step.ratings_of(transcript, first, second)
    own = movielens().histories(np.array([3]))
    at = np.searchsorted(first.item, own.item)
    assert np.abs(ratings[at] - own.value).max() < 0.01
    assert not two_step.ATTACK.applies(transcript._replace(rounds=transcript.rounds[:1]))


@some(
    ("algorithm", "settings"),
    [
        ("fedmf-ratings", {}),
        ("fedmf-ratings", {"send": "part"}),
        ("rfrec", {}),
        ("metamf", {"batch": 128, "drawn": "evenly"}),
        ("fbalf", {"rho": 0}),
        ("fedrec++", {}),
        ("fedrec++", {"pads": False}),
    ],
)
def test_lists_are_read(small: Any, algorithm: str, settings: Any) -> None:
    transcript = seen(small, algorithm, rounds=1, **settings)
    assert listed.ATTACK.applies(transcript)
    found = right(listed.ATTACK.run(transcript), small)
    share = 0.7 if algorithm == "fedrec++" else 0.999  # what denoising devices rated is among sums
    assert found.precision == 1 and found.recall > share


def test_decoys_that_are_drawn_anew_give_the_history_away_and_kept_ones_do_not(small: Any) -> None:
    anew, kept = (
        seen(small, "fedrec", rounds=8, rho=0.5, redraw=redraw) for redraw in (True, False)
    )
    found = right(intersection.ATTACK.run(anew), small)
    assert found.precision > 0.9 and found.recall > 0.9
    claims = intersection.ATTACK.run(kept)
    assert claims.claimed is not None and not claims.claimed.any() and "1.5" in claims.note


@some("algorithm", ["fbalf", "fbalf-bayes", "fedrec", "fedmf-ratings"])
@some(
    "limits",
    [
        [],
        [noised(0.05)],
        [every_item(80), noised(3.0)],
        [clipped(0.5)],
        [sorted_rows],
        [every_item(80)],
    ],
)
@pytest.mark.beside
def test_limited_updates_leave_no_attack_far_below_the_popularity_guess(
    small: Any, algorithm: str, limits: Any
) -> None:
    transcript = seen(
        small,
        algorithm,
        rounds=2,
        limits=[one for one in limits if algorithm != "fedmf-ratings" or "every" not in repr(one)],
    )
    attacks = [attack for attack in ALL if attack.applies(transcript)]
    assert attacks
    for attack in attacks:
        with np.errstate(all="raise", under="ignore"):
            claims = attack.run(transcript)
        found = right(claims, small)
        guess = right(Claims(claims.users, np.tile(prior(transcript), (30, 1))), small).ranked
        assert found.ranked > guess - 0.04, attack.name
        few = claims.claimed is None or claims.claimed.sum() < 20
        assert few or found.precision > 0.8, attack.name


@some("attack", ALL)
def test_other_algorithms_are_left_alone_and_nobody_is_nobody(small: Any, attack: Attack) -> None:
    assert not attack.applies(seen(small, "pfpl+", factors=4)) and not attack.applies(
        seen(small, "fcf", factors=4)
    )
    empty = seen(small, "fbalf", factors=4, rho=0)._replace(rounds=())
    assert attack.run(empty).score.shape == (0, 80) and histories(small).any()
