"""`Shard`: the devices of some users in one place: everybody in a simulation, a part of them in a worker process or on a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ..core.protocols import Catalogue, FederatedAlgorithm, Histories, State, delivered
from ..core.types import Int64Array
from ..core.update import Total, Update, add_update, clear_total, empty_total, merge_totals
from .executors import Executor, Threads
from .ledger import Ledger

Limit = Callable[[Update], Update]  # clip, noise, quantise, mask: what limits disclosure, on the device
BLOCK_BYTES = (
    1 << 22
)  # update bytes of a block of devices: a part of the third-level cache, and enough devices to share a call's costs
SHARES = 4  # blocks a worker, so that the workers finish together


class Private(Protocol):
    """Where a shard's histories are: `Interactions`, or a node's own store. `rows` count from 0 in the order of the shard's users;
    `avoid`: as in `Interactions.histories`."""

    def histories(self, users: Int64Array, avoid: Any = None) -> Histories: ...


class Devices(Protocol):
    """All devices of a federation, wherever they are, as `Rounds` sees them: a `Shard` of everybody, or shards in other processes."""

    def init_devices(self, key: np.uint64) -> State: ...
    def work(self, download: State, devices: State, users: Int64Array, key: np.uint64) -> tuple[Total, Ledger]: ...
    def release(self, total: Total) -> None: ...


class _Work(NamedTuple):
    """What all blocks of one `work` share. whole: the download is for the one block there is. totals: those that something was added
    to, no more than there are threads."""

    download: State
    devices: State
    key: np.uint64
    whole: bool
    totals: SimpleQueue[Total]


@final
class Shard:
    """The devices of `users`, which train here and nowhere else.

    algorithm: as `configured` for the federation. users: int64 [m], ascending, their numbers in the federation, which name their
    randomness. data: the histories of these users and of nobody else, row r those of users[r]. The others as in `Rounds`.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        catalogue: Catalogue,
        data: Private,
        users: Int64Array,
        *,
        executor: Executor | None = None,
        limits: Sequence[Limit] = (),
        block: int = 0,
        avoid: Any = None,
    ) -> None:
        self.algorithm, self.catalogue, self.data, self.users = algorithm, catalogue, data, users
        self.executor: Executor = executor or Threads(1)
        self.limits, self.block, self.avoid = tuple(limits), block, avoid
        self.sums = None if limits else getattr(algorithm, "local_sum", None)  # nothing looks at the updates on their way
        self._free: SimpleQueue[Total] = SimpleQueue()  # zeroed, and reused from round to round
        self._shape: Update | None = None

    def init_devices(self, key: np.uint64) -> State:
        """The first private state of the shard's users: leading axis = users."""
        return self.algorithm.init_devices(self.users, key)

    def work(
        self, download: State, devices: State, users: Int64Array, key: np.uint64, *, delivered: bool = False
    ) -> tuple[Total, Ledger]:
        """Local training on the devices of `users`, the limits, and the sum of what they send; what was sent up, without what came down.

        users: int64, federation numbers, all of this shard. devices: the private state of the shard, whose rows of these users are
        overwritten once all of them are done; when a device fails, none is. download: the algorithm's, or with `delivered` what it
        delivers for exactly these users in this order, which is all that a node in a network receives; they are then one block where the
        algorithm has something for each. The total is the caller's until `release`.
        """
        whole = delivered and hasattr(self.algorithm, "deliver")
        now = _Work(download, devices, key, whole, SimpleQueue())
        blocks = [users] if whole and len(users) else self._blocks(users)
        sent = Ledger()
        for rows, private, up in self.executor.map(partial(self._block, now), blocks):
            _write_back(devices, rows, private)
            sent = sent.plus(up)
        totals = _drained(now.totals) or [self._total(now, partial(self.empty, None if whole else download))]
        merged = reduce(merge_totals, totals)
        for total in totals[1:]:
            self.release(total)
        return merged, sent

    def update(self, download: State, devices: State, users: Int64Array, key: np.uint64) -> Update:
        """What the devices of `users` send, before anybody adds it up; `devices` and `users` as in `work`. download: delivered for them."""
        rows = self._rows(users)
        histories = self.data.histories(rows, self.avoid)
        private, update = self.algorithm.local(download, _some(devices, rows), histories, users, key)
        _write_back(devices, rows, private)
        for limit in self.limits:
            update = limit(update)
        return update

    def empty(self, download: State | None = None) -> Update:
        """What no devices send: its shape, which is that of any update but for how many rows and devices there are. download: the
        algorithm's, of any round; without it a first server is made for the purpose."""
        if self._shape is None:
            if download is None:
                download = self.algorithm.download(self.algorithm.init_server(self.catalogue, np.uint64(0)))
            none, key = np.empty(0, np.int64), np.uint64(0)
            received, devices = delivered(self.algorithm, download, none), self.algorithm.init_devices(none, key)
            self._shape = self.algorithm.local(received, devices, self.data.histories(none, self.avoid), none, key)[1]
        return self._shape

    def release(self, total: Total) -> None:
        """Takes back what `work` gave: zeroed, and used again."""
        self._free.put(clear_total(total))

    def _blocks(self, users: Int64Array) -> list[Int64Array]:
        workers = self.executor.workers
        share = max(1, -(-len(users) // (workers if workers == 1 else SHARES * workers)))
        nbytes = getattr(self.algorithm, "usual_bytes", self.algorithm.update_bytes)(self.catalogue)
        fill = max(1, BLOCK_BYTES // max(1, nbytes))
        size = self.block or (share if self.sums else min(fill, share))
        return [users[low : low + size] for low in range(0, len(users), size)]

    def _block(self, work: _Work, users: Int64Array) -> tuple[Int64Array, State, Ledger]:
        """What happens on the devices of a block, and the addition of what they sent. Returns their rows and new private state."""
        rows = self._rows(users)
        own, histories = _some(work.devices, rows), self.data.histories(rows, self.avoid)
        received = work.download if work.whole else delivered(self.algorithm, work.download, users)
        if self.sums:
            total = self._total(work, partial(self.empty, None if work.whole else work.download))
            private, total, many, nbytes = self.sums(received, own, histories, users, work.key, total)
            sent = Ledger().up_counts(many, nbytes)
        else:
            private, update = self.algorithm.local(received, own, histories, users, work.key)
            for limit in self.limits:
                update = limit(update)
            total, sent = add_update(self._total(work, lambda: update), update), Ledger().up(update)
        work.totals.put(total)
        return rows, private, sent

    def _rows(self, users: Int64Array) -> Int64Array:
        """Where users of the shard are in it, int64: their place in `data` and in the private state."""
        first, last = int(self.users[0]), int(self.users[-1])
        if last - first + 1 == len(self.users):
            return users if first == 0 else users - first
        return np.searchsorted(self.users, users)

    def _total(self, work: _Work, like: Callable[[], Update]) -> Total:
        """A sum that nobody is adding to: one of this work, one that is kept, or a new one in the shape of an update."""
        for queue in (work.totals, self._free):
            try:
                return queue.get_nowait()
            except Empty:
                continue
        return empty_total(like(), self.catalogue.items)


def _drained(queue: SimpleQueue[Total]) -> list[Total]:
    """All that is in a queue that nobody else uses."""
    return [queue.get_nowait() for _ in range(queue.qsize())]


def _some(devices: State, rows: Int64Array) -> State:
    """The private state in some rows: views where they are consecutive."""
    consecutive = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    where: Any = slice(int(rows[0]), int(rows[-1]) + 1) if consecutive else rows
    return type(devices)(*(array[where] for array in devices))


def _write_back(devices: State, rows: Int64Array, private: State) -> None:
    for array, new in zip(devices, private, strict=True):
        array[rows] = new
