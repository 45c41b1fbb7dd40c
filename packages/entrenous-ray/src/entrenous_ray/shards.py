"""Users in shards, one for each worker, which alone holds their histories and, during training,
their private state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.protocols import Catalogue, FederatedAlgorithm, State, Visits
from entrenous.core.contract.update import Total, merge_totals
from entrenous.core.types import Int64Array
from entrenous.data.interactions import NOT_READ, Interactions, Vocabulary
from entrenous.federation.shard import Ledger, Shard, Threads
from entrenous.privacy.protection import Protection

from .crew import About, Crew, about_here

# The feature of items that no device uses.
TITLE = "title"


class ShardInput(NamedTuple):
    """The input of a worker: the algorithm and the rows of its users."""

    algorithm: FederatedAlgorithm
    catalogue: Catalogue
    data: Interactions
    """The rows of these users alone: user r is users[r]."""
    avoid: Interactions | None
    """As `data`: rows that are never drawn as negatives."""
    users: Int64Array
    """int64 [m]."""
    threads: int
    protection: Protection | None


@final
class ShardHand:
    """One shard in a worker process, with the private state of its users."""

    def about(self) -> About:
        """The process id, the machine's name and the library versions of this worker."""
        return about_here()

    def hold(self, given: ShardInput) -> None:
        """Loads the rows of some users and builds their shard, without private state yet."""
        self.shard = Shard(
            given.algorithm,
            given.catalogue,
            _own(given.data),
            given.users.copy(),
            executor=Threads(given.threads),
            avoid=None if given.avoid is None else _own(given.avoid),
            protection=given.protection,
        )
        self.sent: Total | None = None

    def load(self, devices: State) -> None:
        """Loads the private state of the shard's users: leading axis = users."""
        self.devices = _copied(devices)
        self.changed = np.zeros(len(self.shard.users), np.bool_)

    def work(
        self, download: State, users: Int64Array, key: np.uint64, clip: float
    ) -> tuple[Total, Ledger]:
        """Trains some of the shard's users for one round; clip: as in `Shard.work`. Returns the sum
        of their updates, and the ledger of the bytes sent.
        """
        # The sum of the call before has left with its answer.
        if self.sent is not None:
            self.shard.release(self.sent)
            self.sent = None
        users = users.copy()
        total, sent = self.shard.work(download, self.devices, users, key, clip=clip)
        self.changed[np.searchsorted(self.shard.users, users)] = True
        self.sent = total
        # The content of the table travels as rows and senders.
        return total._replace(table=None), sent

    def gather(self) -> tuple[Int64Array, State]:
        """The users trained since the last call, int64, and their private state."""
        # State that no round has touched is the caller's already.
        rows = np.flatnonzero(self.changed)
        self.changed[:] = False
        if len(rows) == len(self.changed):
            return self.shard.users, self.devices
        return self.shard.users[rows], type(self.devices)(*(array[rows] for array in self.devices))


