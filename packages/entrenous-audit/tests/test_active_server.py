"""What a server finds that shows devices one model again and again, chooses whom it asks, or hopes
for a clip.
"""

from __future__ import annotations

from typing import Any

import pytest
from entrenous_audit.attacks import gradient, replay
from onlooker import movielens, observe, right, seen

from entrenous.core.errors import InputError
from entrenous.data.synthetic import synthetic

SMALL: Any = {"factors": 4}


@pytest.fixture(scope="module")
def small() -> Any:
    return synthetic(users=40, items=120, interactions=800, seed=0)


def test_one_model_shown_to_changing_cohorts_of_chosen_users_gives_each_of_them(small: Any) -> None:
    asked: Any = {"view": "sum", "cohort": 10, "chosen": 20, "settings": SMALL}
    active = observe("fcf", small, rounds=30, replayed=True, **asked)
    users = {user for one in active.rounds for user in one.users.tolist()}
    assert (
        len(users) == 20 == active.about["chosen"]
        and len({one.received["y"].tobytes() for one in active.rounds}) == 1
    )
    found = right(replay.ATTACK.run(active), small)
    assert found.precision > 0.99 and found.recall > 0.99
    passive = observe("fcf", small, rounds=30, **asked)
    assert replay.ATTACK.run(passive).claimed is None


def test_masked_devices_answer_a_model_once(small: Any) -> None:
    for wrong in (
        {"replayed": True, "protect": {"secure_sum": True}},
        {"chosen": 5},
        {"chosen": 41},
    ):
        with pytest.raises(InputError):
            observe("fcf", small, view="sum", cohort=10, settings=SMALL, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="view"):
        observe("fcf", small, view="model", replayed=True, settings=SMALL)


def test_a_clip_of_whole_messages_hides_no_gradient() -> None:
    found = right(
        gradient.ATTACK.run(seen(movielens(), "fcf", factors=8, protect={"clip": 1})), movielens()
    )
    assert found.precision > 0.99 and found.recall > 0.99
