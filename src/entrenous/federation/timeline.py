"""What happens next between peers: the events that cannot depend on each other, in the order in
which they would happen.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from ..core.keys import folded
from ..core.types import Array, Float64Array, Int64Array
from .network import Draws
from .swarm import ARRIVAL, RESTART, SWITCH, TIMER, Swarm


class Happening(NamedTuple):
    """The events of one stretch of time in order, one row for each node concerned. time, kind,
    node, about: as in `EventBatch`.
    """

    time: Float64Array
    kind: Int64Array
    node: Int64Array
    about: Int64Array

    def at(self, rows: Array) -> Happening:
        """The events at `rows`, a subset in that order."""
        return Happening(self.time[rows], self.kind[rows], self.node[rows], self.about[rows])


@final
class Timeline:
    """Reads the event queue of a gossip simulation ahead, as far as no event read can change a
    later one. ways: peers that a node pushes to."""

    def __init__(self, draws: Draws, ways: int) -> None:
        self._draws, self._ways = draws, ways

    def begin(self, swarm: Swarm) -> None:
        """Schedule the first event of each repeating kind for every node."""
        draws, everyone, calendar = self._draws, np.arange(len(swarm.slot)), swarm.calendar
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
        calendar, found = swarm.calendar, []
        first, horizon = calendar.heap[0][:2], float(until)
        while calendar.heap and (calendar.heap[0][:2] == first or calendar.heap[0][0] < horizon):
            time, event = calendar.pop()
            found.append(
                Happening(
                    np.full(len(event.node), time),
                    np.full(len(event.node), event.kind),
                    event.node,
                    event.about,
                )
            )
            if event.kind == TIMER:
                horizon = min(horizon, self._earliest(found[-1]))
            self._repeat(swarm, found[-1], event.kind)
        return self._in_order(
            swarm, Happening(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        )

    def _earliest(self, now: Happening) -> float:
        """Before this no message that these timers send arrives. How long one takes is drawn from
        names, so it is known beforehand.
        """
        return float(
            min(
                (now.time + self._draws.latency(now.node, now.about, way)).min()
                for way in range(self._ways)
            )
        )

    def _repeat(self, swarm: Swarm, now: Happening, kind: int) -> None:
        count = {
            TIMER: swarm.counts.timers,
            SWITCH: swarm.counts.switches,
            RESTART: swarm.counts.restarts,
        }.get(kind)
        if count is None:
            return
        count[now.node] += 1
        times = count[now.node]
        if kind == TIMER:
            after = self._draws.gap(now.node, times)
        elif kind == SWITCH:
            after = self._draws.stay(now.node, times, self._draws.away[now.node] ^ (times % 2 == 1))
        else:
            after = self._draws.until_restart(now.node, times)
        swarm.calendar.schedule(kind, now.time + after, now.node, times)

    def _in_order(self, swarm: Swarm, now: Happening) -> Happening:
        """By time and kind; messages of one time in an order drawn from their names, whatever was
        scheduled first: that depends on which events were handled at once, and so on where
        `advance` stopped.
        """
        if len(now.node) == 1:
            return now
        tie, arrived = now.node.astype(np.uint64), now.kind == ARRIVAL
        mail, place = swarm.mail, now.about[arrived]
        tie[arrived] = folded(
            self._draws.order(mail.sender[place], mail.push[place]), now.node[arrived]
        )
        return now.at(np.lexsort((tie, now.kind, now.time)))


def waves(node: Int64Array) -> list[Int64Array]:
    """Rows by how many earlier rows have the same node: all first ones, all second ones, ...

    >>> [wave.tolist() for wave in waves(np.array([3, 1, 3, 3]))]
    [[0, 1], [2], [3]]
    """
    order = np.argsort(node, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(node[order]) != 0))
    rank = np.empty(len(node), np.int64)
    rank[order] = np.arange(len(node)) - np.repeat(start, np.diff(np.append(start, len(node))))
    return [np.flatnonzero(rank == number) for number in range(int(rank.max()) + 1)]
