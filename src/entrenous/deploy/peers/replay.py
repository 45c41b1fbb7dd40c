"""What peers did on a real network, done again in one process: the same events through the same
functions end with the same models.

Every peer records its own events: that it began, that it pushed, whose model it took. A message
needs its push to have happened, and a peer's events have their order; nothing else matters, so any
order that respects both gives the same bytes, and so must this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from ...core.contract.gossip import (
    ACCEPTED,
    REFUSALS,
    Arrivals,
    DeviceData,
    GossipAlgorithm,
    Headers,
    Weighing,
)
from ...core.contract.protocols import Catalogue, Histories, State
from ...core.errors import EntrenousError
from ...core.keys import folded
from ...core.types import Array, Float32Array, Int64Array, UInt64Array
from ...core.visits import Moments, Visits, joined_visits
from ...federation.gossip import base_model, first_known, first_nodes, node_keys
from ...federation.push_noise import add_push_noise, carries_noise
from ..wire.pushed import digest, pack

START, PUSH, MESSAGE = range(3)  # kinds of events
KINDS = ("start", "push", "message")


class PeerEvent(NamedTuple):
    """One event of a peer. sender: the sender's number of a received model, else -1; push: the
    number of the push at its sender, -1 for a start; digest: of the model that was sent or received
    (wire.pushed), empty for a start.
    """

    kind: int
    sender: int
    push: int
    digest: bytes


class Recording(NamedTuple):
    """All events of one peer in order. number: of the peer; seed: what its draws follow from, the
    federation's seed or its own; data: its rows to train on and its weighting set (leading axis
    1).
    """

    number: int
    seed: int
    data: DeviceData
    events: Sequence[PeerEvent]


class Replayed(NamedTuple):
    """The final states of peers, in the order of their recordings. models: float32 [n, width];
    nodes: leading axis n; events: how many were replayed."""

    models: Float32Array
    nodes: State
    events: int


class ReplayError(EntrenousError):
    """Raised when recordings contradict each other; names the peer and the event."""


def replay(
    algorithm: GossipAlgorithm,
    catalogue: Catalogue,
    seed: int,
    recordings: Sequence[Recording],
    *,
    by_turns: bool = False,
) -> Replayed:
    """Repeat recorded events and return the models that they lead to. Raises ReplayError if a model
    differs from what was recorded when it was sent.

    seed: the federation's. by_turns: one event of every peer after the other; else each goes as far
    as it can. The result is the same.
    """
    again = _Replay(algorithm.configured(catalogue), catalogue, seed, recordings)
    left = list(range(len(recordings)))
    while left:
        moved = [again.advance(d, 1 if by_turns else len(recordings[d].events)) for d in left]
        left = [d for d in left if again.done[d] < len(recordings[d].events)]
        if left and not any(moved):
            raise again.stuck(left)
    return Replayed(again.pool[:-1], again.nodes, int(sum(again.done)))


@final
class _Replay:
    """A common pool: peer d's model is pool[d], the model that arrives pool[-1]."""

    def __init__(
        self,
        algorithm: GossipAlgorithm,
        catalogue: Catalogue,
        seed: int,
        recordings: Sequence[Recording],
    ) -> None:
        numbers = np.array([one.number for one in recordings], np.int64)
        base = base_model(algorithm, catalogue, seed)
        self.algorithm, self.recordings = algorithm, recordings
        self.keys: UInt64Array = np.concatenate(
            [node_keys(one.seed, numbers[d : d + 1]) for d, one in enumerate(recordings)]
        )
        known = first_known(numbers, catalogue.users, self.keys, np.zeros(len(numbers), np.int64))
        self.nodes = first_nodes(algorithm, numbers, known, len(base), seed)
        self.pool = np.repeat(base[None], len(numbers) + 1, axis=0)
        self.data = joined([one.data for one in recordings])
        self.done = [0] * len(recordings)
        self.awaited = Counter(
            (e.sender, e.push) for one in recordings for e in one.events if e.kind == MESSAGE
        )
        self.sent: dict[tuple[int, int], tuple[Float32Array, Headers, bytes]] = {}

    def advance(self, d: int, most: int) -> int:
        """Up to `most` events of peer d, as far as they can happen yet. Returns how many."""
        events, began = self.recordings[d].events, self.done[d]
        while self.done[d] < min(len(events), began + most):
            event = events[self.done[d]]
            if event.kind == MESSAGE and (event.sender, event.push) not in self.sent:
                break
            (self._start, self._push, self._message)[event.kind](
                d, event, folded(self.keys[d : d + 1], np.array([self.done[d]]))
            )
            self.done[d] += 1
        return self.done[d] - began

    def _start(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        self.algorithm.on_start(self.pool, _one(d), self.nodes, _one(d), self.data, key)

    def _push(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        headers = self.algorithm.on_timer(self.nodes, _one(d), self.data, key).headers
        model = self.pool[d : d + 1].copy()
        if len(carries_noise(self.algorithm, self.nodes, _one(d))):
            # of every node with such a setting
            ages = self.nodes.age[d : d + 1]  # type: ignore[attr-defined]
            add_push_noise(self.algorithm, model, self.keys[d : d + 1], ages)
        self._same(d, event, digest(pack(model[0])))
        name = self.recordings[d].number, event.push
        if self.awaited[name]:
            self.sent[name] = model[0], headers, event.digest

    def _message(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        name = event.sender, event.push
        model, headers, sent = self.sent[name]
        self._same(d, event, sent)
        self.pool[-1] = model
        arrivals = Arrivals(
            self.pool, _one(d), _one(d), _one(len(self.pool) - 1), _one(d), headers, key
        )
        refused = int(self.algorithm.on_message(arrivals, self.nodes, self.data)[0])
        if refused != ACCEPTED:
            raise ReplayError(
                f"{self._at(d)}: the model was taken, but here it is {REFUSALS[refused]}"
            )
        self.awaited[name] -= 1
        if not self.awaited[name]:
            del self.sent[name]

    def _same(self, d: int, event: PeerEvent, found: bytes) -> None:
        if found != event.digest:
            raise ReplayError(
                f"{self._at(d)}: the model is {found.hex()[:12]} here, {event.digest.hex()[:12]} in"
                " the recording"
            )

    def _at(self, d: int) -> str:
        event = self.recordings[d].events[self.done[d]]
        whose = f" {event.push} of peer {event.sender}" if event.kind == MESSAGE else ""
        return (
            f"peer {self.recordings[d].number}, event {self.done[d]} ({KINDS[event.kind]}{whose})"
        )

    def stuck(self, left: list[int]) -> ReplayError:
        """Why nothing can happen any more: a model that nobody is recorded to have sent, for which
        others wait.
        """
        sent = {
            (one.number, event.push)
            for one in self.recordings
            for event in one.events
            if event.kind == PUSH
        }
        awaited = {d: self.recordings[d].events[self.done[d]] for d in left}
        causes = [d for d, event in awaited.items() if (event.sender, event.push) not in sent]
        return ReplayError(
            f"{self._at((causes or left)[0])}: no recording says that this model was sent before"
        )


def _one(number: int) -> Int64Array:
    return np.array([number])


def joined(parts: Sequence[DeviceData]) -> DeviceData:
    """The data of n devices, joined from n parts of one device each."""
    own = [part.histories for part in parts]
    sets = [part.weighing for part in parts]
    histories = Histories(
        _ends([one.ptr for one in own]),
        np.concatenate([one.item for one in own]),
        np.concatenate([one.value for one in own]),
        _ends([one.avoid_ptr for one in own]),
        np.concatenate([one.avoid for one in own]),
        _all([one.time for one in own]),
        _all([one.row for one in own]),
        own[0].places,
        _visits(own),
    )
    widest = max(one.candidates.shape[1] for one in sets)
    candidates = [
        np.pad(one.candidates, ((0, 0), (0, widest - one.candidates.shape[1])), constant_values=-1)
        for one in sets
    ]
    weighing = Weighing(
        _ends([one.ptr for one in sets]),
        np.concatenate([one.item for one in sets]),
        np.concatenate(candidates),
    )
    return DeviceData(histories, weighing)


def _ends(ptrs: Sequence[Int64Array]) -> Int64Array:
    """Where the rows of each begin once they are side by side."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(ptr) for ptr in ptrs]))]).astype(
        np.int64
    )


def _visits(own: Sequence[Histories]) -> Visits | None:
    """All visits, where some rows stand for several; None without times."""
    return joined_visits(
        [
            None if one.time is None or one.row is None else Moments(one.time, one.row, one.visits)
            for one in own
        ]
    )


def _all(columns: Sequence[Array | None]) -> Array | None:
    """One column, if all have it."""
    return (
        None
        if any(column is None for column in columns)
        else np.concatenate([c for c in columns if c is not None])
    )
