"""The list of the people whose answers are in one sum, and the rule by which a device answers.

A server names the people of a sum before anybody answers. All of them sign the hash of one list, so
that nobody is told something else; the device of each holds the list against those that it has
answered, and against what its owner demands. What it then says no to cannot be opened without it.
The rule is `refusal`; docs/participation.md says what each part prevents, and what it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

CLOSE = 0.1  # of the people of a floor: two lists that differ by no more are close
DAY = 86_400.0  # seconds
SHRUNK = 0.8  # of the most members that were claimed: fewer are not believed

Refusal: TypeAlias = Literal[
    "repeats",  # somebody is on the list twice, so that there are fewer than it says
    "absent",  # this device is not on the list
    "few",  # fewer people than the floor
    "many",  # so large a share of the members that two lists by lot could be close
    "population",  # fewer members than people, or far fewer than were claimed before
    "again",  # this model was answered with other people
    "close",  # too many lists that differ from this one by a few people
    "spent",  # no answers are left
]


class PartyList(NamedTuple):
    """The people whose answers are to be in one sum."""

    round: int
    model: bytes
    """The sha256 of the download that they answer."""
    population: int
    """The members of the federation, by which devices draw whether they take part."""
    people: tuple[str, ...]
    """Their names, as they are enrolled, in any order."""

    def in_order(self) -> PartyList:
        """Returns the same list with the names in order."""
        return self._replace(people=tuple(sorted(self.people)))


class Demands(NamedTuple):
    """The demands of the owner of a device, which no message lowers."""

    people: int = 250
    """In a sum, at least."""
    answers: int = 11
    """Sums that it answers in and that count: all, or those of so many days."""
    share: float = 0.5
    """Of the members that are in a sum, at most. Of two lists by lot a member is on both with the
    square of it."""
    close: int = 1
    """Earlier lists that may be close to a new one: `close_lists`."""


def in_days(days: int) -> str:
    """Returns the end of "at most so many answers". days: in which they are counted; 0 = each
    counts for ever.

    >>> in_days(30), in_days(0)
    (' in any 30 days', '')
    """
    if not days:
        return ""
    return " in any 24 hours" if days == 1 else f" in any {days} days"


class AnswerBudget(NamedTuple):
    """The answers of a device: how many it may give, and when it gave them."""

    most: int
    """Answers that may count at a time."""
    days: int
    """After which an answer counts no more; 0 = it counts for ever."""
    given: int
    """Answers in all."""
    times: tuple[float, ...] = ()
    """Of the newest answers, ascending: seconds since 1970 by the device's own clock. Those before
    them have no time, and count for ever."""

    def recent(self, now: float) -> int:
        """Returns the answers that count at a time. Those that lie in its future do: then the clock
        was set back.
        """
        old = [time for time in self.times if time + self._window <= now]
        return self.given - len(old)

    def free_at(self) -> float:
        """Returns when an answer is left, in seconds since 1970; 0 = it was all the time,
        infinity = never.
        """
        over = self.given - self.most
        if over < 0:
            return 0.0
        if over >= len(self.times):
            return math.inf
        return self.times[over] + self._window

    def told(self, now: float) -> str:
        """Returns a clause on the answers that the device may give and gave, and on when the next
        one comes free, where none is left.
        """
        clause = f"at most {self.most} answers{in_days(self.days)}"
        clause += f"; so far {self.recent(now)} in these, {self.given} in all"
        free = self.free_at()
        if now < free < math.inf:
            day = datetime.fromtimestamp(free, UTC)
            clause += f"; the next comes free on {day:%Y-%m-%d %H:%M} UTC"
        return clause

    def times_with(self, now: float) -> tuple[float, ...]:
        """Returns the times with that of one answer more. It is never before the newest: of a clock
        that was set back, an answer would be old as soon as the clock is right again.
        """
        return (*self.times, max([now, *self.times]))

    @property
    def _window(self) -> float:
        """Seconds for which an answer counts."""
        return self.days * DAY or math.inf


def close_lists(noise: float, needed: float) -> int:
    """The number of pairs of close lists that the noise of a sum hides: D differences of one person
    average to noise / sqrt(D), which must not be below what one difference needs.

    noise, needed: standard deviations of a number of a sum; `needed` as measured by the view
        `difference` of an audit.

    >>> close_lists(2.0, 1.5), close_lists(0.3, 0.2), close_lists(1.0, 1.5)
    (1, 2, 0)
    """
    return math.floor((noise / needed) ** 2)


def difference(one: PartyList, other: PartyList) -> int:
    """The number of people who are on one of two lists alone, from their overlap."""
    mine = set(one.people)
    theirs = set(other.people)
    overlap = len(mine & theirs)
    return len(mine) + len(theirs) - 2 * overlap


def refusal(
    listed: PartyList,
    me: str,
    answered: Sequence[PartyList],
    demands: Demands,
    old: int = 0,
) -> Refusal | None:
    """Returns the reason why the device of `me` does not answer in a sum; None = it answers, and
    keeps the list.

    answered: the lists that it has answered, and keeps. A list that it answered is answered again
    with the same bytes, or not at all: that is no new answer. old: how many of the answers count
    no more, whose lists are held against a new one all the same.
    """
    people = listed.people
    if len(set(people)) < len(people):
        return "repeats"
    if me not in people:
        return "absent"
    if len(people) < demands.people:
        return "few"
    most = max([len(people), *(SHRUNK * before.population for before in answered)])
    if listed.population < most:
        return "population"
    if len(people) > demands.share * listed.population:
        return "many"
    if listed.in_order() in [before.in_order() for before in answered]:
        return None
    if listed.model in {before.model for before in answered}:
        return "again"
    if len(answered) - old >= demands.answers:
        return "spent"
    few = CLOSE * demands.people
    close = [before for before in answered if 0 < difference(listed, before) <= few]
    if len(close) > demands.close:
        return "close"
    return None
