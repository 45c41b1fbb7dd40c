"""`WorkerPool`: a round collected by several processes on one port. Each has a journal and an int64
sum; sums have no order.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import reduce
from select import select
from threading import Event
from typing import final

import numpy as np

from ...core.contract.declared import Contract
from ...core.contract.update import Total
from ...core.errors import StartAgain, at_least
from ..frames.contribution import add, read_sum
from ..frames.frames import Code
from ..frames.request import RoundWork
from ..links.https import HttpsPlan, listen
from ..links.metrics import LinkTally
from .channel import Channel, Order
from .exchange import POLL, rest, watch
from .log_line import LogLine
from .server_folder import ServerFolder
from .worker import WorkerPlan

STOP = Order("stop", {})
READY = 120.0  # seconds for a worker to come up
DEATHS, PERIOD = (
    10,
    60.0,
)  # of workers within so many seconds: then something is wrong that a restart does not mend


class WorkerProcess:
    """One worker's process, and what it has reported. part: its number."""

    def __init__(self, plan: WorkerPlan) -> None:
        ours, theirs = socket.socketpair()
        command = [
            sys.executable,
            "-m",
            "entrenous.deploy.server.worker",
            json.dumps(plan._replace(fd=theirs.fileno())),
        ]
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self.channel, self.plan = Channel(ours), plan
        self.done: set[str] = set()
        self.counts: Mapping[str, int] = {}
        self.sent, self.present, self.devices, self.link = [0, 0, 0], 0, 0, LinkTally()

    def end(self) -> None:
        """End the process by closing its channel, and by SIGKILL if that is not enough."""
        self.channel.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@final
