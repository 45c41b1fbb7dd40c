"""`Timeline`: the next events between peers that cannot depend on each other, in order of time."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from ..core.keys import folded
from ..core.types import Array, Float64Array, Int64Array
from .network import Draws
from .swarm import ARRIVAL, RESTART, SWITCH, TIMER, Swarm


class Happening(NamedTuple):
    """The events of one stretch of time in order, one row for each node concerned."""

    time: Float64Array
    """float64 [m], in units of time."""
    kind: Int64Array
    """int64 [m]."""
    node: Int64Array
    """int64 [m]."""
    about: Int64Array
    """int64 [m], as in `EventBatch`."""

    def at(self, rows: Array) -> Happening:
        """The events at `rows`, a subset in that order."""
        return Happening(self.time[rows], self.kind[rows], self.node[rows], self.about[rows])


@final
class Timeline:
    """Reads the event queue of a gossip simulation ahead, as far as no event that it reads can
    change a later one. ways: the number of peers that a node pushes to.
    """

    def __init__(self, draws: Draws, ways: int) -> None:
        self._draws = draws
        self._ways = ways

    def begin(self, swarm: Swarm) -> None:
        """Schedules the first event of each repeating kind for every node."""
        draws = self._draws
        calendar = swarm.calendar
        everyone = np.arange(len(swarm.slot))
        zero = np.zeros(len(everyone), np.int64)
        calendar.schedule(TIMER, draws.first_push(everyone), everyone, zero)
        if draws.network.churn:
            calendar.schedule(SWITCH, draws.stay(everyone, zero, swarm.away), everyone, zero)
        if draws.network.restarts:
            calendar.schedule(RESTART, draws.until_restart(everyone, zero), everyone, zero)

    def next(self, swarm: Swarm, until: float) -> Happening:
        """The next events that cannot cause each other, until time `until`; repeating events are
        scheduled again.
        """
        heap = swarm.calendar.heap
        parts: list[Happening] = []
        first = heap[0][:2]
        horizon = float(until)
        # Events of the same time and kind as the first are always independent of it.
        while heap and (heap[0][:2] == first or heap[0][0] < horizon):
            time, event = swarm.calendar.pop()
            n = len(event.node)
            now = Happening(np.full(n, time), np.full(n, event.kind), event.node, event.about)
            # A push causes an arrival, which may change what its receiver does next.
            if event.kind == TIMER:
                horizon = min(horizon, self._earliest(now))
            self._repeat(swarm, now, event.kind)
            parts.append(now)
        columns = zip(*parts, strict=True)
        whole = Happening(*map(np.concatenate, columns))
        return self._in_order(swarm, whole)

    def _earliest(self, now: Happening) -> float:
        """A time before which no message of these timers arrives. Latencies are drawn from names,
        so they are known beforehand.
        """
        earliest = np.inf
        for way in range(self._ways):
            arrive = now.time + self._draws.latency(now.node, now.about, way)
            earliest = min(earliest, float(arrive.min()))
        return earliest

    def _repeat(self, swarm: Swarm, now: Happening, kind: int) -> None:
        """Schedules the next event of the same kind for the same nodes; arrivals do not repeat."""
        if kind == ARRIVAL:
            return
        who = now.node
        counts = swarm.counts
        count = {TIMER: counts.timers, SWITCH: counts.switches, RESTART: counts.restarts}[kind]
        count[who] += 1
        number = count[who]
        if kind == TIMER:
            after = self._draws.gap(who, number)
        elif kind == SWITCH:
            # Each switch takes a node away or brings it back, in turn.
            away = self._draws.away[who] ^ (number % 2 == 1)
            after = self._draws.stay(who, number, away)
        else:
            after = self._draws.until_restart(who, number)
        swarm.calendar.schedule(kind, now.time + after, who, number)

    def _in_order(self, swarm: Swarm, now: Happening) -> Happening:
        """Sorts events by time and kind, and messages of one time in an order drawn from their
        names. Their order in the queue would depend on the events that were handled at once, and so
        on where `advance` stopped.
        """
        if len(now.node) == 1:
            return now
        # Events of other kinds are of different nodes: any order gives the same.
        tie = now.node.astype(np.uint64)
        arrived = now.kind == ARRIVAL
        mail = swarm.mail
        place = now.about[arrived]
        sender = mail.sender[place]
        push = mail.push[place]
        order = self._draws.order(sender, push)
        tie[arrived] = folded(order, now.node[arrived])
        return now.at(np.lexsort((tie, now.kind, now.time)))


def waves(node: Int64Array) -> list[Int64Array]:
    """Groups rows by the number of earlier rows of the same node: all first ones, all second ones,
    ...

    >>> [wave.tolist() for wave in waves(np.array([3, 1, 3, 3]))]
    [[0, 1], [2], [3]]
    """
    order = np.argsort(node, kind="stable")
    is_first = np.append(True, np.diff(node[order]) != 0)
    # Where the rows of each node begin, once they are sorted by node, and where the last end.
    start = np.flatnonzero(is_first)
    ends = np.append(start, len(node))
    begin = np.repeat(start, np.diff(ends))
    rank = np.empty(len(node), np.int64)
    rank[order] = np.arange(len(node)) - begin
    waves_of_rows = int(rank.max()) + 1
    return [np.flatnonzero(rank == number) for number in range(waves_of_rows)]
