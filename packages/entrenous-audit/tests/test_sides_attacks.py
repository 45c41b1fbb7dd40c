"""Attacks on single updates that read two sides along one vector: FCF's gradient, moves of item
embeddings, FPL without the bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import (
    collinear,
    gradient,
    moved_table,
    touched_rows,
)
from entrenous_audit.attacks._rows_seen import prior
from entrenous_audit.claims import Attack, Claims
from onlooker import by_popularity, every_item, first_users, movielens, noised, right, seen
from small_data import few_ratings

from entrenous.data.synthetic import synthetic

some = pytest.mark.parametrize


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


@some("form", ["printed", "gram"])
@some("algorithm", ["fcf", "fcf-huawei"])
def test_one_gradient_of_fcf_is_the_whole_history(algorithm: str, form: str) -> None:
    found = right(
        gradient.ATTACK.run(first_users(seen(movielens(), algorithm, factors=8, form=form), 100)),
        movielens(),
    )
    assert found.precision == 1 and found.recall > 0.999 and found.ranked > 0.999


def test_a_clip_of_whole_messages_hides_no_gradient() -> None:
    clipped = seen(movielens(), "fcf", factors=8, protect={"clip": 1})
    found = right(gradient.ATTACK.run(clipped), movielens())
    assert found.precision > 0.99 and found.recall > 0.99


@some("form", ["printed", "gram"])
def test_noise_on_single_gradients_ends_the_claims_and_not_the_ranking(
    small: Any, form: str
) -> None:
    ranked, rows = [], [every_item(120)] if form == "gram" else []
    for sd in (0.01, 0.3, 3.0):
        transcript = seen(small, "fcf", factors=8, form=form, limits=[*rows, noised(sd)])
        found = right(gradient.ATTACK.run(transcript), small)
        assert found.ranked > by_popularity(transcript, small) - 0.02
        ranked.append(found.ranked)
    assert ranked[0] > 0.95 and ranked[0] > ranked[2]


@some(
    "algorithm",
    ["fedavg-gmf", "fedavg-neumf", "reptile-gmf", "ditto-gmf", "cali3f-gmf", "fedfast-gmf"],
)
def test_one_update_of_moves_is_the_whole_history(algorithm: str) -> None:
    transcript = first_users(seen(movielens(), algorithm, factors=32), 100)
    found = right(touched_rows.ATTACK.run(transcript), movielens())
    assert found.precision > 0.99 and found.recall > 0.99
    assert (
        algorithm not in ("fedavg-gmf", "reptile-gmf", "ditto-gmf")
        or found.precision == found.recall == 1
    )


@some("biases", [True, False])
@pytest.mark.beside
def test_some_updates_of_fedrecon_are_the_whole_history(small: Any, biases: bool) -> None:
    """Each round shows the half of the samples from which the items learnt."""
    found = [
        right(touched_rows.ATTACK.run(seen(small, "fedrecon", rounds=n, biases=biases)), small)
        for n in (1, 8)
    ]
    # The sign of a bias is that of the error; without biases the popularity chooses the side.
    assert min(one.precision for one in found) > (0.99 if biases else 0.85)
    assert 0.3 < found[0].recall < 0.7 and found[1].recall > 0.95


@some("view", ["individual", "sum"])
@pytest.mark.beside
def test_a_shown_table_is_the_history(small: Any, view: Any) -> None:
    transcript = seen(small, "gpfedrec", rounds=3, view=view)
    assert view in moved_table.ATTACK.views and moved_table.ATTACK.applies(transcript)
    found = right(moved_table.ATTACK.run(transcript), small)
    assert found.precision > 0.9 and found.recall > 0.9 and found.ranked > 0.9


def test_fpl_needs_no_bias_for_the_sign_and_pi_0_has_none() -> None:
    open_rows, closed = (
        first_users(seen(movielens(), "pfpl+", factors=20, pi=pi), 100) for pi in (1, 0)
    )
    found = right(collinear.ATTACK.run(open_rows), movielens())
    assert found.precision > 0.99 and found.recall > 0.45
    claimed = collinear.ATTACK.run(closed).claimed
    assert claimed is not None and claimed.mean() < 0.001


@some(
    ("attack", "algorithm"),
    [
        (collinear.ATTACK, "pfpl+"),
        (touched_rows.ATTACK, "fedavg-gmf"),
        (touched_rows.ATTACK, "fedavg-mlp"),
        (gradient.ATTACK, "fcf"),
    ],
)
@some("sd", [0, 0.2, 30.0])
def test_noise_leaves_no_attack_far_below_the_popularity_guess(
    small: Any, attack: Attack, algorithm: str, sd: float
) -> None:
    few = {} if algorithm in ("pfpl+", "fcf") else {"cohort": 20}
    few |= {"clusters": 3} if "cali" in algorithm or "fast" in algorithm else {}
    rows = [] if algorithm == "fcf" or not sd else [every_item(120)]
    transcript = seen(
        small, algorithm, rounds=2, factors=8, limits=[*rows, noised(sd)] if sd else [], **few
    )
    assert attack.applies(transcript)
    with np.errstate(all="raise", under="ignore"):
        claims = attack.run(transcript)
    users = claims.users
    guess = right(Claims(users, np.tile(prior(transcript), (len(users), 1))), small).ranked
    assert right(claims, small).ranked > guess - 0.05
    assert (
        claims.claimed is None or claims.claimed.sum() < 20 or right(claims, small).precision > 0.8
    )


@some(
    "attack",
    [
        collinear.ATTACK,
        touched_rows.ATTACK,
        moved_table.ATTACK,
        gradient.ATTACK,
    ],
)
def test_what_is_another_algorithm_s_is_left_alone(attack: Attack) -> None:
    assert not attack.applies(seen(few_ratings(20, 30), "fbalf", factors=4))
