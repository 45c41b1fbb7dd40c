"""`Swarm`: the state of a federation of peers between two events: models, private state, messages
in transit, and the queue of future events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from heapq import heappop, heappush
from typing import Any, NamedTuple, final

import numpy as np

from ..core.contract.gossip import Headers
from ..core.contract.protocols import State
from ..core.lanes.memory import starts_of
from ..core.types import Array, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from .pool import Pool
from .shard import Ledger

# Kinds of events. At the same time the lower one comes first, so that all push before any receives.
RESTART, SWITCH, TIMER, ARRIVAL = range(4)


class EventBatch(NamedTuple):
    """An event of m nodes at one time."""

    kind: int
    """RESTART, SWITCH, TIMER or ARRIVAL."""
    node: Int64Array
    """int64 [m]."""
    about: Int64Array
    """int64 [m]: the number of the timer, switch or restart of the node, or the place in the mail
    of an arriving message.
    """


@final
class Calendar:
    """The event queue: events in the order of time; at the same time the lower kind first, then the
    one scheduled earlier.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, int, EventBatch]] = []
        self.counter = 0

    def schedule(self, kind: int, time: Float64Array, node: Int64Array, about: Int64Array) -> None:
        """Adds an event at a time for each node. Events at the same time become one entry of the
        queue.
        """
        order = np.argsort(time, kind="stable")
        # Where the next later time begins.
        later = np.flatnonzero(np.diff(time[order]) > 0) + 1
        for alike in np.split(order, later):
            if len(alike):
                event = EventBatch(kind, node[alike], about[alike])
                # The counter differs between entries, so that no two events are compared.
                entry = (float(time[alike[0]]), kind, self.counter, event)
                heappush(self.heap, entry)
                self.counter += 1

    def next_time(self) -> float:
        """The time of the next event; infinity if there is none."""
        if self.heap:
            return self.heap[0][0]
        return float("inf")

    def pop(self) -> tuple[float, EventBatch]:
        """Removes the next event, and returns it with its time."""
        time, _, _, event = heappop(self.heap)
        return time, event

    def arrays(self) -> dict[str, Array]:
        """All entries of the queue as arrays by name, to be stored."""
        entries = sorted(self.heap, key=lambda entry: entry[:3])
        events = [event for *_, event in entries]
        # A queue without events has arrays all the same.
        nothing = np.empty(0, np.int64)
        return {
            "time": np.array([time for time, *_ in entries], np.float64),
            "kind": np.array([event.kind for event in events], np.int64),
            "ptr": starts_of([len(event.node) for event in events]),
            "node": np.concatenate([nothing, *(event.node for event in events)]),
            "about": np.concatenate([nothing, *(event.about for event in events)]),
        }

    @staticmethod
    def restored(arrays: dict[str, Array]) -> Calendar:
        """The queue that `arrays` of another calendar described."""
        calendar = Calendar()
        ptr = arrays["ptr"].tolist()
        kinds = arrays["kind"].tolist()
        # They come in the order of the queue, which is that of a heap.
        for k, time in enumerate(arrays["time"].tolist()):
            part = slice(ptr[k], ptr[k + 1])
            event = EventBatch(kinds[k], arrays["node"][part], arrays["about"][part])
            calendar.heap.append((time, kinds[k], k, event))
        calendar.counter = len(calendar.heap)
        return calendar


@final
@dataclass(eq=False)
class Mail:
    """Headers of messages in transit, one place for all copies of one push. The first five fields
    are those of `Headers`.
    """

    sender: Int64Array
    age: Int64Array
    samples: Int64Array
    peers: Int32Array
    length: Int64Array
    push: Int64Array
    """int64 [places]: the number of the push at its sender."""
    slot: Int64Array
    """int64 [places]: the slot of its model in the pool."""
    copies: Int64Array
    """int64 [places]: the copies that have yet to arrive; 0 = a free place."""

    @staticmethod
    def empty(places: int, peers: int) -> Mail:
        """A table of free places, each with space for `peers` peer numbers."""
        columns: dict[str, Any] = {field.name: np.zeros(places, np.int64) for field in fields(Mail)}
        columns["peers"] = np.zeros((places, peers), np.int32)
        return Mail(**columns)

    def post(
        self, headers: Headers, push: Int64Array, slot: Int64Array, copies: Int64Array
    ) -> Int64Array:
        """Stores the headers of m pushes, each to arrive `copies` >= 1 times. Returns their places,
        int64 [m].
        """
        free = np.flatnonzero(self.copies == 0)
        if len(free) < len(slot):
            self._grow(max(len(slot), len(self.copies)))
            free = np.flatnonzero(self.copies == 0)
        places = free[: len(slot)]
        for name, values in headers._asdict().items():
            getattr(self, name)[places] = values
        self.push[places] = push
        self.slot[places] = slot
        self.copies[places] = copies
        return places

    def headers(self, places: Int64Array) -> Headers:
        """The message headers at some places."""
        return Headers(*(getattr(self, name)[places] for name in Headers._fields))

    def delivered(self, places: Int64Array) -> Int64Array:
        """Counts one copy less at each place, arrived or lost. Returns the pool slots whose last
        copy this was, int64.
        """
        np.subtract.at(self.copies, places, 1)
        once = np.unique(places)
        return self.slot[once[self.copies[once] == 0]]

    def _grow(self, more: int) -> None:
        for field in fields(self):
            old = getattr(self, field.name)
            new = np.zeros((more, *old.shape[1:]), old.dtype)
            setattr(self, field.name, np.concatenate([old, new]))


