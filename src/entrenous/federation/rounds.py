"""Server-coordinated rounds: select, download, local, limit, add, aggregate. The same functions run on real devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, final

import numpy as np

from ..core.keys import key as key_of
from ..core.keys import local_key, select_key
from ..core.protocols import FederatedAlgorithm, State, delivered
from ..core.types import Int64Array
from ..core.update import Total, Update, add_update, clear_total, empty_total, merge_totals
from ..data.interactions import Interactions
from .executors import Executor, Threads
from .ledger import Ledger

Limit = Callable[[Update], Update]  # clip, noise, quantise, mask: what limits disclosure, on the device
BLOCK_BYTES = (
    1 << 22
)  # update bytes of a block of devices: a part of the third-level cache, and enough devices to share a call's costs
SHARES = 4  # blocks a worker, so that the workers finish together


class Training(NamedTuple):
    """Where a federation stands: the server's model, all devices' private state (leading axis = users), rounds done, bytes sent.

    `devices` is overwritten round by round, as a device overwrites its own state; `server` never is.
    """

    server: State
    devices: State
    round: int
    ledger: Ledger


@final
class Rounds:
    """Runs rounds of one algorithm over the users of `data`.

    The result depends on algorithm, data and seed alone: not on the executor's threads, not on `block` (devices run together;
    0 = as many as fill BLOCK_BYTES by the algorithm's `usual_bytes`, or else `update_bytes`; or an even share of the cohort where the
    algorithm adds up by itself), not on where training was interrupted. `limits` are applied in order to every update; an algorithm
    with `local_sum` adds up by itself when there are none.
    avoid: what devices never draw as negatives; None = their rows of `data`. Anything else is a leak, and is to be called one.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        data: Interactions,
        *,
        seed: int = 0,
        executor: Executor | None = None,
        limits: Sequence[Limit] = (),
        block: int = 0,
        avoid: Interactions | None = None,
    ) -> None:
        self.catalogue = data.catalogue
        self.algorithm = algorithm.configured(self.catalogue)
        self.data, self.avoid, self.seed, self.limits = data, avoid, seed, tuple(limits)
        self.executor: Executor = executor or Threads(1)
        self.sums = None if limits else getattr(self.algorithm, "local_sum", None)  # nothing looks at the updates on their way
        self.block = block
        self._key = key_of(seed, "rounds")
        self._totals: SimpleQueue[Total] = SimpleQueue()  # one a worker, zeroed and reused from round to round

    def start(self) -> Training:
        """Round 0: the server's first model and every device's first private state."""
        users = np.arange(self.catalogue.users)
        server = self.algorithm.init_server(self.catalogue, key_of(self.seed, "server"))
        return Training(server, self.algorithm.init_devices(users, key_of(self.seed, "devices")), 0, Ledger())

    def advance(self, training: Training, until: int) -> Training:
        """`training` after round `until`. A run of one-device rounds is compiled as a whole where the algorithm can."""
        solo = getattr(self.algorithm, "solo_rounds", None)
        if solo is not None and self.algorithm.cohort == 1 and not self.limits and isinstance(self.executor, Threads):  # type: ignore[attr-defined]
            return self._advance_solo(training, until, solo)
        while training.round < until:
            training = self.one_round(training)
        return training

    def one_round(self, training: Training) -> Training:
        """Select, download, local on every selected device, limit, add, aggregate."""
        number, stage = training.round, self.executor.stage
        with stage(number, "select"):
            users = self.algorithm.select(training.server, self.catalogue, np.uint64(select_key(self._key, number)))
        with stage(number, "download"):
            download = self.algorithm.download(training.server)
        with stage(number, "local"):
            key = np.uint64(local_key(self._key, number))
            results = self.executor.map(lambda block: self._block(download, training.devices, block, key), self._blocks(users))
        ledger = training.ledger.down(delivered(self.algorithm, download, users[:1]), len(users), self.catalogue.items)
        for block, private, sent in results:
            _write_back(training.devices, block, private)
            ledger = ledger.plus(sent)
        with stage(number, "aggregate"):
            totals = [self._totals.get_nowait() for _ in range(self._totals.qsize())]
            server = self.algorithm.aggregate(training.server, reduce(merge_totals, totals))
        for total in totals:
            self._totals.put(clear_total(total))
        return Training(server, training.devices, number + 1, ledger)

    def _blocks(self, users: Int64Array) -> list[Int64Array]:
        workers = self.executor.workers
        share = max(1, -(-len(users) // (workers if workers == 1 else SHARES * workers)))
        nbytes = getattr(self.algorithm, "usual_bytes", self.algorithm.update_bytes)(self.catalogue)
        fill = max(1, BLOCK_BYTES // max(1, nbytes))
        size = self.block or (share if self.sums else min(fill, share))
        return [users[low : low + size] for low in range(0, len(users), size)]

    def _block(self, download: State, devices: State, users: Int64Array, key: np.uint64) -> tuple[Int64Array, State, Ledger]:
        """What happens on the devices of a block, and the addition of what they sent. Returns their new private state."""
        own, histories = _rows(devices, users), self.data.histories(users, self.avoid)
        received = delivered(self.algorithm, download, users)
        if self.sums:
            total = self._total(lambda: self._nobody(download, devices))
            private, total, rows, nbytes = self.sums(received, own, histories, users, key, total)
            sent = Ledger().up_counts(rows, nbytes)
        else:
            private, update = self.algorithm.local(received, own, histories, users, key)
            for limit in self.limits:
                update = limit(update)
            total, sent = add_update(self._total(lambda: update), update), Ledger().up(update)
        self._totals.put(total)
        return users, private, sent

    def _total(self, like: Callable[[], Update]) -> Total:
        """A sum that nobody is adding to: one that is kept, or a new one in the shape of an update."""
        try:
            return self._totals.get_nowait()
        except Empty:
            return empty_total(like(), self.catalogue.items)

    def _nobody(self, download: State, devices: State) -> Update:
        """What no devices send: its shape."""
        none = np.empty(0, np.int64)
        received = delivered(self.algorithm, download, none)
        return self.algorithm.local(received, _rows(devices, none), self.data.histories(none, self.avoid), none, np.uint64(0))[1]

    def _advance_solo(self, training: Training, until: int, solo: Callable[..., Any]) -> Training:
        rounds = range(training.round, until)
        everyone = self.data.histories(np.arange(self.catalogue.users), self.avoid)
        server, devices, rows, nbytes = solo(training.server, training.devices, everyone, rounds, self._key)
        ledger = training.ledger.down(self.algorithm.download(server), len(rounds), self.catalogue.items)
        return Training(server, devices, until, ledger.up_counts(rows, nbytes))


def _rows(devices: State, users: Int64Array) -> State:
    """The private state of some users: views where they are consecutive."""
    consecutive = len(users) > 0 and int(users[-1]) - int(users[0]) + 1 == len(users)
    where: Any = slice(int(users[0]), int(users[-1]) + 1) if consecutive else users
    return type(devices)(*(array[where] for array in devices))


def _write_back(devices: State, users: Int64Array, private: State) -> None:
    for array, new in zip(devices, private, strict=True):
        array[users] = new