class WorkerPool:
    """The `Collecting` of `workers` processes, which nodes reach on one port. One that dies is
    started again, and has lost nothing that it acknowledged. waits: is called now and then with the
    names of missing nodes.
    """

    def __init__(
        self,
        folder: ServerFolder,
        contract: Contract,
        plan: HttpsPlan,
        workers: int,
        stop: Event,
        waits: Callable[[list[str]], None] = lambda missing: None,
    ) -> None:
        at_least("--workers", workers, 1)
        self._folder, self._contract, self._stop, self._waits = folder, contract, stop, waits
        self._reserved = listen(
            plan.host, plan.port, shared=True, backlog=None
        )  # keeps the port while workers come and go
        port, keys = self._reserved.getsockname()[1], "" if plan.keys is None else str(plan.keys)
        path = str(folder.path.absolute())
        plans = [
            WorkerPlan(
                path,
                folder.start,
                n,
                workers,
                -1,
                plan.host,
                port,
                keys,
                plan.insecure,
                plan.proxy,
                folder.log_format,
            )
            for n in range(workers)
        ]
        self.address = f"[{plan.host}]:{port}" if ":" in plan.host else f"{plan.host}:{port}"
        self.lengths: dict[str, float] = {}
        self._accepted = 0  # answers in the totals of all rounds
        # what workers that have died had counted
        self._before, self._sent_before, self._link_before = (
            Counter[str](),
            np.zeros(3, np.int64),
            LinkTally(),
        )
        self._deaths: list[float] = []
        self._order: Order | None = None
        self._work: RoundWork | None = None
        self.workers = [WorkerProcess(each) for each in plans]
        for worker in self.workers:
            self._heard(worker, "ready", READY)

    def close(self) -> None:
        """End all worker processes and give the port back."""
        for worker in self.workers:
            worker.end()
        self._reserved.close()

    # ---- what a server asks of it ----------------------------------------------------------------

    @property
    def present(self) -> int:
        return sum(worker.present for worker in self.workers)

    @property
    def devices(self) -> int:
        """How many devices are in what the workers have taken; one that two of them have counts
        twice until the end.
        """
        return sum(worker.devices for worker in self.workers)

    @property
    def taken(self) -> frozenset[str]:
        return frozenset().union(*(worker.done for worker in self.workers))

    @property
    def without(self) -> Collection[str]:
        return self._asked() - self.taken

    @property
    def counts(self) -> Mapping[Code, int]:
        """By what became of them. Of answers that count it is how many do: a worker takes those of
        its journal again.
        """
        found = self._before.copy()
        for worker in self.workers:
            found.update(worker.counts)
        now = len(self.taken) if self._order is not None and self._order.word == "round" else 0
        return {
            **{Code(name): count for name, count in found.items()},
            Code.ACCEPTED: self._accepted + now,
        }

    @property
    def bytes_up(self) -> int:
        return self._sent(0)

    @property
    def bytes_down(self) -> int:
        return self._sent(1)

    @property
    def messages(self) -> int:
        return self._sent(2)

    def tally(self) -> LinkTally:
        """What all workers' ports have counted so far."""
        return reduce(LinkTally.plus, [worker.link for worker in self.workers], self._link_before)

    def begin(self, work: RoundWork) -> None:
        self._open(work, Order("round", {"round": work.round}, work.model))

    def offer(self, work: RoundWork) -> None:
        self._open(work, Order("model", {"round": work.round}))

    def gather(self, seconds: float) -> None:
        watch(lambda: self.without, lambda left: self._listen(), seconds, self._stop, self._waits)

    def give(self, seconds: float) -> None:
        self.gather(seconds)

    def rest(self, seconds: float) -> None:
        rest(seconds, self._stop, self._listen)

    def end(self) -> Total:
        """The sums of all workers. Who was taken by two of them counts with the first: the others
        leave it out.
        """
        seen, total, work = set[str](), self._contract.empty_total(), self._work
        assert work is not None
        self._tell(STOP)
        for at in range(len(self.workers)):
            names = set(self._answer(at, "stopped", [STOP]).about["taken"])
            order = Order("total", {"without": sorted(names & seen)})
            self.workers[at].channel.send(*order)
            _, about, body = self._answer(at, "total", [STOP, order])
            if about["names"]:
                seen |= set(about["names"])
                total = add(
                    total,
                    read_sum(body, self._contract, work.asked, about["names"], about["heard"])[0],
                )
        self._order, self._accepted = None, self._accepted + len(seen)
        return total

    # ---- its workers -----------------------------------------------------------------------------

    def _open(self, work: RoundWork, order: Order) -> None:
        self._work, self.lengths = work, {}
        for worker in self.workers:
            worker.done = set()
        self._order = order
        self._tell(order)

    def _asked(self) -> set[str]:
        return set() if self._work is None else set(self._work.asked)

    def _sent(self, which: int) -> int:
        return int(self._sent_before[which]) + sum(worker.sent[which] for worker in self.workers)

    def _tell(self, order: Order) -> None:
        for worker in self.workers:
            with suppress(OSError):  # it has died, which is noticed when it is listened to
                worker.channel.send(*order)

    def _listen(self, seconds: float = POLL) -> None:
        """Takes reports for a moment."""
        ready = select([worker.channel for worker in self.workers], [], [], seconds)[0]
        for at, worker in enumerate(self.workers):
            if worker.channel in ready:
                try:
                    self._reported(worker, worker.channel.receive())
                except EOFError:
                    self._replace(at, [])

    def _answer(self, at: int, word: str, orders: list[Order]) -> Order:
        """A worker's answer to the last of some orders; all of them are said again to one that died
        over them.
        """
        while True:
            try:
                return self._heard(self.workers[at], word, READY)
            except EOFError:
                self._replace(at, orders)
                if len(orders) > 1:
                    self._heard(self.workers[at], "stopped", READY)

    def _heard(self, worker: WorkerProcess, word: str, seconds: float) -> Order:
        """Reports are taken until the message that is waited for comes. Raises EOFError when the
        worker has died.
        """
        until = time.monotonic() + seconds
        while (order := worker.channel.receive(max(0.0, until - time.monotonic()))) is not None:
            if order.word == word:
                return order
            self._reported(worker, order)
        raise StartAgain(
            f"worker {worker.plan.part} does not answer; see {self._folder.path / 'server.log'}"
        )

    def _reported(self, worker: WorkerProcess, order: Order | None) -> None:
        if order is None or order.word != "report":
            return
        about = order.about
        worker.done |= set(about["done"])
        worker.link = LinkTally(*about["link"])
        worker.counts, worker.sent, worker.present = (
            about["counts"],
            about["sent"],
            about["present"],
        )
        worker.devices = about["devices"]
        self.lengths |= about["lengths"]

    def _replace(self, at: int, orders: list[Order]) -> None:
        """A worker has died: another takes its place, with its journal. Raises EntrenousError when
        too many have.
        """
        old, now = self.workers[at], time.monotonic()
        old.end()
        self._before.update(old.counts)
        self._link_before = self._link_before.plus(old.link._replace(open=0))
        self._sent_before += np.array(old.sent)
        self._deaths = [when for when in self._deaths if now - when < PERIOD] + [now]
        line = f"worker {at} has ended (process {old.process.pid}); starting it again"
        self._folder.log(LogLine(line, "worker", level="error"))
        if len(self._deaths) >= DEATHS:
            raise StartAgain(
                f"workers died {DEATHS} times within {PERIOD:g} s; see"
                f" {self._folder.path / 'server.log'}"
            )
        new = self.workers[at] = WorkerProcess(old.plan)
        self._heard(new, "ready", READY)
        for order in (*([] if self._order is None else [self._order]), *orders):
            new.channel.send(*order)
