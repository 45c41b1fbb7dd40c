"""`Shard`: the devices of some users in one place: everybody in a simulation, a part of them in a
worker process or on a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ..core.contract.declared import Contract, bound, read_only
from ..core.contract.enforce import check_received, check_update
from ..core.contract.protocols import Catalogue, FederatedAlgorithm, Histories, State
from ..core.contract.trial import local, of_devices, try_local
from ..core.contract.update import Total, Update, add_update, by_item, clear_total, merge_totals
from ..core.keys import fold_name, folds
from ..core.types import Int64Array
from ..privacy.in_force import ProtectionInForce
from ..privacy.limit import Limit, chain
from ..privacy.protection import Protection
from .executors import Executor, Threads
from .ledger import Ledger
from .recorder import UpdateWatch

BLOCK_BYTES = (
    1 << 22
    # update bytes of a block of devices: a part of the third-level cache, and enough to share a
    # call's costs
)
SHARES = 4  # blocks a worker, so that the workers finish together
AGAIN = "again"  # names the draws of limits where devices answer a second time
TRIED = 4  # devices that are tried out before the first round


class PrivateHistories(Protocol):
    """The source of a shard's histories: `Interactions`, or a node's own store. `rows` count from 0
    in the order of the shard's users; `avoid`: as in `Interactions.histories`."""

    def histories(self, users: Int64Array, avoid: Any = None) -> Histories: ...


class FederatedDevices(Protocol):
    """Devices of a whole federation, wherever they are, as `Rounds` sees them: a `Shard` of
    everybody, or shards in other processes.
    """

    def init_devices(self, key: np.uint64) -> State: ...
    def work(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        clip: float = 0.0,
    ) -> tuple[Total, Ledger]: ...
    def release(self, total: Total) -> None: ...


class _Work(NamedTuple):
    """What all blocks of one `work` share. whole: the download is for the one block there is.
    checked: what devices receive and send is held against the declaration. limit: of this round.
    totals: those that something was added to, no more than there are threads.
    """

    download: State
    devices: State
    key: np.uint64
    whole: bool
    checked: bool
    limit: Limit
    totals: SimpleQueue[Total]


