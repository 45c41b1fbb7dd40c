"""A model that enough nodes have, handed to those who come for it later, between two rounds: who
has joined, or was away, has the newest such model in seconds, however far apart rounds are.

Under masks a node keeps a model if enough members have signed that they have the same
(`frames/agreed_model.py`). Their words stay true, so the server repeats them, and nobody else is
asked again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self, final

import numpy as np

from entrenous.core.contract.protocols import FederatedAlgorithm, State
from entrenous.core.errors import EntrenousError
from entrenous.runs import store
from entrenous.runs.recommenders import restore_state

from ..frames.agreed_model import AGREED, KEPT, TAKEN
from ..frames.frames import Code, Frame, FrameParts, FrameRefused, opened, reason
from ..frames.request import Requests, RoundWork
from .exchange import POLL, Exchange, SentRequest
from .server_folder import server_arrays

GIVEN = "given.safetensors"
MOMENT = 2.0  # seconds after which the server looks around
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


@final
class HandingOn:
    """The handing of one model to nodes that lack it. kept: the names of the nodes that have it.

    identified: returns the node that signed a frame, or raises FrameRefused. late: takes a frame
    that is no answer to this.
    """

    def __init__(
        self,
        work: RoundWork,
        words: bytes,
        kept: Collection[str],
        requests: Requests,
        identified: Callable[[Frame], str],
        late: Callable[[bytes], object],
    ) -> None:
        self.work = work
        self.kept = set(kept)
        self._words = words
        self._requests = requests
        self._identified = identified
        self._late = late
        self._took = set[str]()  # that have it, and not yet the words of the others
        self._refusals: Counter[str] = Counter()  # by node
        self._asked = set[str]()
        self._sent: dict[str, SentRequest] = {}

    def go_on(self, exchange: Exchange, seconds: float) -> None:
        """Hands the model to nodes that lack it as they come, for some seconds. Raises
        ServerStopped.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            moment = min(left, MOMENT)
            if self._missing(exchange):
                exchange.gather(
                    lambda: self._missing(exchange), self._request, self._take, moment, self._sent
                )
            else:
                exchange.rest(min(moment, POLL), self._take)

    def at_once(self, exchange: Exchange) -> None:
        """Hands the model to nodes that are there and were never asked, before a round that
        nobody waits for.
        """
        fresh = self._missing(exchange) - self._asked

        def missing() -> set[str]:
            return fresh & self._missing(exchange)

        exchange.gather(missing, self._request, self._take, MOMENT, self._sent)
        self._asked |= fresh

    def _missing(self, exchange: Exchange) -> set[str]:
        """Returns the nodes that are there and lack the model."""
        members = self.work.asked.keys() & set(exchange.present)
        return {name for name in members - self.kept if self._refusals[name] < REFUSALS}

    def _request(self, name: str) -> FrameParts:
        """Makes the next frame for a node: the model, then the words of the others."""
        self._asked.add(name)
        if name not in self._took:
            return self._requests.model(self.work, self.work.asked[name])
        work = self.work
        return self._requests.seal(AGREED, self._words, round=work.round, model=work.model)

    def _take(self, frames: Sequence[bytes]) -> None:
        """Takes what nodes say of the model."""
        for frame in frames:
            with suppress(FrameRefused):
                answer = opened(frame)
                kind = answer.head.kind
                if kind not in (TAKEN, KEPT, "refused"):
                    self._late(frame)
                    continue
                node = self._identified(answer)
                # There is a next frame for it, or none.
                self._sent.pop(node, None)
                if kind == TAKEN and self._words:
                    self._took.add(node)
                elif kind == "refused" and not _has_newer(answer):
                    # One that was restarted has to be given the model again before the words.
                    self._took.discard(node)
                    self._refusals[node] += 1
                else:
                    self.kept.add(node)


def _has_newer(refusal: Frame) -> bool:
    """Returns True if a node refuses a model because a newer one has come to it."""
    return reason(bytes(refusal.body[:120])).split(",")[0] == Code.PAST_ROUND.value
