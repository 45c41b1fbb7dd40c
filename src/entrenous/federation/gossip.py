"""Gossip: nodes that push models to each other over a simulated network.

All events stand in one queue. Only its own events change a node, and a message carries the model
that its sender had when it pushed. Events before the earliest possible arrival of a new message are
therefore independent between nodes: those of different nodes run at once, those of one node in
their order. The result is that of one event after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, final

import numpy as np

from ..core.contract.declared import ContractError, bound
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
from ..core.contract.protocols import Catalogue, State, arrays_of
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
from ..privacy.push_noise import add_push_noise
from ..systems.gossip_learning import GossipLearning
from ..systems.gossip_node import oldest_after
from .network import Draws, Network
from .pool import Pool
from .recorder import NeighbourRecorder
from .shard import Executor, Ledger, Threads
from .swarm import ARRIVAL, RESTART, SWITCH, TIMER, Calendar, Counts, Mail, Swarm, restored
from .timeline import Happening, Timeline, waves

# Nodes that one call handles: enough to share the costs of a call.
BLOCK = 256
# Bytes of the models of nodes that are handled together; those of MovieLens-100K are far fewer.
GROUP_BYTES = 1 << 26
# Received models that are watched in a call of the first round.
TRIED = 4
# The updates of a model that has merged no other model.
UNMERGED = 1
# Peers that the bootstrap service names to a new node, at most.
KNOWN = 20
# The numbers that bad nodes send. The last one is valid, but comes once too often.
JUNK = np.array([np.nan, np.inf, 1e30, 0], np.float32)


T = TypeVar("T")


class PeerLies(Protocol):
    """An attack by colluding peers: replaces the models and headers that they push.

    Is called with copies of their models, float32 [m, width], the base model [width] that all began
    with, and their headers.
    """

    who: Int64Array
    """The nodes that lie."""

    def __call__(
        self, models: Float32Array, base: Float32Array, headers: Headers
    ) -> tuple[Float32Array, Headers]: ...


@final
class Gossip:
    """Runs one algorithm between the users of `data`, one node each.

    The result depends on algorithm, data, network and seed alone, not on the executor's threads or
    on where it was interrupted.

    weighting: the nodes' weighting sets with their candidates, if the protocol gives them; None =
    each node draws its own. avoid: rows that nodes never draw as negatives, as in `Rounds`.
    recorder: records the messages that reach some nodes. lies: an attack by colluders.
    """

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
        self.algorithm = algorithm.configured(self.catalogue)
        self.contract = bound(self.algorithm, self.catalogue)
        self._recorder = recorder
        self._lies = lies
        # Until this time the state and messages of nodes are compared with the declaration.
        self._checked = 0.0
        self.data = data
        self.seed = seed
        self.network = network or Network()
        self.executor: Executor = executor or Threads(1)
        self._everyone = np.arange(self.catalogue.users)
        self._key = key_of(seed, "gossip")
        self._node_keys = node_keys(seed, self._everyone)
        self._draws = Draws(self.network, self.catalogue.users, fold_name(self._key, "network"))
        self._base = base_model(self.algorithm, self.catalogue, seed)
        self._place = np.zeros(self.catalogue.users, np.int64)
        rows = device_data(data, weighting, avoid)
        self.private = self.algorithm.weighing(rows, weighting_keys(seed, self._everyone))
        # The pushes of nobody have the shapes of all others.
        nobody = self._everyone[:0]
        no_keys = np.empty(0, np.uint64)
        state = self._first_state(nobody)
        pushes = self.algorithm.on_timer(state, nobody, self.private, no_keys)
        self._group = max(1, GROUP_BYTES // self._base.nbytes)
        self._peers_named = pushes.headers.peers.shape[1]
        self._timeline = Timeline(self._draws, pushes.to.shape[1])

    # ---- from the start, or from where it was interrupted ----------------------------------------

    def start(self) -> Swarm:
        """The state at time 0: every node has the base model, has trained it on its rows, and knows
        some peers.
        """
        n = len(self._everyone)
        pool = Pool(len(self._base), 2 * n + len(JUNK))
        if self.network.bad:
            # The first slots, which are never freed, hold the models of bad nodes.
            bad = pool.take(len(JUNK))
            pool.values[bad] = JUNK[:, None]
            pool.kept = len(JUNK)
        slot = pool.take(n)
        pool.values[slot] = self._base
        swarm = Swarm(
            nodes=self._first_state(self._everyone),
            slot=slot,
            pool=pool,
            mail=Mail.empty(n, self._peers_named),
            calendar=Calendar(),
            counts=Counts(*(np.zeros(n, np.int64) for _ in Counts._fields)),
            away=self._draws.away.copy(),
            busy=np.zeros(n),
            round=0,
            ledger=Ledger(),
        )
        self._begin(swarm, self._everyone)
        self._timeline.begin(swarm)
        return swarm

    def restored(self, number: int, arrays: dict[str, Array]) -> Swarm:
        """The state of all nodes that `Swarm.arrays` described, after round `number`."""
        kept = len(JUNK) if self.network.bad else 0
        state = type(self._first_state(self._everyone[:1]))
        return restored(arrays, number, state, kept)

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

    def _first_state(self, who: Int64Array, count: Int64Array | None = None) -> State:
        """The private state of nodes at their start number `count`; None = the first start."""
        if count is None:
            count = np.zeros(len(who), np.int64)
        peers = first_known(who, len(self._everyone), self._node_keys[who], count)
        return first_nodes(self.algorithm, who, peers, len(self._base), self.seed)

    def _begin(self, swarm: Swarm, who: Int64Array) -> None:
        """Trains nodes with the base model for the first time."""
        keys = self._event_keys(swarm, who)
        place = self._placed(who)

        def begin(block: Int64Array) -> None:
            pool = swarm.pool.values
            slots = swarm.slot[block]
            draws = keys[place[block]]
            self.algorithm.on_start(pool, slots, swarm.nodes, block, self.private, draws)

        self._blocks(who, begin)

    def _groups(self, now: Happening) -> Iterator[Int64Array]:
        """Divides events between nodes if models are large: the messages of one group free memory
        for the next.
        """
        nodes = np.unique(now.node)
        if len(nodes) <= self._group:
            yield np.arange(len(now.node))
            return
        for low in range(0, len(nodes), self._group):
            group = nodes[low : low + self._group]
            yield np.flatnonzero(np.isin(now.node, group))

    # ---- events ----------------------------------------------------------------------------------

    def _handle(self, swarm: Swarm, now: Happening) -> None:
        """Handles events in waves: the first event of every node, then the second, ... The nodes of
        a wave differ.
        """
        actions = {
            RESTART: self._restart,
            SWITCH: self._switch,
            TIMER: self._push,
            ARRIVAL: self._receive,
        }
        for group in self._groups(now):
            for wave in waves(now.node[group]):
                rows = group[wave]
                for kind, act in actions.items():
                    alike = rows[now.kind[rows] == kind]
                    if len(alike):
                        act(swarm, now.at(alike))

    def _switch(self, swarm: Swarm, now: Happening) -> None:
        """Takes nodes away, or brings them back with their state."""
        swarm.away[now.node] ^= True

    def _restart(self, swarm: Swarm, now: Happening) -> None:
        """Restarts nodes with their rows and the base model."""
        who = now.node
        # A message in transit may need the old model: it keeps its slot.
        old = swarm.slot[who]
        new = swarm.pool.take(len(who))
        swarm.pool.values[new] = self._base
        swarm.slot[who] = new
        swarm.pool.drop(old)
        fresh = self._first_state(who, now.about + 1)
        for array, first in zip(swarm.nodes, fresh, strict=True):
            array[who] = first
        self._begin(swarm, who)

    def _push(self, swarm: Swarm, now: Happening) -> None:
        """Lets each present node push its model to the peers of its view, unless its uplink is busy
        with the push before: a model that waits for hours is worth less than the next one.
        """
        # Nodes that are away or still sending skip this push.
        now = now.at(~swarm.away[now.node] & (swarm.busy[now.node] <= now.time))
        who = now.node
        keys = self._event_keys(swarm, who)
        pushes = self.algorithm.on_timer(swarm.nodes, who, self.private, keys)
        if self._checks(now):
            check_pushes(self.contract, pushes, len(who))
        swarm.counts.pushed[who] += 1
        # Bad nodes push one of the permanent slots; the last kind of junk is one number too long.
        bad = self._draws.bad[who]
        junk = self._draws.junk[who]
        slot = np.where(bad, junk, swarm.slot[who])
        too_long = bad & (junk == len(JUNK) - 1)
        headers = pushes.headers._replace(length=pushes.headers.length + too_long)
        pushes = pushes._replace(headers=headers)
        copies = self._noised(swarm, who, slot)
        pushes, lies = self._lied(swarm, who, pushes, slot)
        self._send(swarm, now, pushes, slot)
        # From now on messages alone need these slots.
        swarm.pool.drop(np.concatenate([copies, lies]))

    def _noised(self, swarm: Swarm, who: Int64Array, slot: Int64Array) -> Int64Array:
        """Replaces, in `slot`, models that are pushed with noise by copies with noise. Returns the
        slots of the copies.
        """
        noisy = carries_noise(self.algorithm, swarm.nodes, who)
        noisy = noisy[~self._draws.bad[who[noisy]]]
        if not len(noisy):
            return noisy
        models = swarm.pool.values[slot[noisy]]
        nodes = who[noisy]
        keys = self._node_keys[nodes]
        ages = swarm.nodes.age[nodes]  # type: ignore[attr-defined]
        add_push_noise(self.algorithm, models, keys, ages)
        return _in_new_slots(swarm, slot, noisy, models)

    def _lied(
        self, swarm: Swarm, who: Int64Array, pushes: Pushes, slot: Int64Array
    ) -> tuple[Pushes, Int64Array]:
        """Replaces the pushes of colluders, and in `slot` their models. Returns all pushes, and the
        slots of the lies.
        """
        if self._lies is None:
            return pushes, slot[:0]
        # Only copies change: the nodes keep their honest models.
        lying = np.flatnonzero(np.isin(who, self._lies.who))
        if not len(lying):
            return pushes, lying
        honest = swarm.pool.values[swarm.slot[who[lying]]]
        models, lies = self._lies(honest, self._base, pushes.headers.at(lying))
        headers = {name: np.array(array) for name, array in arrays_of(pushes.headers).items()}
        for name, part in arrays_of(lies).items():
            headers[name][lying] = part
        pushes = pushes._replace(headers=Headers(**headers))
        return pushes, _in_new_slots(swarm, slot, lying, models)

    def _send(self, swarm: Swarm, now: Happening, pushes: Pushes, slot: Int64Array) -> None:
        """Sends the messages, peer by peer, as fast as each sender's uplink takes them."""
        to = pushes.to
        size = self.contract.message_bytes
        addressed = to != NOBODY
        ways = range(to.shape[1])
        # Each message leaves the uplink after those before it, and then travels.
        free = np.maximum(now.time, swarm.busy[now.node])
        each = size / self._draws.bandwidth[now.node]
        left = free[:, None] + np.cumsum(addressed, axis=1) * each[:, None]
        swarm.busy[now.node] = left[:, -1]
        latency = [self._draws.latency(now.node, now.about, way) for way in ways]
        arrive = left + np.stack(latency, axis=1)
        lost_ways = [self._draws.lost(now.node, now.about, way) for way in ways]
        lost = np.stack(lost_ways, axis=1) | self._cut_off(now, to, arrive)
        # The mail keeps one place for all copies of a push.
        going = addressed & ~lost
        copies = going.sum(axis=1)
        posted = np.flatnonzero(copies)
        headers = pushes.headers.at(posted)
        places = np.zeros(len(to), np.int64)
        places[posted] = swarm.mail.post(headers, now.about[posted], slot[posted], copies[posted])
        swarm.pool.share(slot[posted])
        row, way = np.nonzero(going)
        receiver = to[row, way].astype(np.int64)
        swarm.calendar.schedule(ARRIVAL, arrive[row, way], receiver, places[row])
        sent = int(addressed.sum())
        swarm.ledger = swarm.ledger.plus(
            Ledger(
                bytes_up=sent * size,
                device_rounds=len(now.node),
                messages=sent,
                lost=sent - len(row),
            )
        )

    def _cut_off(self, now: Happening, to: Array, arrive: Float64Array) -> Array:
        """True for messages that would cross a cut network, bool as `to`."""
        low, high = self.network.cut
        other = self._draws.side[now.node][:, None] != self._draws.side[to]
        return other & (arrive >= low) & (now.time[:, None] < high)

    def _receive(self, swarm: Swarm, now: Happening) -> None:
        """Delivers models: each present node judges, merges and trains, or refuses."""
        # Messages to nodes that are away are lost.
        here = ~swarm.away[now.node]
        who = now.node[here]
        places = now.about[here]
        time = now.time[here]
        pool = swarm.pool
        # A node whose model is still needed by a message in transit writes to a new slot.
        old = swarm.slot[who]
        into = old.copy()
        moves = pool.needed[old] > 1
        into[moves] = pool.take(int(moves.sum()))
        arrivals = Arrivals(
            pool=pool.values,
            who=who,
            own=old,
            received=swarm.mail.slot[places],
            into=into,
            headers=swarm.mail.headers(places),
            keys=self._event_keys(swarm, who),
            numbers=pool.numbers,
            oldest=self._oldest(time),
        )
        if self._recorder is not None:
            models = pool.values[arrivals.received]
            self._recorder.arrived(time, who, models, arrivals.headers, self._base)
        # Received models are shared: an algorithm that wrote to one would change it for others.
        watched = arrivals.received[: TRIED if self._checks(now) else 0]
        before = pool.values[watched].tobytes()
        refused = self._judged(swarm, arrivals) != ACCEPTED
        if pool.values[watched].tobytes() != before:
            raise ContractError(
                f"{self.contract.name}: model",
                "`on_message` writes to what it received",
                expected="pool[into] alone",
            )
        # Of the two slots of a node one is now free, and so are those of delivered messages.
        pool.drop(np.where(refused, into, old)[moves])
        swarm.slot[who] = np.where(refused, old, into)
        pool.drop(swarm.mail.delivered(now.about))
        swarm.counts.received[who] += 1
        swarm.counts.refused[who] += refused
        swarm.ledger = swarm.ledger.plus(
            Ledger(
                bytes_down=len(who) * self.contract.message_bytes,
                lost=int((~here).sum()),
                refused=int(refused.sum()),
            )
        )

    def _oldest(self, time: Float64Array) -> Int64Array | None:
        """The most updates that a model can have had at some times, int64 [m]; a node knows them
        from the start of the federation. None for an algorithm with ages of another meaning.
        """
        algorithm = self.algorithm
        if not isinstance(algorithm, GossipLearning):
            return None
        periods = time * self._draws.fastest
        return oldest_after(periods, algorithm.view, algorithm.exploited, self.catalogue.users)

    def _checks(self, now: Happening) -> bool:
        """True if events are compared with the declaration: in the first round, and in all rounds
        with a strict executor.
        """
        return self.executor.strict or (len(now.time) > 0 and float(now.time[0]) < self._checked)

    def _judged(self, swarm: Swarm, arrivals: Arrivals) -> Int8Array:
        """The answer of each node to the message that it got, int8 [m]."""
        place = self._placed(arrivals.who)

        def judge(block: Int64Array) -> Int8Array:
            return self.algorithm.on_message(arrivals.at(place[block]), swarm.nodes, self.private)

        results = self._blocks(arrivals.who, judge)
        if results:
            return np.concatenate(results)
        return np.empty(0, np.int8)

    # ---- small parts -----------------------------------------------------------------------------

    def _blocks(self, who: Int64Array, act: Callable[[Int64Array], T]) -> list[T]:
        """Calls a function for blocks of nodes, in threads. Returns the results in their order."""
        share = -(-len(who) // self.executor.workers)
        size = max(1, min(BLOCK, share))
        blocks = [who[low : low + size] for low in range(0, len(who), size)]
        return self.executor.map(act, blocks)

    def _placed(self, who: Int64Array) -> Int64Array:
        """The place in `who` of each of its nodes, int64 [n]; of other nodes any number."""
        self._place[who] = np.arange(len(who))
        return self._place

    def _event_keys(self, swarm: Swarm, who: Int64Array) -> UInt64Array:
        """A key for each node's next event."""
        keys = folded(self._node_keys[who], swarm.counts.events[who])
        swarm.counts.events[who] += 1
        return keys


def _in_new_slots(
    swarm: Swarm, slot: Int64Array, places: Int64Array, models: Float32Array
) -> Int64Array:
    """Puts models into new slots, which stand in `slot` at `places` from then on. Returns them."""
    new = swarm.pool.take(len(places))
    swarm.pool.values[new] = models
    slot[places] = new
    return new


# ---- named by the seed of a federation: the same in a simulation and on a device -----------------


def node_keys(seed: int, who: Int64Array) -> UInt64Array:
    """The keys of nodes, uint64 [m]: event number e of a node draws from `folded(key, e)`."""
    return folds(fold_name(key_of(seed, "gossip"), "node"), who)


def weighting_keys(seed: int, who: Int64Array) -> UInt64Array:
    """The keys from which nodes draw their weighting sets, uint64 [m]."""
    return folds(fold_name(key_of(seed, "gossip"), "weighting"), who)


def base_model(algorithm: GossipAlgorithm, catalogue: Catalogue, seed: int) -> Float32Array:
    """The model that every node begins with, float32 [width], of a configured algorithm."""
    return algorithm.init_model(catalogue, fold_name(key_of(seed, "gossip"), "model"))


def first_known(who: Int64Array, n: int, keys: UInt64Array, count: Int64Array) -> Int32Array:
    """Draws the peers that each of m nodes knows after its start number `count`, int32 [m, at most
    KNOWN]. keys: [m], those of `node_keys`.
    """
    return introduced(who, n, min(KNOWN, n - 1), folded(keys, -1 - count))


def first_nodes(
    algorithm: GossipAlgorithm, who: Int64Array, known: Int32Array, width: int, seed: int
) -> State:
    """The initial private state of nodes before their first event, leading axis [m]."""
    return algorithm.init_nodes(who, known, width, fold_name(key_of(seed, "gossip"), "private"))


def carries_noise(algorithm: Any, nodes: Any, who: Int64Array) -> Int64Array:
    """The places in `who` of nodes whose latest push carries noise, int64 ascending: of nodes that
    have merged no model yet, and of all nodes in their first `noisy_pushes` pushes.
    """
    if not isinstance(algorithm, GossipLearning) or not algorithm.push_noise:
        return np.empty(0, np.int64)
    # 0 noisy pushes stand for all of them.
    first = nodes.pushes[who] <= (algorithm.noisy_pushes or np.inf)
    unmerged = nodes.age[who] <= UNMERGED
    return np.flatnonzero(first | unmerged)


def device_data(
    data: Interactions, weighting: Held | None, avoid: Interactions | None = None
) -> DeviceData:
    """The data of each user's device: its rows, and the weighting set of the protocol, which is
    empty if the protocol gives none.
    """
    users = len(data.users)
    histories = data.histories(np.arange(users), avoid)
    if weighting is None:
        empty = Weighing(
            ptr=np.zeros(users + 1, np.int64),
            item=np.empty(0, np.int32),
            candidates=np.empty((0, 1), np.int32),
        )
        return DeviceData(histories, empty)
    # A protocol with weighting sets gives candidates.
    assert weighting.candidates is not None
    rows = weighting.rows
    return DeviceData(histories, Weighing(rows.ptr, rows.item, weighting.candidates))
