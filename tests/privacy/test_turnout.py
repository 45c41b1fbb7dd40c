"""Devices that decide by themselves: whom a draw names, that answers end, and that nobody answers
where too few would.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.core.keys import key
from entrenous.data.synthetic import synthetic
from entrenous.federation.recorder import Recorder
from entrenous.federation.rounds import Rounds
from entrenous.federation.shard import Threads
from entrenous.privacy.protection import Protection, refuse_of_networks
from entrenous.privacy.turnout import Turnout
from entrenous.runs.recommenders import checkpoint_arrays, fitted, restore_training
from entrenous.runs.store import model_sha256
from entrenous.systems.fcf import FCF

DATA = synthetic(users=80, items=40, interactions=900, seed=0)
ROUNDS = key(3, "rounds")
BY_DEVICES = Protection(
    sampling="poisson", answers=3, people=14, secure_sum=True, noise=0.5, rows="all"
)


def federation(threads: int = 1, block: int = 0, recorder: Recorder | None = None) -> Rounds:
    own = FCF(factors=3, cohort=20)
    return Rounds(
        own,
        DATA,
        seed=3,
        executor=Threads(threads),
        block=block,
        protection=BY_DEVICES,
        recorder=recorder,
    )


def test_a_draw_of_a_device_depends_on_no_other_device() -> None:
    many = Turnout(500, 0.2, 0, 0)
    few = Turnout(100, 0.2, 0, 0)
    for number in range(10):
        users = many.of(ROUNDS, number)
        assert np.array_equal(users[users < 100], few.of(ROUNDS, number))


def test_answers_end_and_are_found_out_from_the_draws_in_any_order() -> None:
    turnout = Turnout(200, 0.3, 40, 4)
    forwards = [turnout.of(ROUNDS, number) for number in range(25)]
    answered = np.zeros(200, np.int64)
    for users in forwards:
        if len(users) >= 40:
            answered[users] += 1
    assert answered.max() == 4 and len(forwards[-1]) < 40 < len(forwards[0])
    for number in (24, 3, 17, 3):
        assert np.array_equal(turnout.of(ROUNDS, number), forwards[number])
        assert np.array_equal(Turnout(200, 0.3, 40, 4).of(ROUNDS, number), forwards[number])
    # Another seed between does not confuse it.
    turnout.of(key(4, "rounds"), 9)
    assert np.array_equal(turnout.of(ROUNDS, 24), forwards[24])


def test_a_round_of_too_few_spends_nothing() -> None:
    never = Turnout(200, 0.3, 201, 1)
    assert np.array_equal(never.of(ROUNDS, 9), Turnout(200, 0.3, 0, 0).of(ROUNDS, 9))


def test_a_sum_of_too_few_is_not_opened_and_the_ledger_says_so() -> None:
    recorder = Recorder("individual")
    rounds = federation(recorder=recorder)
    training = rounds.start()
    for _ in range(20):
        before = training
        training = rounds.one_round(training)
        seen = len(recorder.rounds)
        if training.ledger.unopened > before.ledger.unopened:
            assert training.server is before.server
            assert training.ledger._replace(unopened=0) == before.ledger._replace(unopened=0)
            assert not recorder.rounds or recorder.rounds[-1].round < before.round
    sizes = [len(one.users) for one in recorder.rounds]
    assert min(sizes) >= 14 and len(set(sizes)) > 3
    assert training.ledger.unopened == 20 - seen and 0 < seen < 20


def test_the_same_bytes_on_any_threads_and_from_any_interruption() -> None:
    models = []
    for threads, block in ((1, 0), (2, 0), (8, 3)):
        rounds = federation(threads=threads, block=block)
        training = rounds.advance(rounds.start(), 14)
        models.append(model_sha256(fitted(rounds, training).arrays))
    begun = federation()
    arrays = checkpoint_arrays(begun.advance(begun.start(), 6))
    kept = {name: array.copy() for name, array in arrays.items()}
    resumed = federation()
    standing: Any = restore_training(resumed, 6, kept)
    training = resumed.advance(standing, 14)
    models.append(model_sha256(fitted(resumed, training).arrays))
    assert len(set(models)) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"answers": 3}, "answers together with sampling=poisson"),
        ({"sampling": "poisson", "noise": 1, "rows": "all"}, "people above 1, or noise_by=server"),
        (
            {
                "sampling": "poisson",
                "epsilon": 8,
                "clip": 1,
                "noise_by": "server",
                "noise_from": "system",
                "people": 5,
            },
            "epsilon with people=1",
        ),
    ],
)
def test_settings_that_contradict_each_other_get_one_line(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said) as refused:
        Protection.parse(settings)
    assert "\n" not in str(refused.value)


def test_a_floor_that_no_round_reaches_is_refused_before_anything_is_trained() -> None:
    above = BY_DEVICES.model_copy(update={"people": 21, "secure_sum": False})
    with pytest.raises(InputError, match="at least 21 in a sum"):
        Rounds(FCF(factors=3, cohort=20), DATA, protection=above)


def test_a_simulation_counts_no_answers_of_draws_that_it_cannot_have_again() -> None:
    """Across a network each device counts for itself, and may draw as it likes."""
    asked = {"answers": 3, "sampling": "poisson", "noise_from": "system"}
    networked = Protection.parse(asked, "--protect")
    with pytest.raises(InputError, match="draws of the operating system") as refused:
        refuse_of_networks(networked)
    assert "\n" not in str(refused.value)
