"""The rule by which a device answers in a sum: what a hostile server may say, and what an honest
training of devices that decide by themselves looks like to each of them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from entrenous_network.secure_sum.party_list import (
    DAY,
    AnswerBudget,
    Demands,
    PartyList,
    Refusal,
    refusal,
)

DEMANDS = Demands(people=20, answers=3)


def names(low: int, high: int) -> tuple[str, ...]:
    return tuple(f"u{number:02d}" for number in range(low, high))


def listed(model: int, people: tuple[str, ...]) -> PartyList:
    return PartyList(bytes([model]) * 32, ("me", *people))


FIRST = listed(1, names(0, 24))
SECOND = listed(2, names(24, 50))
THIRD = listed(3, names(50, 76))
ALL = (FIRST, SECOND, THIRD)
ONE_LESS = FIRST.people[1:-1]


@pytest.mark.parametrize(
    ("new", "answered", "old", "why"),
    [
        (FIRST, (), 0, None),
        (SECOND, (FIRST,), 0, None),
        # The same answer again, and one that was given already: no new answers.
        (FIRST, (FIRST,), 0, None),
        (THIRD, ALL, 0, None),
        (listed(2, names(0, 100)), (), 0, "population"),
        (listed(2, names(0, 50)), (), 0, "many"),
        (listed(1, names(24, 50)), (FIRST,), 0, "again"),
        (listed(4, names(0, 40)), ALL, 0, "spent"),
        # The very same people are no difference that shows anybody; one person less is.
        (FIRST._replace(model=bytes(32)), (FIRST,), 0, None),
        (listed(2, ONE_LESS), (FIRST,), 0, "close"),
        # Of answers that count no more the lists are remembered for ever.
        (listed(4, names(0, 40)), ALL, 1, None),
        (listed(1, ONE_LESS), ALL, 3, "again"),
        (listed(4, ONE_LESS), ALL, 3, "close"),
    ],
)
def test_a_device_answers_only_what_its_owner_allows(
    new: PartyList, answered: tuple[PartyList, ...], old: int, why: Refusal | None
) -> None:
    assert refusal(new, 100, answered, DEMANDS, old) == why


@pytest.mark.parametrize(("marked", "why"), [(249, "shop"), (26, "shop"), (25, None), (0, None)])
def test_a_tenth_of_a_sum_is_of_one_shop_at_most(marked: int, why: Refusal | None) -> None:
    people = names(100, 350)
    shops = dict.fromkeys(people[:marked], "5e" * 32)
    asked = PartyList(bytes(32), people)
    assert refusal(asked, 1000, (), Demands(), 0, shops) == why
    # Of two shops each may have its share.
    others = dict.fromkeys(people[-25:], "5f" * 32)
    assert refusal(asked, 1000, (), Demands(), 0, {**shops, **others}) == why


# ---- answers that come free with time ------------------------------------------------------------


def answering_whenever_it_may(days: int, most: int, moments: list[float]) -> list[float]:
    """The moments at which a device answers, of those at which it is asked."""
    budget = AnswerBudget(most, days, 0)
    answered = []
    for now in moments:
        free = budget.free_at() <= now
        assert free == (budget.recent(now) < most)
        if free:
            times = budget.times_with(now)
            budget = budget._replace(given=budget.given + 1, times=times)
            answered.append(now)
    return answered


def test_no_window_of_so_many_days_has_more_answers_and_the_next_comes_as_soon_as_it_may() -> None:
    drawn = np.random.default_rng(4)
    moments = np.cumsum(drawn.exponential(DAY, 1000)).tolist()
    answered = np.array(answering_whenever_it_may(30, 3, moments))
    assert np.all(answered[3:] - answered[:-3] >= 30 * DAY)
    assert len(answered) > 90
    # Nobody is refused who had an answer left.
    for now in set(moments) - set(answered.tolist()):
        assert np.sum((answered < now) & (answered + 30 * DAY > now)) == 3


def test_a_clock_that_was_set_back_renews_nothing() -> None:
    """Neither while it is wrong, nor when it is right again."""
    budget = AnswerBudget(2, 30, 1, (100 * DAY,))
    back = 40 * DAY
    assert budget.recent(back) == 1
    budget = budget._replace(given=2, times=budget.times_with(back))
    assert budget.recent(back) == 2 and budget.free_at() > back
    assert budget.recent(101 * DAY) == 2
    assert budget.free_at() == 130 * DAY


@pytest.mark.parametrize("days", [0, 30])
def test_answers_without_a_time_count_for_ever(days: int) -> None:
    budget = AnswerBudget(3, days, 3)
    assert budget.free_at() == math.inf and budget.recent(1e12) == 3
    # Those that came afterwards come free.
    later = AnswerBudget(3, 30, 4, (5.0, 6.0))
    assert later.recent(1e12) == 2 and later.free_at() == 6.0 + 30 * DAY
    assert AnswerBudget(2, 30, 4, (5.0, 6.0)).free_at() == math.inf


def test_a_budget_is_told_in_words() -> None:
    spent = AnswerBudget(2, 30, 4, (0.0, 100 * DAY, 101 * DAY))
    said = "at most 2 answers in any 30 days; so far 3 in these, 4 in all"
    assert spent.told(90 * DAY) == f"{said}; the next comes free on 1970-05-12 00:00 UTC"
    assert "so far 2 in these" in spent._replace(given=3).told(102 * DAY)
    assert spent._replace(most=6, days=1).told(0) == (
        "at most 6 answers in any 24 hours; so far 4 in these, 4 in all"
    )
