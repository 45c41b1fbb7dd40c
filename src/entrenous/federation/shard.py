"""`Shard`: the devices of some users in one place: of all users in a simulation, of a part of them
in a worker process or on a node. `Ledger`: the traffic of devices, counted from their updates and
never estimated. `Threads` computes devices in blocks, and `Debug` one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial, reduce
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar, final

import numpy as np

from ..core.contract.declared import bound, followed, read_only
from ..core.contract.enforce import LocalCall, check_received, check_update, local, try_local
from ..core.contract.protocols import Catalogue, FederatedAlgorithm, Histories, State, arrays_of
from ..core.contract.update import Total, Update, add_update, by_item, clear_total, merge_totals
from ..core.errors import EntrenousError
from ..core.keys import fold_name, folds
from ..core.keywords import at_least
from ..core.types import Int64Array
from ..privacy.limit import Limit
from ..privacy.protection import Protection, ProtectionInForce
from .recorder import UpdateWatch

T = TypeVar("T")
B = TypeVar("B")
# Update bytes of a block of devices: a part of the third-level cache, and enough to share the costs
# of a call.
BLOCK_BYTES = 1 << 22
# Blocks a worker, so that the workers finish together.
SHARES = 4
# Names the draws of limits for devices that answer a second time.
AGAIN = "again"
# Devices that are tried out before the first round.
TRIED = 4


class Ledger(NamedTuple):
    """The traffic of a training since round 0."""

    bytes_up: int = 0
    """Bytes of arrays (framing excluded) that devices sent."""
    bytes_down: int = 0
    """Bytes of arrays that reached devices."""
    rows_up: int = 0
    """Item rows sent."""
    vectors: int = 0
    """Exchanged vectors as FPL section 6.3 counts them: items down and rows up."""
    device_rounds: int = 0
    """The sum over rounds of the devices that took part."""
    messages: int = 0
    """Messages sent between peers."""
    lost: int = 0
    """Messages that did not arrive."""
    refused: int = 0
    """Models that their receiver did not take."""
    unopened: int = 0
    """Rounds without a sum, as too few people offered to be in it."""

    def down(self, received: State, devices: int, items: int) -> Ledger:
        """The ledger after `devices` devices each received the arrays `received`."""
        size = sum(array.nbytes for array in arrays_of(received).values())
        return self._replace(
            bytes_down=self.bytes_down + size * devices,
            vectors=self.vectors + items * devices,
            device_rounds=self.device_rounds + devices,
        )

    def up(self, update: Update) -> Ledger:
        """The ledger after the server received `update`."""
        return self.up_counts(len(update.item), update.nbytes)

    def up_counts(self, rows: int, nbytes: int) -> Ledger:
        """The ledger after the server received `rows` item rows in `nbytes` bytes."""
        return self._replace(
            bytes_up=self.bytes_up + nbytes,
            rows_up=self.rows_up + rows,
            vectors=self.vectors + rows,
        )

    def plus(self, other: Ledger) -> Ledger:
        """The sum of two ledgers, count by count."""
        return Ledger(*(a + b for a, b in zip(self, other, strict=True)))


# ---- executors -----------------------------------------------------------------------------------


class Executor(Protocol):
    """Applies a function to blocks of users; results come in the order of the blocks."""

    workers: int
    """The number of functions that run at once."""
    strict: bool
    """True if the messages of devices are compared with the algorithm's declaration in every round,
    not in the first alone.
    """

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]: ...
    def stage(self, number: int, name: str) -> AbstractContextManager[None]: ...


def cores() -> int:
    """The number of cores that this process may use."""
    # A container or a batch system may allow fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DeviceError(EntrenousError):
    """Raised when a device function fails; names the round, the stage and the device."""


@final
class Threads:
    """Runs blocks in `workers` threads; 0 = one for each core. Compiled device code releases the
    interpreter lock. With one worker no thread is started.
    """

    def __init__(self, workers: int = 0, *, strict: bool = False) -> None:
        at_least("--threads", workers, 0)
        self.workers = workers or cores()
        self.strict = strict
        self._pool = None
        if self.workers > 1:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="devices")

    def map(self, function: Callable[[B], T], blocks: Sequence[B]) -> list[T]:
        # To hand a single block to a thread would only cost time.
        if self._pool is None or len(blocks) == 1:
            return [function(block) for block in blocks]
        return list(self._pool.map(function, blocks))

    @contextmanager
    def stage(self, number: int, name: str) -> Iterator[None]:
        yield

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@final
class Debug:
    """Runs one device at a time, in order, and raises a DeviceError with the device, round and
    stage of an exception.
    """

    workers = 1
    strict = True

    def __init__(self, name_of: Callable[[int], str] = str) -> None:
        self._name_of = name_of
        self._round = 0

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]:
        devices = [block[d : d + 1] for block in blocks for d in range(len(block))]
        return [self._named(function, device) for device in devices]

    def _named(self, function: Callable[[Int64Array], T], device: Int64Array) -> T:
        try:
            return function(device)
        except Exception as cause:
            who = self._name_of(int(device[0]))
            raise DeviceError(
                f"round {self._round}, stage local, device of user '{who}': {type(cause).__name__}:"
                f" {cause}"
            ) from cause

    @contextmanager
    def stage(self, number: int, name: str) -> Iterator[None]:
        self._round = number
        try:
            yield
        # It names the device already.
        except DeviceError:
            raise
        except Exception as cause:
            raise DeviceError(
                f"round {number}, stage {name}: {type(cause).__name__}: {cause}"
            ) from cause

    def close(self) -> None:
        pass


# ---- devices -------------------------------------------------------------------------------------


class PrivateHistories(Protocol):
    """The source of a shard's histories: `Interactions`, or the store of a node. Users count from 0
    in the order of the shard's users; `avoid` is as in `Interactions.histories`.
    """

    def histories(self, users: Int64Array, avoid: Any = None) -> Histories: ...


class FederatedDevices(Protocol):
    """The devices of a whole federation for `Rounds`: one `Shard` of all users, or shards in other
    processes.
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
    """The part of one `work` that all its blocks share."""

    download: State
    """With what follows from it, where the algorithm has `follow`."""
    devices: State
    key: np.uint64
    whole: bool
    """The download was delivered for the one block there is."""
    checked: bool
    """Messages of devices are compared with the declaration."""
    limits: tuple[Limit, ...]
    """What each device does to its message in this round, in order."""
    totals: SimpleQueue[Total]
    """Sums that something was added to, no more than there are threads."""


