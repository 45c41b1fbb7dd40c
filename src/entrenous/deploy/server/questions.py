"""The questions that secure sums put to their nodes, of one sum or of several at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import NamedTuple, TypeAlias, final

from ...core.contract.update import Total
from ..frames.frames import FrameParts, FrameRefused, claimed_node
from .exchange import Exchange, SentRequest


class Question(NamedTuple):
    """A request to some nodes, which goes to each until all have answered or the time is up."""

    missing: Callable[[], Collection[str]]
    """The names of the nodes that have not answered yet."""
    request: Callable[[str], FrameParts]
    """Makes the frame for a node."""
    take: Callable[[Sequence[bytes]], None]
    """Handles answers that came together."""
    seconds: float
    """The time for it."""


Questions: TypeAlias = Generator[Question | float, None, Total]
"""The questions of a sum, one after the other, and pauses between them in seconds. Returns the
sum."""


def answered(questions: Questions, exchange: Exchange) -> Total:
    """Puts the questions of one sum. Returns the sum. Raises ServerStopped."""
    with closing(questions):
        while True:
            try:
                question = next(questions)
            except StopIteration as end:
                total: Total = end.value
                return total
            if isinstance(question, float):
                exchange.pause(question)
            else:
                exchange.gather(*question)


@final
class NamesOfAny(Collection[str]):
    """The names in any of some collections, none of which are in two. Nothing is copied: there may
    be a hundred thousand.
    """

    def __init__(self, several: Sequence[Collection[str]]) -> None:
        self._several = several

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._several)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._several)

    def __len__(self) -> int:
        return sum(len(names) for names in self._several)


@final
class SumsAtOnce:
    """Several sums, whose nodes are asked at the same time. No node is in two.

    several: the questions of each sum, and the names of its nodes, by the number of the sum.
    """

    def __init__(
        self, several: Mapping[int, tuple[Questions, Collection[str]]], exchange: Exchange
    ) -> None:
        self._exchange = exchange
        self._questions = {number: questions for number, (questions, _) in several.items()}
        self._names = {number: names for number, (_, names) in several.items()}
        self._sum_of = {name: number for number, names in self._names.items() for name in names}
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
        asking = {number: one for number, one in self._asking.items() if one is not None}
        soonest = min((self._until[number] for number in self._asking), default=0.0)
        seconds = max(0.0, soonest - time.monotonic())
        if asking:
            self._exchange.gather(self._missing, self._request, self._take, seconds, self._sent)
        elif self._asking:
            self._exchange.pause(seconds)

    def _missing(self) -> Collection[str]:
        """Returns the nodes that have not answered; nobody as soon as one question is over."""
        left = [one.missing() for one in self._asking.values() if one is not None]
        if not all(left):
            return ()
        return NamesOfAny(left)

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
