"""A round in groups under masks: a sum for each, and, of groups that stay, a mean across them that
one lying group cannot drag.

A masked sum hides who lies in it, so one false vector moves the sum of everybody as far as it
likes. With sums of several groups the server sees which sum is far longer than the others', and
shortens it to the median length before it adds them: the clipped mean of Sun et al. 2019
(arXiv:1911.07963), over groups instead of users. A liar still chooses the direction in which its
whole group pushes, by as much as an honest group; liars in most groups are not bounded.

Groups by lot are dealt anew in each round, and make the sum that one group would have: their sums
are added as they are, without those in which too few took part.
"""

from __future__ import annotations

import time
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing
from itertools import chain
from typing import NamedTuple, final

import numpy as np

from ...core.contract.declared import Contract
from ...core.contract.update import Total
from ...core.types import Float64Array, Int64Array
from ..agreement.groups import groups_of_round
from ..frames.contribution import add
from ..frames.frames import FrameParts, FrameRefused, claimed_node
from ..frames.request import RoundWork
from ..frames.row_tests import without_tests
from .exchange import Exchange, Question, Questions, SentRequest
from .server_folder import LogLine, ServerFolder
from .watch import length

LONG = 3.0  # times the median length, from which on a group's sum is logged


class GroupSum(NamedTuple):
    """The secure sum of one group of nodes."""

    group: int
    """The number of the group, from 0."""
    total: Total
    """The sum, which has no devices where the group gave none."""
    begun: bool
    """True if any node was asked. A group of too few people is not."""
    names: frozenset[str] = frozenset()
    """The nodes whose sum it is."""


class GroupedSum(NamedTuple):
    """The sum of all groups of a round."""

    total: Total
    """The sum, which has no devices where too few groups gave theirs."""
    begun: bool
    """True if any node of any group was asked."""
    tests: Float64Array
    """What the sums say of tests of new rows, `row_tests.NUMBERS`; 0 where there are none."""


class GroupWork(NamedTuple):
    """The work that a round asks of one group."""

    work: RoundWork
    """The work of the round, of which the nodes of this group alone are asked."""
    of_group: frozenset[str]
    """All nodes that are or were in the group, or of groups by lot those that are now; nobody where
    everybody is one group."""


# Makes the sums of some groups, by their numbers. A group that stays is asked when the sum of one
# before it was taken, so that whoever stops taking them stops the asking; groups by lot are asked
# together.
Sums = Callable[[Mapping[int, GroupWork]], Generator[GroupSum, None, None]]


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
    """Returns the sum of the sums of all groups, each shortened if it is too long.

    A group that gives no sum is left out. With half of the groups or fewer there is none: liars in
    one group could be in most of those that are left. By lot any group's sum counts, as it is.
    """
    by_lot = folder.terms.by_lot
    works = works_of_groups(folder, work)
    groups = folder.terms.protection.groups
    begun = False
    totals: dict[int, Total] = {}
    left = len(works)
    with closing(sums(works)) as coming:
        # Asking ends where too few groups could give their sums.
        while left and (by_lot or 2 * (len(totals) + left) > groups):
            summed = next(coming)
            left -= 1
            begun = begun or summed.begun
            if summed.total.devices:
                totals[summed.group] = summed.total
    whole, tests = without_tests(contract.empty_total())
    # Before a sum is shortened, which would take hits from it.
    for number, total in totals.items():
        totals[number], told = without_tests(total)
        tests += told
    if groups == 1:
        return GroupedSum(totals.get(0, whole), begun, tests)
    _tell_missing(folder, work, totals.keys(), groups)
    if by_lot:
        for number in sorted(totals):
            whole = add(whole, totals[number])
        return GroupedSum(whole, begun, tests)
    if 2 * len(totals) <= groups:
        return GroupedSum(whole, begun, tests)
    # Sums come in any order, and shortened ones are added by the numbers of their groups.
    numbers = sorted(totals)
    longer = times_the_median([totals[number] for number in numbers])
    for number, times in zip(numbers, longer, strict=True):
        _tell_long(folder, work, number, len(works[number].work.asked), times)
        whole = add(whole, shortened(totals[number], times))
    return GroupedSum(whole, begun, tests)


def times_the_median(sums: Sequence[Total]) -> list[float]:
    """Returns how many times as long each sum is as the median one, a device."""
    lengths = [length(total) for total in sums]
    # The lower one of two in the middle, of which the other may be a liar's.
    median = sorted(lengths)[(len(lengths) - 1) // 2]
    if not median:
        return [float(np.inf) if size else 1.0 for size in lengths]
    return [size / median for size in lengths]


def shortened(total: Total, times: float) -> Total:
    """Returns a sum that is `times` as long as it may be, shortened to that in steps of the fixed
    point; the sum itself where it is no longer. Its devices, senders and weight stay.
    """
    if times <= 1:
        return total
    rows = {name: _divided(array, times) for name, array in total.rows.items()}
    dense = {name: _divided(array, times) for name, array in total.dense.items()}
    return total._replace(rows=rows, dense=dense)


def _divided(array: Int64Array, times: float) -> Int64Array:
    return np.rint(array.astype(np.float64) / times).astype(np.int64)


def _tell_missing(
    folder: ServerFolder, work: RoundWork, summed: Iterable[int], groups: int
) -> None:
    """Logs which groups gave no sum."""
    missing = sorted(set(range(groups)).difference(summed))
    if missing:
        names = ", ".join(str(number + 1) for number in missing)
        line = (
            f"round {work.round}: {groups - len(missing)} of {groups} groups; without group {names}"
        )
        folder.log(LogLine(line, "groups", level="warning", round=work.round))


def _tell_long(
    folder: ServerFolder, work: RoundWork, number: int, nodes: int, times: float
) -> None:
    """Logs a sum that was much longer than the median one. It does not say which node lies."""
    if times > LONG:
        line = (
            f"round {work.round}: the sum of group {number + 1} is {times:.3g} times as long as the"
            f" median group's, and is shortened to it; one of its {nodes} nodes may lie"
        )
        folder.log(LogLine(line, "long", level="warning", round=work.round))


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
