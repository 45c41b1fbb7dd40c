"""Attacks on single updates of FPL: as right as the arithmetic says, quiet where it does not
hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_audit.attacks import (
    lone_rows,
    match,
    sign,
)
from entrenous_audit.claims import Attack
from onlooker import (
    by_popularity,
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

from entrenous.data.synthetic import synthetic

ALL = (match.ATTACK, sign.ATTACK)
some = pytest.mark.parametrize


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


@some("pi", [0, 0.3, 1])
def test_one_round_on_movielens_gives_half_of_the_histories_at_any_pi(pi: float) -> None:
    transcript = first_users(seen(movielens(), "pfpl+", pi=pi, factors=20), 200)
    matched = right(match.ATTACK.run(transcript), movielens())
    assert matched.precision >= 0.98 and 0.43 <= matched.recall <= 0.55
    assert pi == 0 or right(sign.ATTACK.run(transcript), movielens()).precision == 1


def test_ten_rounds_on_movielens_give_almost_all() -> None:
    transcript = first_users(seen(movielens(), "pfpl+", rounds=10, factors=20), 60)
    for attack in (match.ATTACK, sign.ATTACK):
        found = right(attack.run(transcript), movielens())
        assert found.precision >= 0.98 and found.recall >= 0.93, attack.name
    first = match.ATTACK.run(transcript).first
    assert first is not None and set(np.unique(first)) == set(range(-1, 10))


@some("attack", ALL)
@some(
    "limits",
    [
        [noised(0.05)],
        [every_item(120)],
        [clipped(0.5)],
        [every_item(120), noised(0.3)],
        [sorted_rows],
    ],
)
@some("triples", [0, 1])
def test_limited_updates_leave_no_attack_far_below_the_popularity_guess(
    small: Any, attack: Attack, limits: Any, triples: int
) -> None:
    transcript = seen(small, "fpl", rounds=2, triples=triples, limits=limits)
    with np.errstate(all="raise", under="ignore"):
        claims = attack.run(transcript)
    assert right(claims, small).ranked > by_popularity(transcript, small) - 0.03
    assert (
        claims.claimed is None or not claims.claimed.any() or right(claims, small).precision > 0.8
    )


def test_noise_is_noticed(small: Any) -> None:
    claims = match.ATTACK.run(seen(small, "pfpl+", limits=[noised(0.05)]))
    assert not claims.tried and claims.note.startswith("rows are off by")


@some("attack", ALL)
def test_other_algorithms_and_empty_transcripts_are_left_alone(small: Any, attack: Attack) -> None:
    assert not attack.applies(seen(small, "fcf", factors=4))
    empty = seen(small, "pfpl+")._replace(rounds=())
    assert attack.run(empty).score.shape == (0, 120)


def test_the_first_row_is_no_history_as_sent_and_any_row_where_rows_are_sorted(small: Any) -> None:
    """In the order of training a device's first row is a negative, which tells without numbers."""

    def consumed_first(rows: str) -> float:
        firsts = []
        for one in seen(small, "pfpl+", rounds=4, protect={"rows": rows}).rounds:
            first = one.sent["item"][one.sent["ptr"][:-1]]
            firsts.append(histories(small)[one.users, first])
        return float(np.concatenate(firsts).mean())

    assert consumed_first("as sent") == 0
    assert consumed_first("sorted") > 0.1


def test_lone_rows_of_sums_are_linked_and_named() -> None:
    data = synthetic(users=60, items=400, interactions=1800, seed=0)
    transcript = seen(data, "fpl", view="sum", cohort=15, rounds=80, triples=1)
    claims = lone_rows.ATTACK.run(transcript)
    assert claims.named and len(claims.users) > 40 and "one possible name" in claims.note
    found = right(claims, data)
    assert found.precision > 0.85 and found.ranked > by_popularity(transcript, data) + 0.1
    full = lone_rows.ATTACK.run(seen(data, "fpl", view="sum", cohort=60, rounds=2, triples=200))
    assert not full.tried, "rows of many triples have several senders"
    noisy = lone_rows.ATTACK.run(
        seen(
            data,
            "fpl",
            view="sum",
            cohort=15,
            rounds=5,
            triples=1,
            protect={"noise": 0.1, "rows": "all"},
        )
    )
    assert not noisy.tried and noisy.note.startswith("no lone row")