class Counts(NamedTuple):
    """Counts of events of each node, int64 [n] each."""

    timers: Int64Array
    """Timers scheduled so far; `switches` and `restarts` likewise."""
    switches: Int64Array
    restarts: Int64Array
    events: Int64Array
    """Events that the node handled, which name its randomness."""
    pushed: Int64Array
    received: Int64Array
    """Models that arrived."""
    refused: Int64Array
    """Models that arrived and were not taken."""


@final
@dataclass(eq=False)
class Swarm:
    """The state of a gossip training of n nodes between two events. Each event overwrites it."""

    nodes: State
    """The private state, leading axis = nodes."""
    slot: Int64Array
    """int64 [n]: the slot of each node's model in the pool."""
    pool: Pool
    mail: Mail
    calendar: Calendar
    counts: Counts
    away: BoolArray
    """bool [n]: True for nodes that are offline."""
    busy: Float64Array
    """float64 [n]: the time until which each node's uplink is sending."""
    round: int
    """The whole units of time that are over."""
    ledger: Ledger

    @property
    def models(self) -> Float32Array:
        """A copy of each node's model, float32 [n, width]."""
        return self.pool.values[self.slot]

    def compact(self) -> Float32Array:
        """The nodes' models without a copy, float32 [n, width]: a view that is valid until the next
        event.
        """
        new = self.pool.compact(self.slot)
        self.slot = new[self.slot]
        self.mail.slot = new[self.mail.slot]
        kept = self.pool.kept
        return self.pool.values[kept : kept + len(self.slot)]

    def arrays(self) -> dict[str, Array]:
        """All state but the round number, by name, to be stored: views that are valid until the
        next event.
        """
        # Slots in use come first then, and the rest of the pool need not be stored.
        self.compact()
        mail = {field.name: getattr(self.mail, field.name) for field in fields(self.mail)}
        return {
            **_prefixed("nodes", self.nodes._asdict()),
            "pool.values": self.pool.values[: self.pool.used],
            "slot": self.slot,
            **_prefixed("mail", mail),
            **_prefixed("calendar", self.calendar.arrays()),
            **_prefixed("counts", self.counts._asdict()),
            "away": self.away,
            "busy": self.busy,
            "ledger": np.array(self.ledger, np.int64),
        }


def _prefixed(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def restored(arrays: dict[str, Array], number: int, state: Any, kept_slots: int) -> Swarm:
    """The state of a gossip training after round `number` from the arrays of `Swarm.arrays`.

    state: the class of the private state; kept_slots: the number of permanent slots, the first.
    """

    def part(prefix: str) -> dict[str, Array]:
        """The arrays whose names begin with `prefix.`, without it."""
        begin = f"{prefix}."
        named = {name: array for name, array in arrays.items() if name.startswith(begin)}
        return {name.removeprefix(begin): array for name, array in named.items()}

    values = arrays["pool.values"]
    pool = Pool(values.shape[1], 2 * len(values))
    taken = pool.take(len(values))
    pool.values[taken] = values
    pool.kept = kept_slots
    slot = arrays["slot"].copy()
    mail = Mail(**part("mail"))
    # Free places name slots that are no longer there.
    in_transit = mail.copies > 0
    mail.slot = np.where(in_transit, mail.slot, 0)
    # Nodes and messages hold their slots; `take` has counted each slot once before.
    pool.share(np.concatenate([slot, mail.slot[in_transit]]))
    pool.drop(taken[kept_slots:])
    return Swarm(
        nodes=state(**part("nodes")),
        slot=slot,
        pool=pool,
        mail=mail,
        calendar=Calendar.restored(part("calendar")),
        counts=Counts(**part("counts")),
        away=arrays["away"].copy(),
        busy=arrays["busy"].copy(),
        round=number,
        ledger=Ledger(*arrays["ledger"].tolist()),
    )