@final
class Shard:
    """The devices of `users`, which train here and nowhere else.

    algorithm: as `configured` for the federation. users: int64 [m], ascending, their numbers in the
    federation, which name their randomness. data: the histories of these users and of nobody else,
    row r those of users[r]. The others as in `Rounds`.

    Rows leave in the order of their items, unless the protection says otherwise; its limits apply,
    then `limits`.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        catalogue: Catalogue,
        data: PrivateHistories,
        users: Int64Array,
        *,
        executor: Executor | None = None,
        limits: Sequence[Limit] = (),
        protection: Protection | None = None,
        block: int = 0,
        avoid: Any = None,
        recorder: UpdateWatch | None = None,
        again: bool = False,
    ) -> None:
        self.algorithm, self.catalogue, self.data, self.users = algorithm, catalogue, data, users
        self.executor: Executor = executor or Threads(1)
        self.block, self.avoid = block, avoid
        self.contract: Contract = bound(algorithm, catalogue)
        self.protected = ProtectionInForce(protection or Protection(), self.contract)
        self.recorder, self.again = recorder, again
        own = (*self.protected.limits(), *limits)
        self._limit, self._further = chain(*own), limits
        looked_at = bool(own) or recorder is not None  # the updates, on their way
        self.sums = None if looked_at else self.contract.declaration.local_sum
        self._free: SimpleQueue[Total] = SimpleQueue()  # zeroed, and reused from round to round
        # whether some devices were tried out: in the first round, and in every one of a strict
        # executor
        self._tried = False

    def init_devices(self, key: np.uint64) -> State:
        """The initial private state of the shard's users, leading axis = users."""
        return self.algorithm.init_devices(self.users, key)

    def work(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        delivered: bool = False,
        clip: float = 0.0,
    ) -> tuple[Total, Ledger]:
        """Runs local training on the devices of `users`, applies the limits, and adds up what they
        send. Returns the sum, and the ledger of what was sent up, without what came down.

        users: int64, federation numbers, all of this shard. devices: the private state of the
        shard, whose rows of these users are overwritten once all of them are done; when a device
        fails, none is. download: the algorithm's, or with `delivered` what it delivers for exactly
        these users in this order, which is all that a node in a network receives; they are then one
        block where the algorithm has something for each. clip: of messages in this round, where
        rounds move it; 0 = the protection's. The total is the caller's until `release`."""
        whole = delivered and self.contract.declaration.deliver is not None
        checked = self.try_first(download, devices, users, key, whole=whole)
        limit = chain(*self.protected.limits(clip), *self._further) if clip else self._limit
        now = _Work(download, devices, key, whole, checked, limit, SimpleQueue())
        blocks = [users] if whole and len(users) else self._blocks(users)
        sent = Ledger()
        for rows, private, up in self.executor.map(partial(self._block, now), blocks):
            _write_back(devices, rows, private)
            sent = sent.plus(up)
        totals = _drained(now.totals) or [self._total(now)]
        merged = reduce(
            partial(merge_totals, workers=self.executor.workers, each=self.executor.map), totals
        )
        for total in totals[1:]:
            self.release(total)
        return merged, sent

    def update(self, download: State, devices: State, users: Int64Array, key: np.uint64) -> Update:
        """The update of the devices of `users`, before anybody adds it up; `devices` and `users` as
        in `work`. download: delivered for them."""
        checked = self.try_first(download, devices, users, key, whole=True)
        rows = self._rows(users)
        own, histories, received = (
            _some(devices, rows),
            self.data.histories(rows, self.avoid),
            read_only(download),
        )
        private, update = self._limited(received, own, histories, users, key, checked, self._limit)
        _write_back(devices, rows, private)
        return update

    def _limited(
        self,
        received: State,
        own: State,
        histories: Histories,
        users: Int64Array,
        key: np.uint64,
        checked: bool,
        limit: Limit,
    ) -> tuple[State, Update]:
        """The new private state of devices, and what they send once it is checked and limited,
        which the recorder is shown.
        """
        private, update = local(self.contract, self.algorithm, received, own, histories, users, key)
        if checked:
            check_update(self.contract, update, users, private)
        ordered = by_item(update) if self.protected.sorts else update
        draws = fold_name(key, "limits")
        draws = fold_name(draws, AGAIN) if self.again else draws
        limited = limit(ordered, folds(draws, users))
        if self.recorder is not None:
            self.recorder.sent(users, limited)
        return private, limited

    def try_first(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        whole: bool = False,
    ) -> bool:
        """Checks devices against the declaration in the first round, and in each one of a strict
        executor: trains a few of the devices of `users` twice and changes nothing. Arguments as in
        `work`; whole: the download is delivered for exactly these users.

        Returns whether it was such a round. Raises ContractError.
        """
        if (self._tried and not self.executor.strict) or not len(users):
            return False
        self._try_out(download, devices, users, key, whole)
        self._tried = True
        return True

    def _try_out(
        self, download: State, devices: State, users: Int64Array, key: np.uint64, whole: bool
    ) -> None:
        rows = self._rows(users)
        counts = np.diff(self.data.histories(rows, self.avoid).ptr)
        some = np.sort(
            np.argsort(counts == 0, kind="stable")[:TRIED]
        )  # those with a history, if there are any
        received = (
            of_devices(self.contract, download, some)
            if whole
            else self.contract.delivered(download, users[some])
        )
        if not whole:
            check_received(self.contract, received, len(some))
        histories = self.data.histories(rows[some], self.avoid)
        try_local(
            self.contract,
            self.algorithm,
            received,
            _some(devices, rows[some]),
            histories,
            users[some],
            key,
        )

    def take(self) -> Total:
        """A sum of nobody, for a caller who adds updates one by one: memory that was given back, or
        new. It is the caller's until `release`."""
        try:
            return self._free.get_nowait()
        except Empty:
            return self.contract.empty_total()

    def release(self, total: Total) -> None:
        """Takes back a sum that `work` or `take` gave, sets it to 0, and uses its memory again. One
        that was made elsewhere must not come here: it would be kept for good."""
        self._free.put(clear_total(total, self.executor.workers, self.executor.map))

    def _blocks(self, users: Int64Array) -> list[Int64Array]:
        workers = self.executor.workers
        share = max(1, -(-len(users) // (workers if workers == 1 else SHARES * workers)))
        fill = max(
            1,
            BLOCK_BYTES
            // (self.contract.most_bytes if self.protected.wide else self.contract.block_bytes),
        )
        size = self.block or (share if self.sums else min(fill, share))
        return [users[low : low + size] for low in range(0, len(users), size)]

    def _block(self, work: _Work, users: Int64Array) -> tuple[Int64Array, State, Ledger]:
        """What happens on the devices of a block, and the addition of what they sent. Returns their
        rows and new private state.
        """
        rows = self._rows(users)
        own, histories = _some(work.devices, rows), self.data.histories(rows, self.avoid)
        received = (
            read_only(work.download)
            if work.whole
            else self.contract.delivered(work.download, users)
        )
        if work.checked:
            check_received(self.contract, received, len(users))
        if self.sums:
            private, total, many, nbytes = self.sums(
                received, own, histories, users, work.key, self._total(work)
            )
            sent = Ledger().up_counts(many, nbytes)
        else:
            private, update = self._limited(
                received, own, histories, users, work.key, work.checked, work.limit
            )
            total, sent = add_update(self._total(work), update), Ledger().up(update)
        work.totals.put(total)
        return rows, private, sent

    def _rows(self, users: Int64Array) -> Int64Array:
        """Where users of the shard are in it, int64: their place in `data` and in the private
        state.
        """
        first, last = int(self.users[0]), int(self.users[-1])
        if last - first + 1 == len(self.users):
            return users if first == 0 else users - first
        return np.searchsorted(self.users, users)

    def _total(self, work: _Work) -> Total:
        """A sum that nobody is adding to: one of this work, one that is kept, or a new one."""
        try:
            return work.totals.get_nowait()
        except Empty:
            return self.take()


def _drained(queue: SimpleQueue[Total]) -> list[Total]:
    """All that is in a queue that nobody else uses."""
    return [queue.get_nowait() for _ in range(queue.qsize())]


def _some(devices: State, rows: Int64Array) -> State:
    """The private state in some rows: views where they are consecutive."""
    where = _places(rows)
    return type(devices)(*(array[where] for array in devices))


def _places(rows: Int64Array) -> Any:
    """Ascending rows as what picks them from an array fastest."""
    consecutive = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    return slice(int(rows[0]), int(rows[-1]) + 1) if consecutive else rows


def _write_back(devices: State, rows: Int64Array, private: State) -> None:
    for array, new in zip(devices, private, strict=True):
        array[_places(rows)] = new
