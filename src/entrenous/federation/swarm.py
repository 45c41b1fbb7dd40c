"""`Swarm`: where a federation of peers stands, between two events: models, private state, messages
under way, what will happen when.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, final

import numpy as np

from ..core.contract.gossip import Headers
from ..core.contract.protocols import State
from ..core.types import Array, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from .ledger import Ledger
from .pool import Pool

RESTART, SWITCH, TIMER, ARRIVAL = range(
    4
)  # kinds of events; at the same time the lower first, so that all push before any receives


class EventBatch(NamedTuple):
    """An event of some nodes at one time. about: int64, the number of a timer, or the place of an
    arriving message.
    """

    kind: int
    node: Int64Array
    about: Int64Array


@final
class Calendar:
    """The event queue: events in the order of time; at the same time the lower kind first, then the
    one scheduled earlier.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, int, EventBatch]] = []
        self.counter = 0

    def schedule(self, kind: int, time: Float64Array, node: Int64Array, about: Int64Array) -> None:
        """Add an event at a time for each node. Events at the same time become one entry of the
        queue.
        """
        order = np.argsort(time, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(time[order]) > 0, True)) + 1
        for low, high in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            some = order[low:high]
            if len(some):
                heappush(
                    self.heap,
                    (
                        float(time[some[0]]),
                        kind,
                        self.counter,
                        EventBatch(kind, node[some], about[some]),
                    ),
                )
                self.counter += 1

    def next_time(self) -> float:
        """The time of the next event; infinity if there is none."""
        return self.heap[0][0] if self.heap else float("inf")

    def pop(self) -> tuple[float, EventBatch]:
        """Remove the next event and return it with its time."""
        time, _, _, event = heappop(self.heap)
        return time, event

    def arrays(self) -> dict[str, Array]:
        """All entries of the queue as arrays by name, to be stored."""
        entries = sorted(self.heap, key=lambda entry: entry[:3])
        sizes, nothing = [len(event.node) for *_, event in entries], [np.empty(0, np.int64)]
        return {
            "time": np.array([entry[0] for entry in entries], np.float64),
            "kind": np.array([entry[1] for entry in entries], np.int64),
            "counter": np.array([entry[2] for entry in entries] + [self.counter], np.int64),
            "ptr": np.cumsum([0, *sizes]).astype(np.int64),
            "node": np.concatenate([entry[3].node for entry in entries] or nothing),
            "about": np.concatenate([entry[3].about for entry in entries] or nothing),
        }

    @staticmethod
    def restored(arrays: dict[str, Array]) -> Calendar:
        """The queue that `arrays()` of another one described."""
        found, ptr = Calendar(), arrays["ptr"]
        found.counter = int(arrays["counter"][-1])
        for k, (time, kind) in enumerate(
            zip(arrays["time"].tolist(), arrays["kind"].tolist(), strict=True)
        ):
            part = slice(int(ptr[k]), int(ptr[k + 1]))
            found.heap.append(
                (
                    time,
                    kind,
                    int(arrays["counter"][k]),
                    EventBatch(kind, arrays["node"][part], arrays["about"][part]),
                )
            )
        heapify(found.heap)
        return found


@final
@dataclass(eq=False)
class Mail:
    """Headers of messages in transit, one place for all copies of one push. push: int64 [places],
    its number at its sender; slot: int64 [places], of its model in the pool; copies: int64
    [places], how many have yet to arrive, 0 = a free place. The others as in `Headers`."""

    sender: Int64Array
    age: Int64Array
    samples: Int64Array
    peers: Int32Array
    length: Int64Array
    push: Int64Array
    slot: Int64Array
    copies: Int64Array

    @staticmethod
    def empty(places: int, peers: int) -> Mail:
        """A table of free places, each with space for `peers` peer numbers."""
        none = [np.zeros(places, np.int64) for _ in range(7)]
        return Mail(
            none[0],
            none[1],
            none[2],
            np.zeros((places, peers), np.int32),
            none[3],
            none[4],
            none[5],
            none[6],
        )

    def post(
        self, headers: Headers, push: Int64Array, slot: Int64Array, copies: Int64Array
    ) -> Int64Array:
        """Store the headers of m pushes, each to arrive `copies` >= 1 times. Returns their places,
        int64 [m].
        """
        free = np.flatnonzero(self.copies == 0)
        if len(free) < len(slot):
            self._grow(max(len(slot), len(self.copies)))
            free = np.flatnonzero(self.copies == 0)
        places = free[: len(slot)]
        for name, values in (
            *headers._asdict().items(),
            ("push", push),
            ("slot", slot),
            ("copies", copies),
        ):
            getattr(self, name)[places] = values
        return places

    def headers(self, places: Int64Array) -> Headers:
        """The message headers at some places."""
        return Headers(*(getattr(self, name)[places] for name in Headers._fields))

    def delivered(self, places: Int64Array) -> Int64Array:
        """Count one copy less at each place, arrived or lost. Returns the pool slots whose last
        copy this was, int64.
        """
        np.subtract.at(self.copies, places, 1)
        once = np.unique(places)
        return self.slot[once[self.copies[once] == 0]]

    def _grow(self, more: int) -> None:
        for one in fields(self):
            old = getattr(self, one.name)
            setattr(
                self, one.name, np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)])
            )