@final
class Shards:
    """The devices of all users, divided over the workers of a crew. Their sums are added in the
    order of the shards, so the result is always the same.

    The caller's private state is that of the last `load` or `gather`; the workers' is newer.
    """

    def __init__(
        self,
        crew: Crew,
        algorithm: FederatedAlgorithm,
        data: Interactions,
        avoid: Interactions | None,
        protection: Protection | None = None,
    ) -> None:
        self._crew = crew
        self._algorithm = algorithm
        self._data = data
        self._avoid = avoid
        self._protection = protection
        self._bounds = bounds(data.counts, crew.many)
        # A shard without users, which keeps the sum of all shards.
        self._none = np.empty(0, np.int64)
        self._nobody = Shard(algorithm, data.catalogue, data, self._none)
        self._nothing: State = self._nobody.init_devices(np.uint64(0))
        self._loaded: State | None = None

    def init_devices(self, key: np.uint64) -> State:
        """The private state of all users before the first round: leading axis = users."""
        return self._algorithm.init_devices(
            np.arange(len(self._data.users)), self._data.catalogue, key
        )

    def work(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        clip: float = 0.0,
    ) -> tuple[Total, Ledger]:
        """Trains `users` for one round in the workers. Returns the sum of their updates, and the
        ledger of the bytes sent. `devices` keep their values until `gather`. Raises WorkerDied.
        """
        # Private state travels at the start and after a death alone, not in every round.
        if self._loaded is not devices:
            self.load(devices)
        # Stored once on each machine, whatever the number of its workers.
        received = self._crew.put(download)
        arguments = {}
        for number, (low, high) in enumerate(self._bounds):
            # Shards are ranges of users, so a comparison finds those of a worker.
            of_shard = users[(users >= low) & (users < high)]
            if len(of_shard):
                arguments[number] = (received, of_shard, key, clip)
        # The sum of nobody: memory of this process, to which all others are added.
        total, sent = self._nobody.work(download, self._nothing, self._none, key)
        for part, up in self._crew.call("work", arguments):
            total = merge_totals(total, part)
            sent = sent.plus(up)
        return total, sent

    def release(self, total: Total) -> None:
        """Returns the memory of a sum, which must not be read afterwards."""
        self._nobody.release(total)

    def load(self, devices: State) -> None:
        """Sends every worker the rows and the private state of its users."""
        self._loaded = None
        inputs = {}
        states = {}
        for number, (low, high) in enumerate(self._bounds):
            inputs[number] = (self._given(low, high),)
            states[number] = (type(devices)(*(array[low:high] for array in devices)),)
        list(self._crew.call("hold", inputs))
        list(self._crew.call("load", states))
        self._loaded = devices

    def gather(self, devices: State) -> None:
        """Overwrites `devices` with the workers' private state: all of it or, when a worker has
        died, nothing.
        """
        everybody = dict.fromkeys(range(self._crew.many), ())
        # All answers are here before anything is overwritten.
        gathered = list(self._crew.call("gather", everybody))
        for users, private in gathered:
            for array, new in zip(devices, private, strict=True):
                array[users] = new

    def forget(self) -> None:
        """Discards the workers' private state, so that the next round loads it again."""
        self._loaded = None

    def _given(self, low: int, high: int) -> ShardInput:
        users = np.arange(low, high)
        return ShardInput(
            self._algorithm,
            self._data.catalogue,
            _part(self._data, users),
            None if self._avoid is None else _part(self._avoid, users),
            users,
            self._crew.threads,
            self._protection,
        )


def bounds(counts: Int64Array, many: int) -> list[tuple[int, int]]:
    """`many` ranges of users, none empty, of about the same work: a user costs something, and every
    row something. counts: int64 [users].

    >>> bounds(np.array([9, 0, 0, 0, 9]), 2)
    [(0, 2), (2, 5)]
    """
    # A user costs as much as a usual history, and each row of its own once more.
    work = np.cumsum(counts + max(1, int(counts.mean())))
    cuts = np.searchsorted(work, work[-1] * np.arange(1, many) / many).tolist()
    ends = [0]
    for number, cut in enumerate(cuts, 1):
        # Each range has at least one user, and leaves one for each of those behind it.
        ends.append(min(max(cut, ends[-1] + 1), len(counts) - many + number))
    return list(zip(ends, [*ends[1:], len(counts)], strict=True))


def _part(data: Interactions, users: Int64Array) -> Interactions:
    """The rows of some users without names, and with the features of items that devices use."""
    features = {name: column for name, column in data.features.items() if name != TITLE}
    return replace(
        data.of_users(users),
        users=Vocabulary(size=len(users)),
        items=Vocabulary(size=len(data.items)),
        features=features,
        reading=NOT_READ,
    )


def _own(data: Interactions) -> Interactions:
    """The same data in writable arrays, as in one process: compiled code for read-only arrays is
    another.
    """
    visits = None
    if data.visits is not None:
        visits = Visits(*(column.copy() for column in data.visits))
    return replace(
        data,
        ptr=data.ptr.copy(),
        item=data.item.copy(),
        value=data.value.copy(),
        time=_copy(data.time),
        row=_copy(data.row),
        visits=visits,
    )


def _copied(state: State) -> State:
    """A copy of a private state."""
    return type(state)(*(_copy(array) for array in state))


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return value