@final
class Shard:
    """The devices of some users. They train here and nowhere else.

    algorithm: as `configured` for the federation. users: int64 [m], ascending, the users' numbers
    in the federation, by which their random draws are named. data: the histories of these users
    alone; row r is the history of users[r]. The other parameters are those of `Rounds`.

    A device sends its rows in the order of their items, unless the protection says otherwise. The
    limits of the protection apply first, then `limits`.
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
        self.algorithm = algorithm
        self.catalogue = catalogue
        self.data = data
        self.avoid = avoid
        self.users = users
        self.executor: Executor = executor or Threads(1)
        self.block = block
        self.contract = bound(algorithm, catalogue)
        self.protected = ProtectionInForce(protection or Protection(), self.contract)
        self.recorder = recorder
        self.again = again
        self._further = tuple(limits)
        self._limits = (*self.protected.limits(), *self._further)
        # An algorithm may add up by itself if nobody looks at single updates.
        looked_at = bool(self._limits) or recorder is not None
        self.sums = None if looked_at else self.contract.declaration.local_sum
        # Zeroed sums, reused from round to round.
        self._free: SimpleQueue[Total] = SimpleQueue()
        # True once some devices were tried out.
        self._tried = False

    def init_devices(self, key: np.uint64) -> State:
        """The initial private state of the shard's users, leading axis = users."""
        return self.algorithm.init_devices(self.users, self.catalogue, key)

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
        """Trains the devices of `users`, applies the limits, and adds up the updates. Returns the
        sum, and the ledger of the bytes sent up (without the download).

        users: int64, federation numbers, all of this shard. devices: the private state of the
        shard; the rows of these users are overwritten once all of them are done, and none if a
        device fails. download: the algorithm's; or, if `delivered`, the part of it that is
        delivered for exactly these users in this order, which is all that a node in a network
        receives. clip: of messages in this round, if rounds adapt it; 0 = the protection's. The sum
        is the caller's until `release`.
        """
        # A download with a part for each user cannot be cut into blocks.
        whole = delivered and self.contract.declaration.deliver is not None
        checked = self.try_first(download, devices, users, key, whole=whole)
        limits = self._limits
        if clip:
            limits = (*self.protected.limits(clip), *self._further)
        # Once for all blocks: it is the same on every device.
        model = followed(self.algorithm, download)
        work = _Work(model, devices, key, whole, checked, limits, SimpleQueue())
        blocks = [users] if whole and len(users) else self._blocks(users)
        sent = Ledger()
        for rows, private, up in self.executor.map(partial(self._block, work), blocks):
            _write_back(devices, rows, private)
            sent = sent.plus(up)
        # Sums are fixed-point numbers: the order of the additions does not matter.
        totals = [work.totals.get_nowait() for _ in range(work.totals.qsize())]
        if not totals:
            totals = [self.take()]
        merge = partial(merge_totals, workers=self.executor.workers, each=self.executor.map)
        merged = reduce(merge, totals)
        for total in totals[1:]:
            self.release(total)
        return merged, sent

    def update(self, download: State, devices: State, users: Int64Array, key: np.uint64) -> Update:
        """The update of the devices of `users` before anybody adds it up. `devices` and `users` are
        those of `work`; the download was delivered for them.
        """
        checked = self.try_first(download, devices, users, key, whole=True)
        rows = self._rows(users)
        model = read_only(followed(self.algorithm, download))
        work = _Work(model, devices, key, True, checked, self._limits, SimpleQueue())
        private, update = self._limited(work, model, rows, users)
        _write_back(devices, rows, private)
        return update

    def _limited(
        self, work: _Work, received: State, rows: Int64Array, users: Int64Array
    ) -> tuple[State, Update]:
        """Trains devices, and checks and limits their update. Returns their new private state, and
        the update, which the recorder sees.
        """
        devices = _some(work.devices, rows)
        histories = self.data.histories(rows, self.avoid)
        call = LocalCall(received, devices, histories, users, work.key)
        private, update = local(self.contract, self.algorithm, call)
        if work.checked:
            check_update(self.contract, update, users, private)
        if self.protected.sorts:
            update = by_item(update)
        draws = fold_name(work.key, "limits")
        if self.again:
            draws = fold_name(draws, AGAIN)
        keys = folds(draws, users)
        for limit in work.limits:
            update = limit(update, keys)
        if self.recorder is not None:
            self.recorder.sent(users, update)
        return private, update

    def try_first(
        self,
        download: State,
        devices: State,
        users: Int64Array,
        key: np.uint64,
        *,
        whole: bool = False,
    ) -> bool:
        """Compares devices with the declaration: trains a few of the devices of `users` twice, and
        keeps nothing. Only the first round is tried; every round with a strict executor.

        The arguments are those of `work`. whole: True if the download was delivered for exactly
        these users. Returns True in a round that was tried. Raises ContractError.
        """
        if (self._tried and not self.executor.strict) or not len(users):
            return False
        self._try_out(download, devices, users, key, whole)
        self._tried = True
        return True

    def _try_out(
        self, download: State, devices: State, users: Int64Array, key: np.uint64, whole: bool
    ) -> None:
        """Trains TRIED of the devices of `users` and keeps nothing. Raises ContractError."""
        rows = self._rows(users)
        counts = np.diff(self.data.histories(rows, self.avoid).ptr)
        # Devices with a history, if there are any.
        tried = np.sort(np.argsort(counts == 0, kind="stable")[:TRIED])
        if whole:
            received = self.contract.of_devices(download, tried)
        else:
            received = self.contract.delivered(download, users[tried])
            check_received(self.contract, received, len(tried))
        call = LocalCall(
            followed(self.algorithm, received),
            _some(devices, rows[tried]),
            self.data.histories(rows[tried], self.avoid),
            users[tried],
            key,
        )
        try_local(self.contract, self.algorithm, call)

    def take(self) -> Total:
        """A sum of no devices, to which a caller adds updates. It is the caller's until
        `release`.
        """
        try:
            return self._free.get_nowait()
        except Empty:
            return self.contract.empty_total()

    def release(self, total: Total) -> None:
        """Takes back a sum of `work` or `take`, sets it to 0, and uses its memory again. A sum from
        elsewhere must not come here: it would be kept for good.
        """
        self._free.put(clear_total(total, self.executor.workers, self.executor.map))

    def _blocks(self, users: Int64Array) -> list[Int64Array]:
        """The users of a round in blocks, each for one call of the algorithm."""
        workers = self.executor.workers
        shares = workers if workers == 1 else SHARES * workers
        share = max(1, -(-len(users) // shares))
        size = share
        # An algorithm that adds up by itself makes no updates that would fill memory. For the
        # others a block should stay in the cache; a protection may send decoys for all items.
        if not self.sums:
            contract = self.contract
            nbytes = contract.most_bytes if self.protected.wide else contract.block_bytes
            size = min(share, max(1, BLOCK_BYTES // nbytes))
        size = self.block or size
        return [users[low : low + size] for low in range(0, len(users), size)]

    def _block(self, work: _Work, users: Int64Array) -> tuple[Int64Array, State, Ledger]:
        """Trains the devices of a block, and adds up their updates. Returns their rows, their new
        private state, and the ledger of the bytes they sent.
        """
        rows = self._rows(users)
        if work.whole:
            received = read_only(work.download)
        else:
            received = self.contract.delivered(work.download, users)
        # What all devices receive alike was checked with the devices that were tried.
        if work.checked and self.contract.declaration.deliver:
            check_received(self.contract, received, len(users))
        if self.sums:
            devices = _some(work.devices, rows)
            histories = self.data.histories(rows, self.avoid)
            private, total, many, nbytes = self.sums(
                received, devices, histories, users, work.key, self._total(work)
            )
            sent = Ledger().up_counts(many, nbytes)
        else:
            private, update = self._limited(work, received, rows, users)
            total = add_update(self._total(work), update)
            sent = Ledger().up(update)
        work.totals.put(total)
        return rows, private, sent

    def _rows(self, users: Int64Array) -> Int64Array:
        """The rows of users of the shard in `data` and in the private state, int64."""
        # Consecutive users, as all of a simulation are, need no search.
        first = int(self.users[0])
        last = int(self.users[-1])
        if last - first + 1 == len(self.users):
            if first == 0:
                return users
            return users - first
        return np.searchsorted(self.users, users)

    def _total(self, work: _Work) -> Total:
        """A sum that no thread adds to: one of this work, a kept one, or a new one."""
        try:
            return work.totals.get_nowait()
        except Empty:
            return self.take()


def _some(devices: State, rows: Int64Array) -> State:
    """The private state in some rows: views if they are consecutive."""
    index = _index(rows)
    return type(devices)(*(array[index] for array in devices))


def _index(rows: Int64Array) -> Any:
    """The fastest index of ascending rows: a slice if they are consecutive."""
    if not len(rows):
        return rows
    first = int(rows[0])
    last = int(rows[-1])
    if last - first + 1 == len(rows):
        return slice(first, last + 1)
    return rows


def _write_back(devices: State, rows: Int64Array, private: State) -> None:
    """Overwrites the private state of some devices."""
    index = _index(rows)
    for array, new in zip(devices, private, strict=True):
        array[index] = new
