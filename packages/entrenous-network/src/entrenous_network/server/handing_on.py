"""A model handed to nodes: to those who are there when it is given, and to those who come later,
between two rounds. Who has joined, or was away, has the newest model that was given in seconds,
however far apart rounds are.

Under masks a node keeps a model if enough members have signed that they have the same
(`frames/agreed_model.py`). Their words stay true, so the server repeats them, and nobody else is
asked again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, final

import numpy as np

from entrenous.core.contract.protocols import FederatedAlgorithm, State
from entrenous.core.errors import EntrenousError
from entrenous.runs import store
from entrenous.runs.recommenders import restore_state

from ..frames.agreed_model import AGREED, KEPT, TAKEN, word_head
from ..frames.frames import Code, Frame, FrameParts, FrameRefused, opened, reason
from ..frames.request import Requests, RoundWork
from .exchange import POLL, Exchange, SentRequest
from .server_folder import server_arrays

GIVEN = "given.safetensors"
MOMENT = 2.0  # seconds for nodes that were never asked, before a round
REFUSALS = 2  # of one node, after which it is not asked again
NAMES = "have"
WORDS = "words"
NUMBERS = ("round", "counted", "items")  # the first fields of a `GivenModel`


class GivenModel(NamedTuple):
    """A model that was given to the nodes that were there."""

    round: int
    """The number of rounds after which it is the model."""
    counted: int
    """The rounds that count in it."""
    items: int
    """The items that it has rows of."""
    state: State
    """The server's state."""
    words: bytes
    """The words of the nodes that took it (`agreed_model.written`); b"" where none are asked
    for."""
    have: frozenset[str]
    """The nodes that keep it."""

    def write(self, folder: Path, run: str) -> None:
        """Stores it in a server's folder. Raises OSError."""
        arrays = server_arrays(self.state)
        arrays[WORDS] = np.frombuffer(self.words, np.uint8)
        arrays[NAMES] = np.frombuffer("\n".join(sorted(self.have)).encode(), np.uint8)
        about = {name: str(number) for name, number in zip(NUMBERS, self[:3], strict=True)}
        store.write_arrays(folder / GIVEN, arrays, run=run, **about)

    @classmethod
    def read(cls, folder: Path, run: str, algorithm: FederatedAlgorithm) -> Self | None:
        """Returns the one in a server's folder; None if there is none that can be read: the model
        is given anew then.
        """
        with suppress(EntrenousError, KeyError, ValueError):
            arrays, about = store.read_arrays(folder / GIVEN)
            if about["run"] != run:
                return None
            words = arrays.pop(WORDS).tobytes()
            names = arrays.pop(NAMES).tobytes().decode()
            state = restore_state(algorithm, "holds", "server", arrays)
            have = frozenset(names.split("\n") if names else ())
            number, counted, items = (int(about[name]) for name in NUMBERS)
            return cls(number, counted, items, state, words, have)
        return None


class Handed(NamedTuple):
    """A model that is handed on, and who has it so far."""

    have: Collection[str]
    """The nodes that keep it."""
    words: Mapping[str, bytes]
    """Under masks the words of the nodes that took it, before those of enough are there."""
    over: bool
    """True if no node is there that lacks it, or it is not known yet who is there."""


@final
class HandingOn:
    """The handing of one model to nodes that lack it. kept: the names of the nodes that have it.
    words: of the nodes that took it, as in `GivenModel`; b"" until they are there.

    identified: returns the node that signed a frame, or raises FrameRefused. late: takes a frame
    that is no answer to this.
    """

    def __init__(
        self,
        work: RoundWork,
        requests: Requests,
        identified: Callable[[Frame], str],
        late: Callable[[bytes], object],
    ) -> None:
        self.work = work
        self.words = b""
        self.kept = set[str]()
        self._requests = requests
        self._identified = identified
        self._late = late
        # The words of nodes that have it, and not yet the words of the others.
        self._took: dict[str, bytes] = {}
        self._refusals: Counter[str] = Counter()  # by node
        self._asked = set[str]()
        self._sent: dict[str, SentRequest] = {}

    def go_on(self, exchange: Exchange, seconds: float) -> None:
        """Hands the model to nodes that lack it as they come, for some seconds. Raises
        ServerStopped.
        """
        missing = partial(self._missing, exchange)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if missing():
                exchange.gather(missing, self._request, self.take, left, self._sent)
            else:
                exchange.rest(min(left, POLL), self.take)

    def at_once(self, exchange: Exchange) -> None:
        """Hands the model to nodes that are there and were never asked, before a round that
        nobody waits for.
        """
        fresh = self._missing(exchange) - self._asked

        def missing() -> set[str]:
            return fresh & self._missing(exchange)

        exchange.gather(missing, self._request, self.take, MOMENT, self._sent)
        self._asked |= fresh

    def handed(self, exchange: Exchange) -> Handed:
        """Returns what has become of the model so far."""
        words = {} if self.words else self._took
        over = exchange.knows_who_is_there and not self._missing(exchange)
        return Handed(self.kept, words, over)

    def _missing(self, exchange: Exchange) -> set[str]:
        """Returns the nodes that are there, and lack the model or the words that there are."""
        lacking = (self.work.asked.keys() & set(exchange.present)) - self.kept
        if not self.words:
            lacking -= self._took.keys()
        return {name for name in lacking if self._refusals[name] < REFUSALS}

    def _request(self, name: str) -> FrameParts:
        """Makes the next frame for a node: the model, then the words of the others."""
        self._asked.add(name)
        work = self.work
        if name not in self._took:
            return self._requests.model(work, work.asked[name])
        return self._requests.seal(AGREED, self.words, round=work.round, model=work.model)

    def take(self, frames: Sequence[bytes]) -> None:
        """Takes what nodes say of the model."""
        for frame in frames:
            with suppress(FrameRefused):
                answer = opened(frame)
                head = answer.head
                if head.kind not in (TAKEN, KEPT, "refused"):
                    self._late(frame)
                    continue
                node = self._identified(answer)
                # There is a next frame for it, or none.
                self._sent.pop(node, None)
                # Without masks nobody else's word is needed, and the word names no model.
                keeps = head.kind == KEPT or (head.kind == TAKEN and not head.view)
                work = self.work
                word = word_head(head.run, work.round, node, work.model)
                if keeps or _has_newer(answer):
                    self.kept.add(node)
                elif answer.said == word:
                    self._took[node] = answer.signature
                else:
                    # One that was restarted has to be given the model again before the words.
                    self._took.pop(node, None)
                    self._refusals[node] += 1


def spread(
    hand_on: Callable[[float], Handed], is_over: Callable[[Handed], bool], seconds: float
) -> Handed:
    """Hands a model on, moment after moment, until that is over or the time is up."""
    until = time.monotonic() + seconds
    while True:
        handed = hand_on(POLL)
        if is_over(handed) or time.monotonic() > until:
            return handed


def _has_newer(answer: Frame) -> bool:
    """Returns True if a node refuses a model because a newer one has come to it."""
    if answer.head.kind != "refused":
        return False
    return reason(bytes(answer.body[:120])).split(",")[0] == Code.PAST_ROUND.value
