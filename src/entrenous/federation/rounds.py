"""Server-coordinated rounds in a simulation: select, download, local, limit, add, aggregate. The
same functions run on real devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from ..core.contract.declared import bound, read_only
from ..core.contract.protocols import FederatedAlgorithm, State
from ..core.keys import fold_name, local_key, select_key
from ..core.keys import key as key_of
from ..core.types import Int64Array
from ..data.interactions import Interactions
from ..privacy.budget import PrivacyBudget
from ..privacy.limit import Limit
from ..privacy.protection import Protection, ProtectionInForce
from .defences import defence, known_of
from .recorder import Recorder
from .shard import AGAIN, Executor, FederatedDevices, Ledger, Shard, Threads
from .visible import VisibleRound


class Training(NamedTuple):
    """The state of a federation between two rounds."""

    server: State
    """The server's model; a round makes a new one."""
    devices: State
    """The private state of all devices, leading axis = users. A round overwrites it, as a device
    overwrites its own state.
    """
    round: int
    """The number of rounds done."""
    ledger: Ledger
    releases: int = 0
    """The number of noisy sums released under a budget of differential privacy."""
    clip: float = 0.0
    """The clip of messages in the next round, if rounds adapt it."""

    def without_a_sum(self) -> Training:
        """The state after a round whose sum is not opened, as too few people offered to be in it:
        nothing was sent, and the model stays.
        """
        ledger = self.ledger._replace(unopened=self.ledger.unopened + 1)
        return self._replace(round=self.round + 1, ledger=ledger)


