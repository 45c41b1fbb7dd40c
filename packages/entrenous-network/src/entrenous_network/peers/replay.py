"""A replay of what peers did on a real network, in one process: the same events through the same
functions end with the same models.

Every peer records its own events: that it began, that it pushed, and whose model it took. A message
needs its push to have happened, and a peer's events have their order. Nothing else matters: any
order that respects both gives the same bytes, and so must this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from entrenous.core.contract.gossip import (
    ACCEPTED,
    REFUSALS,
    Arrivals,
    DeviceData,
    GossipAlgorithm,
    Headers,
    Weighing,
)
from entrenous.core.contract.protocols import Catalogue, Histories, Moments, State, joined_visits
from entrenous.core.errors import EntrenousError
from entrenous.core.keys import folded
from entrenous.core.types import Array, Float32Array, Int64Array, UInt64Array
from entrenous.federation.gossip import (
    base_model,
    carries_noise,
    first_known,
    first_nodes,
    node_keys,
)
from entrenous.privacy.push_noise import add_push_noise

from ..wire.pushed import digest, pack

START, PUSH, MESSAGE = range(3)  # kinds of events
KINDS = ("start", "push", "message")


class PeerEvent(NamedTuple):
    """One event of a peer."""

    kind: int
    """START, PUSH or MESSAGE."""
    sender: int
    """The sender's number of a received model, else -1."""
    push: int
    """The number of the push at its sender; -1 for a start."""
    digest: bytes
    """The digest of the model that was sent or received (wire.pushed); empty for a start."""


class Recording(NamedTuple):
    """All events of one peer in order."""

    number: int
    """The number of the peer."""
    seed: int
    """The number that its draws follow from: the federation's seed or its own."""
    data: DeviceData
    """Its rows to train on and its weighting set (leading axis 1)."""
    events: Sequence[PeerEvent]


class Replayed(NamedTuple):
    """The final states of peers, in the order of their recordings."""

    models: Float32Array
    """float32 [n, width]."""
    nodes: State
    """Leading axis n."""
    events: int
    """The number of events that were replayed."""


class ReplayError(EntrenousError):
    """Raised when recordings contradict each other; names the peer and the event."""


def replay(
    algorithm: GossipAlgorithm,
    catalogue: Catalogue,
    seed: int,
    recordings: Sequence[Recording],
) -> Replayed:
    """Repeats recorded events and returns the models that they lead to. Raises ReplayError if a
    model differs from what was recorded when it was sent.

    seed: the federation's. Each peer goes as far as it can, then the next one.
    """
    again = _Replay(algorithm.configured(catalogue), catalogue, seed, recordings)
    lengths = [len(recording.events) for recording in recordings]
    unfinished = list(range(len(recordings)))
    while unfinished:
        repeated = 0
        for d in unfinished:
            repeated += again.advance(d)
        unfinished = [d for d in unfinished if again.done[d] < lengths[d]]
        # Each peer left waits for a push: of another that waits too, or of none.
        if unfinished and not repeated:
            raise again.stuck(unfinished)
    return Replayed(again.pool[:-1], again.nodes, int(sum(again.done)))


