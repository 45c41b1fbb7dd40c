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
    close_lists,
    difference,
    refusal,
)

DEMANDS = Demands(people=20, answers=3)


def names(low: int, high: int) -> tuple[str, ...]:
    return tuple(f"u{number}" for number in range(low, high))


def listed(
    number: int, people: tuple[str, ...], population: int = 100, model: int = 0
) -> PartyList:
    return PartyList(number, bytes([model or number]) * 32, population, people)


FIRST = listed(1, ("me", *names(0, 24)))
SECOND = listed(2, ("me", *names(24, 50)))
THIRD = listed(3, ("me", *names(50, 76)))


@pytest.mark.parametrize(
    ("new", "answered", "why"),
    [
        (FIRST, (), None),
        (SECOND, (FIRST,), None),
        (FIRST, (FIRST,), None),  # the same answer again
        (FIRST._replace(people=FIRST.people[::-1]), (FIRST,), None),
        (listed(2, ("me", *names(0, 23), "u0")), (), "repeats"),
        (listed(2, ("me", "me", *names(0, 24))), (), "repeats"),
        (listed(2, names(0, 25)), (), "absent"),
        (listed(2, ()), (), "absent"),
        (listed(2, ("me", *names(0, 18))), (), "few"),
        (listed(2, ("me", *names(0, 24)), population=20), (), "population"),
        (listed(2, ("me", *names(24, 48)), population=79), (FIRST,), "population"),
        (listed(2, ("me", *names(24, 48)), population=80), (FIRST,), None),
        (listed(2, ("me", *names(0, 50))), (), "many"),
        (listed(2, ("me", *names(24, 50)), model=1), (FIRST,), "again"),
        (listed(4, ("me", *names(0, 40))), (FIRST, SECOND, THIRD), "spent"),
        (THIRD, (FIRST, SECOND, THIRD), None),  # answered already: no new answer
    ],
)
def test_a_device_answers_only_what_its_owner_allows(
    new: PartyList, answered: tuple[PartyList, ...], why: Refusal | None
) -> None:
    assert refusal(new, "me", answered, DEMANDS) == why


def too_near(before: PartyList, new: PartyList) -> bool:
    """Whether the memory of sums that devices had beside the contract refused a second sum of one
    person a device: of one model, of other people."""
    return before.model == new.model and set(before.people) != set(new.people)


def test_what_a_memory_of_sums_beside_the_contract_refused_the_contract_refuses() -> None:
    """The argument by which that memory could leave: no list that it refused is answered, whatever
    else a device demands, however many close lists it takes, and though an answer counts no more.
    """
    drawn = np.random.default_rng(7)
    demands = Demands(people=2, answers=50, share=1.0, close=50)
    refused = 0
    for _ in range(300):
        answered: list[PartyList] = []
        for number in range(8):
            others = drawn.choice(12, drawn.integers(2, 6), replace=False)
            people = ("me", *(f"u{other}" for other in others))
            new = listed(number, people, model=int(drawn.integers(1, 4)))
            old = int(drawn.integers(0, len(answered) + 1))
            why = refusal(new, "me", answered, demands, old)
            if any(too_near(before, new) for before in answered):
                refused += 1
                assert why == "again"
            if why is None:
                answered.append(new)
    assert refused > 300


def test_of_answers_that_count_no_more_the_lists_are_remembered_for_ever() -> None:
    all_given = (FIRST, SECOND, THIRD)
    new = listed(4, ("me", *names(0, 40)))
    assert refusal(new, "me", all_given, DEMANDS, old=1) is None
    exchanged = FIRST.people[:-1]
    assert refusal(listed(4, exchanged, model=1), "me", all_given, DEMANDS, old=3) == "again"
    strict = DEMANDS._replace(close=0)
    assert refusal(listed(4, exchanged), "me", all_given, strict, old=3) == "close"
    assert refusal(new._replace(population=79), "me", all_given, DEMANDS, old=3) == "population"


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


def test_lists_that_differ_by_one_person_are_answered_as_often_as_noise_hides_them() -> None:
    without = listed(2, FIRST.people[:-1])
    joined = listed(3, (*FIRST.people, "late"))
    assert difference(FIRST, without) == 1 and difference(without, joined) == 2
    assert refusal(without, "me", (FIRST,), DEMANDS) is None
    assert refusal(joined, "me", (FIRST, without), DEMANDS) == "close"
    assert refusal(without, "me", (FIRST,), DEMANDS._replace(close=0)) == "close"
    # The very same people are no difference that shows anybody.
    assert refusal(listed(2, FIRST.people), "me", (FIRST,), DEMANDS._replace(close=0)) is None
    assert close_lists(2.0, 1.5) == 1 and close_lists(0.3, 0.5) == 0
