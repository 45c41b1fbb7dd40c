"""Gossip: nodes that push models to each other, over a simulated network. One heap of events, in
which independent ones run in parallel.

A node is changed by its own events alone, and a message carries what its sender had when it was
sent. So all that happens before the first message that these events send could arrive is
independent between nodes: those of different nodes run at once, those of one node in their order.
The result is that of one event after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, final

import numpy as np

from ..algorithms.gossip_learning import GossipLearning
from ..algorithms.gossip_node import oldest_after
from ..core.contract.declared import Contract, ContractError, bound
from ..core.contract.enforce import check_kept, check_pushes
from ..core.contract.gossip import (
    ACCEPTED,
    NOBODY,
    Arrivals,
    DeviceData,
    GossipAlgorithm,
    Headers,
    Pushes,
    Weighing,
)
from ..core.contract.protocols import Catalogue, State
from ..core.keys import fold_name, folded, folds
from ..core.keys import key as key_of
from ..core.types import (
    Array,
    Float32Array,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from ..data.interactions import Interactions
from ..data.split.types import Held
from ..kernels.peer_sampling import introduced
from .executors import Executor, Threads
from .ledger import Ledger
from .network import Draws, Network
from .pool import Pool
from .push_noise import add_push_noise, carries_noise
from .recorder import NeighbourRecorder
from .swarm import ARRIVAL, RESTART, SWITCH, TIMER, Calendar, Counts, Mail, Swarm, restored
from .timeline import Happening, Timeline, waves

BLOCK = 256  # nodes that one call handles: enough to share the costs of a call
GROUP_BYTES = (
    1 << 26
)  # of the models of nodes that are handled together; far more than all of MovieLens-100K's
TRIED = 4  # received models that are watched in a call of the first round
KNOWN = 20  # peers that the bootstrap service names to a new node, at most
HUGE = np.float32(1e30)  # what a bad node sends instead of a number
JUNK = (
    np.float32(np.nan),
    np.float32(np.inf),
    HUGE,
    np.float32(0),
)  # the last is not wrong, but one number too many


class PeerLies(Protocol):
    """What colluding peers push in the place of their models and headers.

    who: int64, the nodes that lie. Called with copies of their models, float32 [m, width], those of
    the base model [width] that all began with, and their headers; returns what they push
    instead.
    """

    who: Int64Array

    def __call__(
        self, models: Float32Array, base: Float32Array, headers: Headers
    ) -> tuple[Float32Array, Headers]: ...


@final
class Gossip:
    """Runs one algorithm between the users of `data`, one node each.

    The result depends on algorithm, data, network and seed alone: not on the executor's threads,
    nor on where it was interrupted. weighting: the nodes' weighting sets with their candidates, of
    a protocol that gives them; None = each node draws its own. avoid: what nodes never draw as
    negatives, as in `Rounds`. recorder: takes down what reaches some of the nodes. lies: what
    colluders push, in a test of what they can do."""

    def __init__(
        self,
        algorithm: GossipAlgorithm,
        data: Interactions,
        *,
        seed: int = 0,
        network: Network | None = None,
        weighting: Held | None = None,
        executor: Executor | None = None,
        avoid: Interactions | None = None,
        recorder: NeighbourRecorder | None = None,
        lies: PeerLies | None = None,
    ) -> None:
        self.catalogue = data.catalogue
        self.algorithm: GossipAlgorithm = algorithm.configured(self.catalogue)
        self.contract: Contract = bound(self.algorithm, self.catalogue)
        self._recorder, self._lies = recorder, lies
        # until then, what nodes keep, push and do to what they receive is held against the
        # declaration
        self._checked = 0.0
        self.data, self.seed, self.network = data, seed, network or Network()
        self.executor: Executor = executor or Threads(1)
        self._everyone = np.arange(self.catalogue.users)
        self._key = key_of(seed, "gossip")
        self._node_keys = node_keys(seed, self._everyone)
        self._draws = Draws(self.network, self.catalogue.users, fold_name(self._key, "network"))
        self._base = base_model(self.algorithm, self.catalogue, seed)
        self._place = np.zeros(self.catalogue.users, np.int64)
        self.private = self.algorithm.weighing(
            device_data(data, weighting, avoid), weighting_keys(seed, self._everyone)
        )
        nobody = self._everyone[:0]
        pushes = self.algorithm.on_timer(
            self._first_state(nobody), nobody, self.private, np.empty(0, np.uint64)
        )
        self._group = max(1, GROUP_BYTES // self._base.nbytes)
        self._named, self._timeline = (
            pushes.headers.peers.shape[1],
            Timeline(self._draws, pushes.to.shape[1]),
        )

    # ---- from the start, or from where it was interrupted ----------------------------------------

    def start(self) -> Swarm:
        """The state at time 0: every node has the base model, has trained it on its rows, and knows
        some peers.
        """
        n, width = len(self._everyone), len(self._base)
        pool, counts = (
            Pool(width, 2 * n + len(JUNK)),
            Counts(*(np.zeros(n, np.int64) for _ in Counts._fields)),
        )
        self._junk(pool)
        slot = pool.take(n)
        pool.values[slot] = self._base
        nodes = self._first_state(self._everyone)
        swarm = Swarm(
            nodes,
            slot,
            pool,
            Mail.empty(n, self._named),
            Calendar(),
            counts,
            self._draws.away.copy(),
            np.zeros(n),
            0,
            Ledger(),
        )
        self._begin(swarm, self._everyone)
        self._timeline.begin(swarm)
        return swarm

    def restored(self, number: int, arrays: dict[str, Array]) -> Swarm:
        """The state of all nodes that `Swarm.arrays` described, after round `number`."""
        kept = len(JUNK) if self.network.bad else 0
        return restored(arrays, number, type(self._first_state(self._everyone[:1])), kept)

    def advance(self, swarm: Swarm, until: int) -> Swarm:
        """Runs `swarm` until `until` rounds (units of time) are over. Overwrites it."""
        if not self._checked:
            self._checked = swarm.round + 1.0
            check_kept(self.contract, swarm.nodes, len(self._everyone))
        while swarm.calendar.next_time() < until:
            now = self._timeline.next(swarm, until)
            with self.executor.stage(int(now.time[0]), "gossip"):
                self._handle(swarm, now)
        swarm.round = until
        return swarm

    def _junk(self, pool: Pool) -> None:
        """The slots 0, 1, ... of what bad nodes send."""
        if self.network.bad:
            slots = pool.take(len(JUNK))
            pool.values[slots], pool.kept = np.array(JUNK)[:, None], len(JUNK)

    def _first_state(self, who: Int64Array) -> State:
        return first_nodes(
            self.algorithm,
            who,
            self._peers(who, np.zeros(len(who), np.int64)),
            len(self._base),
            self.seed,
        )

    def _peers(self, who: Int64Array, count: Int64Array) -> Array:
        """Whom the bootstrap service names to each node at its start number `count`, int32 [m, at
        most KNOWN]: any but itself.
        """
        return first_known(who, len(self._everyone), self._node_keys[who], count)

    def _begin(self, swarm: Swarm, who: Int64Array) -> None:
        """The first training of nodes that have the base model."""
        keys = self._event_keys(swarm, who)
        algorithm, at = self.algorithm, self._placed(who)
        self._blocks(
            who,
            lambda some: algorithm.on_start(
                swarm.pool.values, swarm.slot[some], swarm.nodes, some, self.private, keys[at[some]]
            ),
        )

    def _groups(self, swarm: Swarm, now: Happening) -> Iterator[Int64Array]:
        """All rows at once; where models are large, those of some nodes after the others, first of
        those who free the most memory.
        """
        left = np.unique(now.node)
        if len(left) <= self._group:
            yield np.arange(len(now.node))
            return
        while len(left):
            rows = np.flatnonzero(np.isin(now.node, left))
            arriving = rows[now.kind[rows] == ARRIVAL]
            order = np.argsort(
                -swarm.freed(left, now.node[arriving], now.about[arriving]), kind="stable"
            )
            yield rows[np.isin(now.node[rows], left[order[: self._group]])]
            left = np.sort(left[order[self._group :]])

    # ---- events ----------------------------------------------------------------------------------

    def _handle(self, swarm: Swarm, now: Happening) -> None:
        """Waves: the first event of every node, then the second, ... Within a wave nodes differ."""
        for rows in (
            group[wave] for group in self._groups(swarm, now) for wave in waves(now.node[group])
        ):
            for kind, act in (
                (RESTART, self._restart),
                (SWITCH, self._switch),
                (TIMER, self._push),
                (ARRIVAL, self._receive),
            ):
                some = rows[now.kind[rows] == kind]
                if len(some):
                    act(swarm, now.at(some))

    def _switch(self, swarm: Swarm, now: Happening) -> None:
        """Nodes leave, or come back with their state."""
        swarm.away[now.node] ^= True

    def _restart(self, swarm: Swarm, now: Happening) -> None:
        """Nodes begin anew, with their rows and the base model."""
        who = now.node
        old, new = swarm.slot[who], swarm.pool.take(len(who))
        swarm.pool.values[new] = self._base
        swarm.slot[who] = new
        swarm.pool.drop(old)
        fresh = first_nodes(
            self.algorithm, who, self._peers(who, now.about + 1), len(self._base), self.seed
        )
        for array, first in zip(swarm.nodes, fresh, strict=True):
            array[who] = first
        self._begin(swarm, who)

    def _push(self, swarm: Swarm, now: Happening) -> None:
        """The timers of nodes: each present one pushes its model to the peers of its view, unless
        its uplink is still busy with the push before: a model that waits for hours is worth less
        than the next one.
        """
        now = now.at(~swarm.away[now.node] & (swarm.busy[now.node] <= now.time))
        who, keys = now.node, self._event_keys(swarm, now.node)
        pushes = self.algorithm.on_timer(swarm.nodes, who, self.private, keys)
        if self._checks(now):
            check_pushes(self.contract, pushes, len(who))
        swarm.counts.pushed[who] += 1
        slot = np.where(self._draws.bad[who], self._draws.junk[who], swarm.slot[who])
        length = pushes.headers.length + (
            self._draws.bad[who] & (self._draws.junk[who] == len(JUNK) - 1)
        )
        copies = self._noised(swarm, who, slot)
        pushes = pushes._replace(headers=pushes.headers._replace(length=length))
        pushes, slot, made = self._lied(swarm, who, pushes, slot)
        self._send(swarm, now, pushes, slot)
        swarm.pool.drop(np.concatenate([copies, made]))

    def _noised(self, swarm: Swarm, who: Int64Array, slot: Int64Array) -> Int64Array:
        """Puts copies with noise in the place of the models that are pushed with it, in `slot`, and
        returns their slots.
        """
        some = carries_noise(self.algorithm, swarm.nodes, who)
        some = some[~self._draws.bad[who[some]]]
        if not len(some):
            return some
        copies, nodes = swarm.pool.take(len(some)), swarm.nodes
        swarm.pool.values[copies] = swarm.pool.values[slot[some]]
        models = swarm.pool.values[copies]
        add_push_noise(self.algorithm, models, self._node_keys[who[some]], nodes.age[who[some]])  # type: ignore[attr-defined]
        swarm.pool.values[copies], slot[some] = models, copies
        return copies

    def _lied(
        self, swarm: Swarm, who: Int64Array, pushes: Pushes, slot: Int64Array
    ) -> tuple[Pushes, Int64Array, Int64Array]:
        """The pushes of nodes with those of colluders replaced, and the slots that were taken for
        these.
        """
        lying = (
            np.empty(0, np.int64)
            if self._lies is None
            else np.flatnonzero(np.isin(who, self._lies.who))
        )
        if self._lies is None or not len(lying):
            return pushes, slot, slot[:0]
        models, said = self._lies(
            swarm.pool.values[swarm.slot[who[lying]]].copy(), self._base, pushes.headers.at(lying)
        )
        made, slot = swarm.pool.take(len(lying)), slot.copy()
        swarm.pool.values[made], slot[lying] = models, made
        whole = {name: np.array(array) for name, array in pushes.headers._asdict().items()}
        for name, part in said._asdict().items():
            whole[name][lying] = part
        return pushes._replace(headers=Headers(**whole)), slot, made

    def _send(self, swarm: Swarm, now: Happening, pushes: Pushes, slot: Int64Array) -> None:
        """Puts the messages on their way, peer by peer, as each sender's uplink takes them."""
        to, size = pushes.to, self.contract.message_bytes
        starts = (
            np.maximum(now.time, swarm.busy[now.node])[:, None]
            + np.cumsum(to != NOBODY, axis=1) * (size / self._draws.bandwidth[now.node])[:, None]
        )
        arrive = starts + np.stack(
            [self._draws.latency(now.node, now.about, way) for way in range(to.shape[1])], axis=1
        )
        swarm.busy[now.node] = starts[:, -1]
        lost = np.stack(
            [self._draws.lost(now.node, now.about, way) for way in range(to.shape[1])], axis=1
        ) | self._cut_off(now, to, arrive)
        going = (to != NOBODY) & ~lost
        sent, copies = int((to != NOBODY).sum()), going.sum(axis=1)
        some = np.flatnonzero(copies)
        places = np.zeros(len(to), np.int64)
        places[some] = swarm.mail.post(
            pushes.headers.at(some), now.about[some], slot[some], copies[some]
        )
        swarm.pool.share(slot[some])
        row, way = np.nonzero(going)
        swarm.calendar.schedule(
            ARRIVAL, arrive[row, way], to[row, way].astype(np.int64), places[row]
        )
        ledger = swarm.ledger
        swarm.ledger = ledger._replace(
            bytes_up=ledger.bytes_up + sent * size,
            device_rounds=ledger.device_rounds + len(now.node),
            messages=ledger.messages + sent,
            lost=ledger.lost + sent - len(row),
        )

    def _cut_off(self, now: Happening, to: Array, arrive: Float64Array) -> Array:
        """Whether a message would cross a cut network, bool as `to`."""
        low, high = self.network.cut
        other = self._draws.side[now.node][:, None] != self._draws.side[to]
        return other & (arrive >= low) & (now.time[:, None] < high)

    def _receive(self, swarm: Swarm, now: Happening) -> None:
        """Models arrive: each present node judges, merges and trains, or refuses."""
        here = ~swarm.away[now.node]
        who, places = now.node[here], now.about[here]
        own, kept = swarm.slot[who], swarm.pool
        into = own.copy()
        moves = kept.needed[own] > 1
        into[moves] = kept.take(int(moves.sum()))
        arrivals = Arrivals(
            kept.values,
            who,
            own,
            swarm.mail.slot[places],
            into,
            swarm.mail.headers(places),
            self._event_keys(swarm, who),
            kept.numbers,
            self._oldest(now.time[here]),
        )
        if self._recorder is not None:
            self._recorder.arrived(
                now.time[here], who, kept.values[arrivals.received], arrivals.headers, self._base
            )
        some = arrivals.received[: TRIED if self._checks(now) else 0]
        before = kept.values[some].tobytes()
        refused = self._judged(swarm, arrivals) != ACCEPTED
        if kept.values[some].tobytes() != before:
            raise ContractError(
                f"{self.contract.name}: model",
                "`on_message` writes to what it received",
                expected="pool[into] alone",
            )
        kept.drop(np.where(refused, into, own)[moves])
        swarm.slot[who] = np.where(refused, own, into)
        kept.drop(swarm.mail.delivered(now.about))
        swarm.counts.received[who] += 1
        swarm.counts.refused[who] += refused
        size, ledger = self.contract.message_bytes, swarm.ledger
        swarm.ledger = ledger._replace(
            bytes_down=ledger.bytes_down + len(who) * size,
            lost=ledger.lost + int((~here).sum()),
            refused=ledger.refused + int(refused.sum()),
        )

    def _oldest(self, time: Float64Array) -> Int64Array | None:
        """The updates that a model can have had at some times, int64 [m], as a node knows them that
        knows when the federation began; None for an algorithm whose ages are its own."""
        algorithm = self.algorithm
        if not isinstance(algorithm, GossipLearning):
            return None
        periods = time * self._draws.fastest
        return oldest_after(periods, algorithm.view, algorithm.exploited, self.catalogue.users)

    def _checks(self, now: Happening) -> bool:
        """Whether events are held against the declaration: in the first round, and in all of them
        with a strict executor.
        """
        return self.executor.strict or (len(now.time) > 0 and float(now.time[0]) < self._checked)

    def _judged(self, swarm: Swarm, arrivals: Arrivals) -> Int8Array:
        place, algorithm = self._placed(arrivals.who), self.algorithm
        results = self._blocks(
            arrivals.who,
            lambda some: algorithm.on_message(arrivals.at(place[some]), swarm.nodes, self.private),
        )
        return np.concatenate(results) if results else np.empty(0, np.int8)

    # ---- small parts -----------------------------------------------------------------------------

    def _blocks(self, who: Int64Array, act: object) -> list[Int8Array]:
        size = max(1, min(BLOCK, -(-len(who) // self.executor.workers)))
        return self.executor.map(act, [who[low : low + size] for low in range(0, len(who), size)])  # type: ignore[arg-type]

    def _placed(self, who: Int64Array) -> Int64Array:
        """Where in `who` each node stands, int64 [n]; of others what was there."""
        self._place[who] = np.arange(len(who))
        return self._place

    def _event_keys(self, swarm: Swarm, who: Int64Array) -> UInt64Array:
        """A key for each node's next event."""
        keys = folded(self._node_keys[who], swarm.counts.events[who])
        swarm.counts.events[who] += 1
        return keys


# ---- what a federation's seed names: the same for a node of a simulation and a node on a device of


def node_keys(seed: int, who: Int64Array) -> UInt64Array:
    """Keys that nodes draw from, uint64 [m]: event number e of a node from `folded(key, e)`."""
    return folds(fold_name(key_of(seed, "gossip"), "node"), who)


def weighting_keys(seed: int, who: Int64Array) -> UInt64Array:
    """Keys that nodes draw their weighting sets from, uint64 [m]."""
    return folds(fold_name(key_of(seed, "gossip"), "weighting"), who)


def base_model(algorithm: GossipAlgorithm, catalogue: Catalogue, seed: int) -> Float32Array:
    """The model that every node begins with, float32 [width], of a configured algorithm."""
    return algorithm.init_model(catalogue, fold_name(key_of(seed, "gossip"), "model"))


def first_known(who: Int64Array, n: int, keys: UInt64Array, count: Int64Array) -> Int32Array:
    """The peers that each of n nodes knows at its start number `count`, int32 [m, at most KNOWN];
    keys: of `node_keys`, [m].
    """
    return introduced(who, n, min(KNOWN, n - 1), folded(keys, -1 - count))


def first_nodes(
    algorithm: GossipAlgorithm, who: Int64Array, known: Int32Array, width: int, seed: int
) -> State:
    """The initial private state of nodes before their first event, leading axis [m]."""
    return algorithm.init_nodes(who, known, width, fold_name(key_of(seed, "gossip"), "private"))


def device_data(
    data: Interactions, weighting: Held | None, avoid: Interactions | None = None
) -> DeviceData:
    """The data of each user's device: its rows and the weighting set that the protocol gives it,
    none without.
    """
    histories = data.histories(np.arange(len(data.users)), avoid)
    if weighting is None:
        return DeviceData(
            histories,
            Weighing(
                np.zeros(len(data.users) + 1, np.int64),
                np.empty(0, np.int32),
                np.empty((0, 1), np.int32),
            ),
        )
    assert weighting.candidates is not None  # of a protocol that gives weighting sets
    return DeviceData(
        histories, Weighing(weighting.rows.ptr, weighting.rows.item, weighting.candidates)
    )