@final
class _Replay:
    """The peers in a common pool: peer d's model is pool[d], the model that arrives pool[-1]."""

    def __init__(
        self,
        algorithm: GossipAlgorithm,
        catalogue: Catalogue,
        seed: int,
        recordings: Sequence[Recording],
    ) -> None:
        numbers = np.array([recording.number for recording in recordings], np.int64)
        base = base_model(algorithm, catalogue, seed)
        self.algorithm = algorithm
        self.recordings = recordings
        # A peer may draw from a seed of its own, so each key is made by itself.
        keys = []
        for d, recording in enumerate(recordings):
            keys.append(node_keys(recording.seed, numbers[d : d + 1]))
        self.keys: UInt64Array = np.concatenate(keys)
        known = first_known(numbers, catalogue.users, self.keys, np.zeros(len(numbers), np.int64))
        self.nodes = first_nodes(algorithm, numbers, known, len(base), seed)
        self.pool = np.repeat(base[None], len(numbers) + 1, axis=0)
        self.data = joined([recording.data for recording in recordings])
        self.done = [0] * len(recordings)  # events of each peer that were repeated
        # How many messages still need each push, by the number of the sender and of the push.
        self.awaited: Counter[tuple[int, int]] = Counter()
        for recording in recordings:
            for event in recording.events:
                if event.kind == MESSAGE:
                    self.awaited[event.sender, event.push] += 1
        # Model, header and digest of the pushes that messages still need.
        self.sent: dict[tuple[int, int], tuple[Float32Array, Headers, bytes]] = {}

    def advance(self, d: int) -> int:
        """Repeats events of peer d as far as they can happen yet. Returns how many."""
        events = self.recordings[d].events
        began = self.done[d]
        while self.done[d] < len(events):
            event = events[self.done[d]]
            # A message waits until its push has happened; the other peers go on meanwhile.
            if event.kind == MESSAGE and (event.sender, event.push) not in self.sent:
                break
            # The key of an event follows from its number, as at the peer itself.
            key = folded(self.keys[d : d + 1], np.array([self.done[d]]))
            repeat = (self._start, self._push, self._message)[event.kind]
            repeat(d, event, key)
            self.done[d] += 1
        return self.done[d] - began

    def _start(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        peer = _one(d)
        self.algorithm.on_start(self.pool, peer, self.nodes, peer, self.data, key)

    def _push(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        peer = _one(d)
        headers = self.algorithm.on_timer(self.nodes, peer, self.data, key).headers
        model = self.pool[d : d + 1].copy()
        if len(carries_noise(self.algorithm, self.nodes, peer)):
            # of every node with such a setting
            ages = self.nodes.age[d : d + 1]  # type: ignore[attr-defined]
            add_push_noise(self.algorithm, model, self.keys[d : d + 1], ages)
        # Two peers that disagree about a model are found out here, at the first push that differs.
        self._check(d, event, digest(pack(model[0])))
        name = self.recordings[d].number, event.push
        # Most pushes reach nobody who records them: their models need not be kept.
        if self.awaited[name]:
            self.sent[name] = model[0], headers, event.digest

    def _message(self, d: int, event: PeerEvent, key: UInt64Array) -> None:
        name = event.sender, event.push
        model, headers, sent = self.sent[name]
        self._check(d, event, sent)
        self.pool[-1] = model
        peer = _one(d)
        last = _one(len(self.pool) - 1)
        arrivals = Arrivals(self.pool, peer, peer, last, peer, headers, key)
        refused = int(self.algorithm.on_message(arrivals, self.nodes, self.data)[0])
        if refused != ACCEPTED:
            text = f"the model was taken, but here it is {REFUSALS[refused]}"
            raise ReplayError(f"{self._at(d)}: {text}")
        # A sent model is kept only as long as a recorded message still needs it.
        self.awaited[name] -= 1
        if not self.awaited[name]:
            del self.sent[name]

    def _check(self, d: int, event: PeerEvent, here: bytes) -> None:
        """Raises ReplayError unless the digest of a model equals the recorded one."""
        if here != event.digest:
            recorded = event.digest.hex()[:12]
            raise ReplayError(
                f"{self._at(d)}: the model is {here.hex()[:12]} here, {recorded} in the recording"
            )

    def _at(self, d: int) -> str:
        """Returns the place of a peer's next event, for an error."""
        recording = self.recordings[d]
        done = self.done[d]
        event = recording.events[done]
        whose = ""
        if event.kind == MESSAGE:
            whose = f" {event.push} of peer {event.sender}"
        return f"peer {recording.number}, event {done} ({KINDS[event.kind]}{whose})"

    def stuck(self, unfinished: list[int]) -> ReplayError:
        """Returns the reason why nothing can happen any more: peers wait for a model that nobody is
        recorded to have sent.
        """
        sent: set[tuple[int, int]] = set()
        for recording in self.recordings:
            for event in recording.events:
                if event.kind == PUSH:
                    sent.add((recording.number, event.push))
        # Others only wait for a peer that waits itself: the first whose model no recording has is
        # the cause.
        cause = unfinished[0]
        for d in unfinished:
            event = self.recordings[d].events[self.done[d]]
            if (event.sender, event.push) not in sent:
                cause = d
                break
        return ReplayError(f"{self._at(cause)}: no recording says that this model was sent before")


def _one(number: int) -> Int64Array:
    return np.array([number])


def joined(parts: Sequence[DeviceData]) -> DeviceData:
    """Returns the data of n devices, joined from n parts of one device each."""
    rows = [part.histories for part in parts]
    histories = Histories(
        ptr=_ends([part.ptr for part in rows]),
        item=np.concatenate([part.item for part in rows]),
        value=np.concatenate([part.value for part in rows]),
        avoid_ptr=_ends([part.avoid_ptr for part in rows]),
        avoid=np.concatenate([part.avoid for part in rows]),
        time=_all([part.time for part in rows]),
        row=_all([part.row for part in rows]),
        # Of items, which all devices share.
        places=rows[0].places,
        features=rows[0].features,
        visits=joined_visits([_moments(part) for part in rows]),
    )
    sets = [part.weighing for part in parts]
    # Candidates of narrower sets are filled up with -1, as of no item.
    widest = max(part.candidates.shape[1] for part in sets)
    candidates = []
    for part in sets:
        missing = widest - part.candidates.shape[1]
        padded = np.pad(part.candidates, ((0, 0), (0, missing)), constant_values=-1)
        candidates.append(padded)
    weighing = Weighing(
        _ends([part.ptr for part in sets]),
        np.concatenate([part.item for part in sets]),
        np.concatenate(candidates),
    )
    return DeviceData(histories, weighing)


def _ends(ptrs: Sequence[Int64Array]) -> Int64Array:
    """Returns where the rows of each part begin once all are side by side, int64 [n + 1]."""
    lengths = np.concatenate([np.diff(ptr) for ptr in ptrs])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _moments(rows: Histories) -> Moments | None:
    """Returns the times of a device's rows and visits; None without times."""
    if rows.time is None or rows.row is None:
        return None
    return Moments(rows.time, rows.row, rows.visits)


def _all(columns: Sequence[Array | None]) -> Array | None:
    """Returns one column, if all parts have it."""
    present = [column for column in columns if column is not None]
    if len(present) == len(columns):
        return np.concatenate(present)
    return None
