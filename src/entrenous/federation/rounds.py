"""Server-coordinated rounds: select, download, local, limit, add, aggregate. The same functions run
on real devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ..core.contract.declared import Contract, bound, read_only
from ..core.contract.protocols import FederatedAlgorithm, State
from ..core.keys import fold_name, local_key, select_key
from ..core.keys import key as key_of
from ..core.types import Int64Array
from ..data.interactions import Interactions
from ..privacy.budget import PrivacyBudget
from ..privacy.in_force import ProtectionInForce
from ..privacy.limit import Limit
from ..privacy.protection import Protection
from .defences import defence_of
from .executors import Executor, Threads
from .ledger import Ledger
from .recorder import Recorder
from .shard import AGAIN, FederatedDevices, Shard
from .visible import VisibleRound


class Training(NamedTuple):
    """The state of a federation: the server's model, all devices' private state (leading axis =
    users), rounds done, bytes sent, and how many noisy sums were released under a budget of
    differential privacy. clip: of messages in the next round, where rounds move it.

    `devices` is overwritten round by round, as a device overwrites its own state; `server` never
    is.
    """

    server: State
    devices: State
    round: int
    ledger: Ledger
    releases: int = 0
    clip: float = 0.0


@final
class Rounds:
    """Runs rounds of one algorithm over the users of `data`.

    The result depends on algorithm, data and seed alone: not on the executor's threads, not on
    `block` (devices run together; 0 = as many as fill BLOCK_BYTES by what the algorithm declares,
    or an even share of the cohort where the algorithm adds up by itself), not on where training was
    interrupted; but for noise from the operating system, if the protection has it. protection: what
    limits the data that leaves devices, with noise as a number; `limits` are applied after it, in
    order; an algorithm with `local_sum` adds up by itself when nothing is. In the first round what
    devices do is held against the declaration, with a strict executor in every round. avoid: what
    devices never draw as negatives; None = their rows of `data`. Anything else is a leak, and is to
    be called one. budget: of differential privacy, from which every round spends. again: what
    limits draw (noise, rounding) is drawn anew, as where devices answer a second time: two
    federations that differ in it train alike and have other noise. recorder: takes down what
    devices receive and send; they must be here. cohorts: who takes part in a round instead, from
    its number and whom the algorithm selected; an active server may choose as it likes, and an
    audit asks what it learns. everybody: where the devices are, which then know `data`, `executor`,
    `limits`, `block` and `avoid` by themselves; None = here.
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
        self.contract: Contract = bound(self.algorithm, self.catalogue)
        self.data, self.avoid, self.seed = data, avoid, seed
        self.protected = ProtectionInForce(protection or Protection(), self.contract)
        self.budget = budget
        self._limited = bool(limits) or self.protected.protection.active
        self.executor: Executor = executor or Threads(1)
        self._here, self._recorder, self._cohorts = everybody is None, recorder, cohorts
        self._again = again
        self.everybody: FederatedDevices = everybody or self._defended(
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
        """The devices of a shard, with the protection's defence between them and the sum, if it has
        one.
        """
        found = defence_of(
            self.protected.protection.defence,
            self.algorithm,
            self.contract,
            self.catalogue,
            self.seed,
        )
        return shard if found is None else VisibleRound(shard, defence=found)

    def start(self) -> Training:
        """The state before the first round: the server's initial model and every device's initial
        private state.
        """
        server = self.algorithm.init_server(self.catalogue, key_of(self.seed, "server"))
        return Training(
            server,
            self.everybody.init_devices(key_of(self.seed, "devices")),
            0,
            Ledger(),
            clip=self.protected.first_clip,
        )

    def advance(self, training: Training, until: int) -> Training:
        """Runs `training` until round `until`. A run of one-device rounds is compiled as a whole
        where the algorithm can, and one of others is handed to it where it needs not make all that
        devices receive.
        """
        solo, many = self.contract.declaration.solo_rounds, self.contract.declaration.many_rounds
        if solo is not None and self._unwatched() and self.contract.cohort == 1:
            return self._advance_solo(training, until, solo)
        if many is not None and self._unwatched():
            return self._advance_many(training, until, many)
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
        number, stage = training.round, self.executor.stage
        if self.budget is not None:
            self.budget.spend()
        with stage(number, "select"):
            chosen, own = (
                np.uint64(select_key(self._key, number)),
                np.uint64(local_key(self._key, number)),
            )
            users = self.protected.select(
                self.algorithm.select(training.server, self.catalogue, chosen), chosen
            )
            users = users if self._cohorts is None else self._cohorts(number, users)
        with stage(number, "download"):
            download = read_only(self.algorithm.download(training.server))
        with stage(number, "local"):
            total, sent = self.everybody.work(
                download, training.devices, users, own, clip=training.clip
            )
            noise = fold_name(own, AGAIN) if self._again else own
            clip = self.protected.next_clip(total, noise, training.clip)
            total = self.protected.on_sum(total, noise, training.clip)
        ledger = training.ledger.down(
            self.contract.delivered(download, users[:1]), len(users), self.catalogue.items
        )
        with stage(number, "aggregate"):
            server = self.algorithm.aggregate(training.server, total)
        if self._recorder is not None:
            self._recorder.ended(number, self.contract, download, total)
        self.everybody.release(total)
        releases = 0 if self.budget is None else self.budget.spent
        return Training(server, training.devices, number + 1, ledger.plus(sent), releases, clip)

    def _advance_solo(self, training: Training, until: int, solo: Callable[..., Any]) -> Training:
        rounds = range(training.round, until)
        self._try_first(training)
        everyone = self.data.histories(np.arange(self.catalogue.users), self.avoid)
        server, devices, rows, nbytes = solo(
            training.server, training.devices, everyone, rounds, self._key
        )
        ledger = training.ledger.down(
            self.algorithm.download(server), len(rounds), self.catalogue.items
        )
        return Training(server, devices, until, ledger.up_counts(rows, nbytes))

    def _advance_many(self, training: Training, until: int, many: Callable[..., Any]) -> Training:
        self._try_first(training)
        everyone = self.data.histories(np.arange(self.catalogue.users), self.avoid)
        rounds = range(training.round, until)
        server, devices, took, nbytes = many(
            training.server, training.devices, everyone, rounds, self._key, self.catalogue
        )
        one = self.contract.delivered(
            self.algorithm.download(training.server), np.zeros(1, np.int64)
        )
        ledger = training.ledger.down(one, took, self.catalogue.items)
        return Training(server, devices, until, ledger.up_counts(0, nbytes))

    def _try_first(self, training: Training) -> None:
        """Tries out the device of the next round, if none was yet: a compiled run of rounds makes
        no updates that could be checked.
        """
        assert isinstance(self.everybody, Shard)  # `_unwatched` said so
        users = self.algorithm.select(
            training.server, self.catalogue, np.uint64(select_key(self._key, training.round))
        )
        download, key = (
            self.algorithm.download(training.server),
            np.uint64(local_key(self._key, training.round)),
        )
        self.everybody.try_first(download, training.devices, users, key)