class Counts(NamedTuple):
    """Counts of events of each node, int64 [n] each. timers, switches, restarts: scheduled so far.
    events: handled by the node itself, which name its randomness. pushed: pushes made; received:
    models that arrived; refused: of those.
    """

    timers: Int64Array
    switches: Int64Array
    restarts: Int64Array
    events: Int64Array
    pushed: Int64Array
    received: Int64Array
    refused: Int64Array


@final
@dataclass(eq=False)
class Swarm:
    """The state of a gossip training of n nodes between two events, overwritten by each event.

    nodes: private state, leading axis = nodes. slot: int64 [n], the place of each node's model in
    the pool. away: bool [n], which nodes are offline. busy: float64 [n], until when each node's
    uplink is sending. round: whole units of time that are over."""

    nodes: State
    slot: Int64Array
    pool: Pool
    mail: Mail
    calendar: Calendar
    counts: Counts
    away: BoolArray
    busy: Float64Array
    round: int
    ledger: Ledger

    @property
    def models(self) -> Float32Array:
        """A copy of each node's model, float32 [n, width]."""
        return self.pool.values[self.slot]

    def freed(self, nodes: Int64Array, receiver: Int64Array, place: Int64Array) -> Float64Array:
        """Places of the pool that are the sooner free if it is each one's turn, float64 [m]: a part
        of every old model that waits for it among others, less its own model's if that is under way
        still. receiver, place: what is about to arrive, in the mail.
        """
        mail, n = self.mail, len(self.slot)
        old = mail.slot[place] != self.slot[mail.sender[place]]
        waiting = np.bincount(receiver, old / mail.copies[place], minlength=n)
        needed = np.zeros(len(self.pool.needed), np.bool_)
        needed[mail.slot[mail.copies > 0]] = True
        return np.asarray(waiting[nodes] - needed[self.slot[nodes]], np.float64)

    def compact(self) -> Float32Array:
        """The nodes' models without a copy, float32 [n, width]: a view that is valid until the next
        event.
        """
        where = self.pool.compact(self.slot)
        self.slot, self.mail.slot = where[self.slot], where[self.mail.slot]
        return self.pool.values[self.pool.kept :][: len(self.slot)]

    def arrays(self) -> dict[str, Array]:
        """All state but the round number, by name, to be stored: views that are valid until the
        next event.
        """
        self.compact()
        used = np.arange(self.pool.used)
        return {
            **{f"nodes.{name}": array for name, array in self.nodes._asdict().items()},
            "pool.slot": used,
            "pool.values": self.pool.values[: len(used)],
            "slot": self.slot,
            **{f"mail.{one.name}": getattr(self.mail, one.name) for one in fields(self.mail)},
            **{f"calendar.{name}": array for name, array in self.calendar.arrays().items()},
            **{f"counts.{name}": array for name, array in self.counts._asdict().items()},
            "away": self.away,
            "busy": self.busy,
            "ledger": np.array(self.ledger, np.int64),
        }


def restored(arrays: dict[str, Array], number: int, state: Any, kept_slots: int) -> Swarm:
    """The state of a gossip training from the arrays that `Swarm.arrays` returned, after round
    `number`. state: the class of the private state; kept_slots: how many of the first slots are
    permanent.
    """

    def part(prefix: str) -> dict[str, Array]:
        return {
            name.removeprefix(f"{prefix}."): array
            for name, array in arrays.items()
            if name.startswith(f"{prefix}.")
        }

    old, values = arrays["pool.slot"], arrays["pool.values"]
    pool, mail = Pool(values.shape[1], 2 * len(values)), Mail(**part("mail"))
    new = pool.take(len(old))
    pool.values[new], pool.kept = values, kept_slots
    place = np.zeros(int(old.max(initial=0)) + 1, np.int64)
    place[old] = new
    mail.slot = np.where(mail.copies > 0, place[np.minimum(mail.slot, len(place) - 1)], 0)
    slot = place[arrays["slot"]]
    pool.share(np.concatenate([slot, mail.slot[mail.copies > 0]]))
    pool.drop(new[kept_slots:])  # `take` had counted each once
    kept = {name: arrays[name].copy() for name in ("away", "busy")}
    return Swarm(
        state(**part("nodes")),
        slot,
        pool,
        mail,
        Calendar.restored(part("calendar")),
        Counts(**part("counts")),
        **kept,
        round=number,
        ledger=Ledger(*(int(count) for count in arrays["ledger"])),
    )
