"""Rounds around a server: seeds, cohorts, limits, callbacks, and what stops a round. That threads,
blocks and executors change no bit is in test_same_bytes.py and test_shard.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.contract.protocols import model_sha256
from entrenous.core.contract.update import Update
from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import key
from entrenous.core.types import UInt64Array
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds, Training
from entrenous.federation.shard import Debug, DeviceError
from entrenous.privacy.limit import Limit
from entrenous.runs.recommenders import fitted
from entrenous.runs.train import Periodic, advance
from entrenous.systems.fpl import FPL

ALGORITHMS = {
    "pfpl+": FPL(factors=6, triples=9),
    "fpl cohort": FPL(factors=7, triples=4, cohort=13, user_step="once"),
    "sfpl+": FPL(factors=3, triples=8, cohort=1, pi=0.5),
}


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic(users=50, items=80, interactions=700, skew=0.6, seed=3)


def digest(training: Training, rounds: Rounds) -> str:
    return model_sha256(fitted(rounds, training).arrays)


def test_another_seed_is_another_model(data: Interactions) -> None:
    found = set()
    for seed in (4, 5):
        rounds = Rounds(ALGORITHMS["pfpl+"], data, seed=seed)
        found.add(digest(rounds.advance(rounds.start(), 3), rounds))
    assert len(found) == 2


def test_one_device_rounds_are_the_ordinary_rounds(data: Interactions) -> None:
    """The compiled run of one-device rounds against one round at a time, over many rounds."""
    rounds = Rounds(ALGORITHMS["sfpl+"], data, seed=4)
    fast, slow = rounds.advance(rounds.start(), 400), rounds.start()
    for _ in range(400):
        slow = rounds.one_round(slow)
    assert digest(fast, rounds) == digest(slow, rounds) and fast.ledger == slow.ledger


def test_a_cohort_has_distinct_users_and_every_user_gets_a_turn(data: Interactions) -> None:
    fpl = FPL(factors=2, triples=1, cohort=10)
    chosen = [fpl.select(None, data.catalogue, key(0, "select", number)) for number in range(100)]
    assert all(len(np.unique(users)) == 10 and np.all(np.diff(users) > 0) for users in chosen)
    counts = np.bincount(np.concatenate(chosen), minlength=50)
    assert (
        ((counts - 20) ** 2 / 20).sum() * 49 / 40 < 85.4
    )  # chi-square with 49 degrees of freedom at p = .001, cohorts without replacement


def test_limits_are_applied_in_order_to_every_update(data: Interactions) -> None:
    def halve(update: Update, keys: UInt64Array) -> Update:
        return update._replace(rows={name: rows / 2 for name, rows in update.rows.items()})

    def largest(*before: Limit) -> list[float]:
        seen: list[float] = []

        def record(update: Update, keys: UInt64Array) -> Update:
            seen.append(float(np.abs(update.rows["b"]).max()))
            return update

        rounds = Rounds(ALGORITHMS["pfpl+"], data, limits=[*before, record], block=10)
        rounds.one_round(rounds.start())
        return seen

    whole = largest()
    assert len(whole) == 5  # 50 devices in blocks of ten
    assert largest(halve) == [value / 2 for value in whole]


def test_a_value_that_is_not_finite_stops_the_round_before_the_model_changes(
    data: Interactions,
) -> None:
    def poison(update: Update, keys: UInt64Array) -> Update:
        update.rows["q"][0, 0] = np.nan
        return update

    rounds = Rounds(ALGORITHMS["pfpl+"], data, limits=[poison])
    before = rounds.start()
    kept = [array.copy() for array in (*before.server, *before.devices)]
    with pytest.raises(NonFiniteError):
        rounds.one_round(before)
    assert all(
        np.array_equal(a, b) for a, b in zip(kept, (*before.server, *before.devices), strict=True)
    )


def test_the_debug_executor_names_round_stage_and_device(data: Interactions) -> None:
    def refuse(update: Update, keys: UInt64Array) -> Update:
        if (
            update.ptr[-1] and calls.append(1) is None and len(calls) == 60
        ):  # the 10th device of the second round
            raise ValueError("boom")
        return update

    calls: list[int] = []
    rounds = Rounds(
        ALGORITHMS["pfpl+"], data, executor=Debug(lambda user: f"user-{user}"), limits=[refuse]
    )
    with pytest.raises(
        DeviceError, match="round 1, stage local, device of user 'user-9': ValueError: boom"
    ):
        rounds.advance(rounds.start(), 3)


def test_callbacks_come_at_their_rounds_and_can_stop_the_training(data: Interactions) -> None:
    rounds, seen = Rounds(ALGORITHMS["pfpl+"], data), []

    def look(now: Training) -> bool:
        seen.append(now.round)
        return now.round >= 9

    done = advance(rounds, rounds.start(), 20, [Periodic(3, look)])
    assert seen == [3, 6, 9] and done.round == 9


def test_devices_that_are_not_selected_keep_their_state(data: Interactions) -> None:
    rounds = Rounds(ALGORITHMS["fpl cohort"], data, seed=4)
    before = rounds.start()
    old = before.devices.p.copy()
    chosen = rounds.algorithm.select(None, data.catalogue, np.uint64(0))
    after = rounds.one_round(before)
    moved = np.flatnonzero((after.devices.p != old).any(axis=1))
    assert len(moved) == 13 == len(chosen)
