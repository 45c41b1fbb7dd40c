"""A round in groups under masks. Groups are dealt anew in each round, and make the sum that one
group would have: their sums are added, without those in which too few took part. Each device holds
every list that it is on against the participation contract.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, final

import numpy as np

from entrenous.core.contract.declared import Contract
from entrenous.core.contract.update import Total
from entrenous.core.keys import key
from entrenous.core.types import Float64Array
from entrenous.privacy.turnout import groups_dealt

from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..frames.contribution import add
from ..frames.frames import FrameParts, FrameRefused, claimed_node
from ..frames.request import RoundWork
from ..frames.row_tests import without_tests
from .exchange import Exchange, Question, Questions, SentRequest
from .server_folder import LogLine, ServerFolder


class GroupSum(NamedTuple):
    """The secure sum of one group of nodes."""

    group: int
    """The number of the group, from 0."""
    total: Total
    """The sum, which has no devices where the group gave none."""
    begun: bool
    """True if any node was asked. A group of too few people is not."""
    names: frozenset[str]
    """The nodes whose sum it is."""
    liars: Mapping[str, str]
    """The nodes that have lied in it, by name, each with its lie in words."""


class GroupedSum(NamedTuple):
    """The sum of all groups of a round."""

    total: Total
    """The sum, which has no devices where no group gave its sum."""
    begun: bool
    """True if any node of any group was asked."""
    tests: Float64Array
    """What the sums say of tests of new rows, `row_tests.NUMBERS`; 0 where there are none."""
    names: frozenset[str]
    """The nodes whose sum it is."""
    liars: Mapping[str, str]
    """The nodes that have lied in any group, by name."""


class GroupWork(NamedTuple):
    """The work that a round asks of one group."""

    work: RoundWork
    """The work of the round, of which the nodes of this group alone are asked."""
    of_group: frozenset[str]
    """All members that are in the group now; nobody where everybody is one group."""


# Makes the sums of some groups, by their numbers, which are asked together.
Sums = Callable[[Mapping[int, GroupWork]], Generator[GroupSum, None, None]]


def groups_of_round(members: Members, terms: FederationTerms, number: int) -> list[frozenset[str]]:
    """Returns the members in each group of round `number`. Everybody can work it out, so that no
    server chooses who meets whom.
    """
    count = terms.protection.groups
    users = np.arange(members.users)
    group = groups_dealt(key(terms.seed, "rounds"), number, users, count)
    groups: list[set[str]] = [set() for _ in range(count)]
    for name, member in members.nodes.items():
        # Under masks a node is one user's.
        user = member.first
        groups[group[user]].add(name)
    return [frozenset(names) for names in groups]


def works_of_groups(folder: ServerFolder, work: RoundWork) -> dict[int, GroupWork]:
    """Returns the work of each group that is asked in a round, by the numbers of the groups."""
    count = folder.terms.protection.groups
    if count == 1:
        return {0: GroupWork(work, frozenset())}
    works = {}
    groups = groups_of_round(folder.members, folder.terms, work.round)
    for number, group in enumerate(groups):
        asked = {name: users for name, users in work.asked.items() if name in group}
        if asked:
            works[number] = GroupWork(work._replace(asked=asked), group)
    return works


def grouped_sum(
    folder: ServerFolder, contract: Contract, work: RoundWork, sums: Sums
) -> GroupedSum:
    """Returns the sum of the sums of all groups. A group that gives none is left out."""
    begun = False
    summed: set[int] = set()
    names = frozenset[str]()
    liars: dict[str, str] = {}
    whole, tests = without_tests(contract.empty_total())
    for one in sums(works_of_groups(folder, work)):
        begun = begun or one.begun
        liars |= one.liars
        if one.total.devices:
            total, told = without_tests(one.total)
            whole = add(whole, total)
            tests = tests + told
            names |= one.names
            summed.add(one.group)
    _tell_missing(folder, work, summed)
    return GroupedSum(whole, begun, tests, names, liars)


def _tell_missing(folder: ServerFolder, work: RoundWork, summed: Collection[int]) -> None:
    """Logs which of several groups gave no sum."""
    groups = folder.terms.protection.groups
    missing = sorted(set(range(groups)).difference(summed))
    if groups > 1 and missing:
        names = ", ".join(str(number + 1) for number in missing)
        line = (
            f"round {work.round}: {groups - len(missing)} of {groups} groups; without group {names}"
        )
        folder.log(LogLine(line, "groups", level="warning", round=work.round))


# ---- several sums at once ------------------------------------------------------------------------


@final
class NamesOfAny(Collection[str]):
    """The names in any of some numbered collections. Nothing is copied: there may be a hundred
    thousand.

    number_of: the number of the one collection that a name may be in.
    """

    def __init__(
        self, several: Mapping[int, Collection[str]], number_of: Mapping[str, int]
    ) -> None:
        self._several = several
        self._number_of = number_of

    def __contains__(self, name: object) -> bool:
        # One look: a round asks this some hundred times for each of thousands of names.
        number = self._number_of.get(str(name), -1)
        return name in self._several.get(number, ())

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._several.values())

    def __len__(self) -> int:
        return sum(len(names) for names in self._several.values())


@final
class SumsAtOnce:
    """Several sums, whose nodes are asked at the same time. No node is in two.

    several: the questions of each sum, and the names of its nodes, by the number of the sum.
    """

    def __init__(
        self, several: Mapping[int, tuple[Questions, Collection[str]]], exchange: Exchange
    ) -> None:
        self._exchange = exchange
        self._questions: dict[int, Questions] = {}
        self._names: dict[int, Collection[str]] = {}
        self._sum_of: dict[str, int] = {}
        for number, (questions, names) in several.items():
            self._questions[number] = questions
            self._names[number] = names
            self._sum_of.update(dict.fromkeys(names, number))
        # Of each sum that is not over: what it asks; None in a pause.
        self._asking: dict[int, Question | None] = {}
        # The monotonic second in which the time for that is up.
        self._until: dict[int, float] = {}
        self._sent: dict[str, SentRequest] = {}

    def totals(self) -> Iterator[tuple[int, Total]]:
        """Yields each sum, by its number, as soon as it is there. Raises ServerStopped."""
        try:
            for number in self._questions:
                yield from self._go_on(number)
            while self._asking:
                for number in self._over():
                    yield from self._go_on(number)
                self._gather()
        finally:
            for questions in self._questions.values():
                questions.close()

    def _go_on(self, number: int) -> Iterator[tuple[int, Total]]:
        """Takes the next question of a sum; yields the sum if there is none."""
        # Who answered the last question has a new one now.
        for name in self._names[number]:
            self._sent.pop(name, None)
        try:
            question = next(self._questions[number])
        except StopIteration as end:
            self._asking.pop(number, None)
            self._until.pop(number, None)
            yield number, end.value
            return
        if isinstance(question, float):
            self._asking[number] = None
            self._until[number] = time.monotonic() + question
        else:
            self._asking[number] = question
            self._until[number] = time.monotonic() + question.seconds

    def _over(self) -> list[int]:
        """Returns the sums whose question is answered, or whose time is up."""
        now = time.monotonic()
        over = []
        for number, question in self._asking.items():
            answered_all = question is not None and not question.missing()
            if answered_all or now >= self._until[number]:
                over.append(number)
        return over

    def _gather(self) -> None:
        """Asks the nodes of all sums, until the question of one of them is over."""
        soonest = min(self._until.values(), default=0.0)
        seconds = max(0.0, soonest - time.monotonic())
        # All may be in a pause.
        if any(self._asking.values()):
            self._exchange.gather(self._missing, self._request, self._take, seconds, self._sent)
        elif self._asking:
            self._exchange.pause(seconds)

    def _missing(self) -> Collection[str]:
        """Returns the nodes that have not answered; nobody as soon as one question is over."""
        left = {}
        for number, question in self._asking.items():
            if question is not None:
                left[number] = question.missing()
        if not all(left.values()):
            return ()
        return NamesOfAny(left, self._sum_of)

    def _request(self, name: str) -> FrameParts:
        question = self._asking[self._sum_of[name]]
        assert question is not None  # only nodes that are missing are asked
        return question.request(name)

    def _take(self, frames: Sequence[bytes]) -> None:
        """Hands each frame to the sum that its node is in."""
        of_sums: dict[int, list[bytes]] = {}
        for frame in frames:
            of_sums.setdefault(self._number_of(frame), []).append(frame)
        for number, some in of_sums.items():
            question = self._asking.get(number)
            if question is not None:
                question.take(some)

    def _number_of(self, frame: bytes) -> int:
        """Returns the number of the sum that a frame is about; of a frame of nobody that of any,
        which refuses and counts it.
        """
        anyone = next(number for number, one in self._asking.items() if one is not None)
        try:
            return self._sum_of.get(claimed_node(frame), anyone)
        except (FrameRefused, UnicodeDecodeError):
            return anyone
