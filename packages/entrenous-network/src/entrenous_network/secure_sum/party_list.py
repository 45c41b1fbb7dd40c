"""The list of the people whose answers are in one sum, and the rule by which a device answers.

Two sums over nearly the same people differ by what the others sent, so that a server which leaves
somebody out chooses whom to see. Each party of a sum is one person's device, and all of them sign
one list of the parties. The device holds it against the lists that it has consented to, which it
keeps for ever, and against what its owner demands. The rule is `refusal`; docs/participation.md
says what each part prevents, and what it rests on.

Why the device's own memory is enough: a sum comes out only under a list that a quorum of its
parties has signed, and each of them remembers it. A round that was lost before this device signed a
list is not remembered.

Not covered: combinations of three and more different sums, and the regression of many random
cohorts on who took part (Lam et al. 2021): against these there is noise on every sum.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

CLOSE = 0.1  # of the people of a floor: two lists that differ by no more are close
OF_ONE_SHOP = 10  # one of so many people of a sum may be of one shop
DAY = 86_400.0  # seconds

Refusal: TypeAlias = Literal[
    "many",  # so large a share of the members that two lists by lot could be close
    "population",  # fewer members than people
    "shop",  # so many bear one shop's mark that it could subtract them
    "again",  # this model was answered with other people
    "close",  # an earlier list differs from this one by a few people
    "spent",  # no answers are left
]


class PartyList(NamedTuple):
    """The people whose answers are in one sum."""

    model: bytes
    """The sha256 of the model that their devices trained from."""
    people: tuple[str, ...]
    """Their names in order, each once: the roster of a sum has them so."""


class Demands(NamedTuple):
    """The demands of the owner of a device, which no message lowers."""

    people: int = 250
    """In a sum, at least."""
    answers: int = 11
    """Sums that it answers in and that count: all, or those of so many days."""
    share: float = 0.5
    """Of the members that are in a sum, at most. Of two lists by lot a member is on both with the
    square of it."""


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


def sums_of(past: Iterable[PartyList], people: Sequence[str]) -> int:
    """The number of earlier sums of the very same people."""
    return sum(before.people == people for before in past)


def difference(one: PartyList, other: PartyList) -> int:
    """The number of people who are on one of two lists alone."""
    return len(set(one.people) ^ set(other.people))


def within_shares(
    people: Collection[str], shops: Mapping[str, bytes], of: int, seed: bytes = b""
) -> set[str]:
    """Returns those of some people who may be in a sum of `of` people: of one shop at most a tenth.
    Everybody who has the seed draws the same.

    shops: the mark of each who bears one.
    """
    most = max(1, of // OF_ONE_SHOP)
    places = Counter[bytes]()
    within = set()
    for name in sorted(people, key=lambda name: hashlib.sha256(seed + name.encode()).digest()):
        # A person who bears no mark is alone.
        mark = shops.get(name) or name.encode()
        places[mark] += 1
        if places[mark] <= most:
            within.add(name)
    return within


def refusal(
    listed: PartyList,
    members: int,
    answered: Sequence[PartyList],
    demands: Demands,
    old: int = 0,
    shops: Mapping[str, bytes] = {},
) -> Refusal | None:
    """Returns the reason why a device does not answer in a sum; None = it answers, and keeps the
    list.

    members: of the federation, by which devices draw whether they take part. answered: the lists
    that the device has answered, and keeps. A list that it answered is answered again with the same
    bytes, or not at all: that is no new answer. old: how many of the answers count no more, whose
    lists are held against a new one all the same. shops: as of `within_shares`.
    """
    people = len(listed.people)
    if members < people:
        return "population"
    if people > demands.share * members:
        return "many"
    if len(within_shares(listed.people, shops, people)) < people:
        return "shop"
    if listed in answered:
        return None
    if listed.model in {before.model for before in answered}:
        return "again"
    if len(answered) - old >= demands.answers:
        return "spent"
    # No close list at all: lots hardly ever draw two, and then the noise need not hide one person.
    few = CLOSE * demands.people
    if any(0 < difference(listed, before) <= few for before in answered):
        return "close"
    return None