@final
class Rounds:
    """Runs rounds of one algorithm over the users of `data`.

    The result depends on algorithm, data and seed alone, not on the executor's threads, on `block`,
    or on where training was interrupted. (Noise from the operating system is the exception, if the
    protection has it.) In the first round the messages of devices are compared with the algorithm's
    declaration; with a strict executor in every round.

    protection: limits the data that leaves devices. limits: are applied after it, in order. An
    algorithm with `local_sum` adds up by itself if neither is given.
    block: devices that run together; 0 = as many as fill BLOCK_BYTES by the algorithm's
    declaration, or an even share of the cohort if the algorithm adds up by itself.
    avoid: rows that devices never draw as negatives; None = their rows of `data`. Anything else is
    a leak, and must be called one.
    budget: of differential privacy; every round spends from it.
    again: draws the noise and rounding of limits anew, as for devices that answer a second time:
    two federations that differ in it train alike and have other noise.
    recorder: records what devices receive and send; they must be here.
    cohorts: (round, selected users) -> users that take part instead. An active server may choose as
    it likes, and an audit asks what it learns.
    everybody: devices elsewhere, which know `data`, `executor`, `limits`, `block` and `avoid` by
    themselves; None = here.
    """

    def __init__(
        self,
        algorithm: FederatedAlgorithm,
        data: Interactions,
        *,
        seed: int = 0,
        executor: Executor | None = None,
        limits: Sequence[Limit] = (),
        protection: Protection | None = None,
        budget: PrivacyBudget | None = None,
        block: int = 0,
        avoid: Interactions | None = None,
        everybody: FederatedDevices | None = None,
        recorder: Recorder | None = None,
        cohorts: Callable[[int, Int64Array], Int64Array] | None = None,
        again: bool = False,
    ) -> None:
        self.catalogue = data.catalogue
        self.algorithm = algorithm.configured(self.catalogue)
        self.contract = bound(self.algorithm, self.catalogue)
        self.data = data
        self.avoid = avoid
        self.seed = seed
        self.protected = ProtectionInForce(protection or Protection(), self.contract)
        self.budget = budget
        self._limited = bool(limits) or self.protected.protection.active
        self.executor = executor or Threads(1)
        self._here = everybody is None
        self._recorder = recorder
        self._cohorts = cohorts
        self._again = again
        self.everybody = everybody or self._defended(
            Shard(
                self.algorithm,
                self.catalogue,
                data,
                np.arange(self.catalogue.users),
                executor=self.executor,
                limits=limits,
                protection=protection,
                block=block,
                avoid=avoid,
                recorder=recorder,
                again=again,
            )
        )
        self._key = key_of(seed, "rounds")

    def _defended(self, shard: Shard) -> FederatedDevices:
        """The devices of a shard; with the protection's defence between them and the sum, if it has
        one.
        """
        name = self.protected.protection.defence
        if name == "none":
            return shard
        server = self.algorithm.init_server(self.catalogue, key_of(self.seed, "server"))
        known = known_of(self.algorithm, self.contract, server)
        return VisibleRound(shard, defence=defence(name, known))

    def start(self) -> Training:
        """The state before the first round: the server's initial model and every device's initial
        private state.
        """
        server = self.algorithm.init_server(self.catalogue, key_of(self.seed, "server"))
        devices = self.everybody.init_devices(key_of(self.seed, "devices"))
        return Training(server, devices, 0, Ledger(), clip=self.protected.first_clip)

    def advance(self, training: Training, until: int) -> Training:
        """Runs `training` until round `until`. An algorithm may run its rounds by itself if nobody
        watches: compiled as a whole if each round is one device, or without making all downloads.
        """
        solo = self.contract.declaration.solo_rounds
        many = self.contract.declaration.many_rounds
        if self._unwatched():
            if solo is not None and self.contract.cohort == 1:
                return self._advance_itself(training, until, solo, alone=True)
            if many is not None:
                return self._advance_itself(
                    training, until, partial(many, catalogue=self.catalogue)
                )
        while training.round < until:
            training = self.one_round(training)
        return training

    def _unwatched(self) -> bool:
        """True if the algorithm may run rounds by itself: the devices are here, and nothing looks
        at their updates on the way.
        """
        watched = (
            self._limited
            or self.executor.strict
            or self._recorder is not None
            or self._cohorts is not None
        )
        return self._here and not watched

    def one_round(self, training: Training) -> Training:
        """Runs one round: select, download, local on every selected device, limit, add,
        aggregate.
        """
        number = training.round
        stage = self.executor.stage
        # Spent before anything is released: a round that fails has spent too.
        if self.budget is not None:
            self.budget.spend()
        chosen = np.uint64(select_key(self._key, number))
        local = np.uint64(local_key(self._key, number))
        with stage(number, "select"):
            users = self.algorithm.select(training.server, self.catalogue, chosen)
            users = self.protected.select(users, self._key, number)
            if self._cohorts is not None:
                users = self._cohorts(number, users)
            elif len(users) < self.protected.floor:
                return training.without_a_sum()
        with stage(number, "download"):
            download = read_only(self.algorithm.download(training.server))
        with stage(number, "local"):
            total, sent = self.everybody.work(
                download, training.devices, users, local, clip=training.clip
            )
            noise = fold_name(local, AGAIN) if self._again else local
            # First the next clip: `on_sum` takes away the weights that it follows from.
            clip = self.protected.next_clip(total, noise, training.clip)
            if self.protected.noisy:
                total = self.protected.on_sum(total, noise, training.clip)
        # All devices of a round receive as much.
        received = self.contract.delivered(download, users[:1])
        ledger = training.ledger.down(received, len(users), self.catalogue.items)
        with stage(number, "aggregate"):
            server = self.algorithm.aggregate(training.server, total)
            server = self.protected.stepped(training.server, server)
        if self._recorder is not None:
            self._recorder.ended(number, self.contract, download, total)
        self.everybody.release(total)
        releases = 0 if self.budget is None else self.budget.spent
        return Training(server, training.devices, number + 1, ledger.plus(sent), releases, clip)

    def _advance_itself(
        self, training: Training, until: int, run: Callable[..., Any], *, alone: bool = False
    ) -> Training:
        """Runs rounds by a function of the algorithm. alone: by its `solo_rounds`, each round of
        one device, which counts the rows that were sent; else by its `many_rounds`, which counts
        the devices that took part.
        """
        download = self._try_first(training)
        everyone = self.data.histories(np.arange(self.catalogue.users), self.avoid)
        rounds = range(training.round, until)
        server, devices, counted, nbytes = run(
            training.server, training.devices, everyone, rounds, self._key
        )
        took = len(rounds) if alone else counted
        rows = counted if alone else 0
        # The part that any device receives has the size of all others.
        received = self.contract.delivered(download, np.zeros(1, np.int64))
        ledger = training.ledger.down(received, took, self.catalogue.items)
        return Training(server, devices, until, ledger.up_counts(rows, nbytes))

    def _try_first(self, training: Training) -> State:
        """Tries out devices of the next round, unless some were tried out before: a compiled run of
        rounds makes no updates that could be checked. Returns the download of that round.
        """
        # Unwatched rounds are those of devices that are here.
        assert isinstance(self.everybody, Shard)
        chosen = np.uint64(select_key(self._key, training.round))
        users = self.algorithm.select(training.server, self.catalogue, chosen)
        download = self.algorithm.download(training.server)
        key = np.uint64(local_key(self._key, training.round))
        self.everybody.try_first(download, training.devices, users, key)
        return download
