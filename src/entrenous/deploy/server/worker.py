"""One of several processes that take the answers of a server's rounds, each with a journal and a
sum: a process of the server's machine (`python -m entrenous.deploy.server.worker`), or an actor of
Ray on another one (`ray_workers`).

Orders come over a channel. `round`, `model` and `sum` bring work, with the server's state: to take
updates, to give a model, and to make the secure sum of one group. `stop` ends a round and is
answered with the names that were taken; `total`, with names that another worker has taken too, is
answered with the sum; `words` and `agree` have the nodes agree on a model. Reports of what is under
way are sent meanwhile, and `summed` when the secure sum is there. What must be known of all secure
sums is on the server's disk alone: `remember` asks for that, and waits for `remembered`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from ...core.types import Array
from ...privacy.secure_sum.memory import PastSum
from ...runs.recommenders import restore_state
from ..agreement.groups import groups_of
from ..agreement.members import Members
from ..agreement.terms import FederationTerms
from ..frames.contribution import agreed, of_part
from ..frames.request import RoundWork
from ..frames.secure import largest_answer
from ..links.https import HttpsPlan, HttpsServerLink, listen
from ..links.siblings import Siblings
from .channel import Channel, Order
from .collector import Collector
from .exchange import ServerStopped
from .server_folder import LogFormat, ServerFolder

LOOK = 0.1  # seconds between two looks for orders, and two reports


class WorkerPlan(NamedTuple):
    """The configuration of a worker process at its start."""

    folder: str
    start: int
    """The start of the server, a number that grows."""
    part: int
    """The number of this worker, from 0."""
    of: int
    """How many workers there are."""
    fd: int
    """The descriptor of its end of the channel."""
    host: str
    port: int
    keys: str
    insecure: bool
    proxy: str = ""
    log_format: LogFormat = "text"


class OrderChannel(Protocol):
    """A worker's end of its connection to the server's process. Any thread may send."""

    def send(self, word: str, about: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a message. Raises OSError when the server is gone."""
        ...

    def receive(self, seconds: float | None = None) -> Order | None:
        """The next order; None if none has come in `seconds`. Raises EOFError when the server is
        gone.
        """
        ...


def main(arguments: list[str]) -> None:
    """Serve until the channel is closed. arguments: a `WorkerPlan` as JSON."""
    plan = WorkerPlan(*json.loads(arguments[0]))
    channel = Channel(socket.socket(fileno=plan.fd))
    keys = Path(plan.keys) if plan.keys else None
    https = HttpsPlan(plan.host, plan.port, keys, plan.insecure, proxy=plan.proxy)
    with closing(ServerFolder(Path(plan.folder), plan.start, plan.log_format)) as held:
        listening = listen(plan.host, plan.port, shared=True)
        serve(held, https, listening, channel, plan.part, plan.of)


def serve(
    held: ServerFolder,
    https: HttpsPlan,
    listening: socket.socket,
    channel: OrderChannel,
    part: int,
    of: int,
) -> None:
    """Serve as worker number `part` of `of` until the channel is closed."""
    largest = largest_answer(held.terms, held.members, held.algorithm)
    home = homes(held.terms, held.members, of)
    siblings = Siblings(home, part) if home else None
    run, nodes = held.terms.run, held.members.nodes
    link = HttpsServerLink(https, run, nodes, largest, listening, held.trouble, siblings)
    with closing(link):
        link.start()
        Worker(held, link, channel, siblings, part, of).run()


def homes(terms: FederationTerms, members: Members, workers: int) -> dict[str, int]:
    """The number of the worker that speaks with each node, by name: under masks that of its group's
    worker. Empty where any worker may speak with any node.
    """
    if not terms.masked or workers == 1:
        return {}
    groups = groups_of(members, terms)
    return {name: number % workers for number, group in enumerate(groups) for name in group}


@final
class Worker:
    """One worker: a collector, and what it is told to do."""

    def __init__(
        self,
        held: ServerFolder,
        link: HttpsServerLink,
        channel: OrderChannel,
        siblings: Siblings | None = None,
        part: int = 0,
        of: int = 1,
    ) -> None:
        self._held, self._channel, self._link = held, channel, link
        self._siblings, self._part, self._of = siblings, part, of
        self._algorithm = held.terms.make(place=held.algorithm)
        self._contract = agreed(self._algorithm, held.terms.catalogue, held.terms.protection)
        self._stop = threading.Event()
        self._collector = Collector(
            held, self._contract, link, self._stop, self._note_waiting, part=part, of=of
        )
        self._waiting: list[str] = []  # nodes of a secure sum that have been missing for long
        self._doing, self._told = "", set[str]()  # names that were reported
        self._memory = AskedMemory(channel)
        self._summing: threading.Thread | None = None
        self._failure: BaseException | None = None  # of the thread that makes a secure sum

    def run(self) -> None:
        """Do as told until the channel is closed."""
        try:
            about = {"address": self._link.nearby, "process": os.getpid()}
            self._channel.send("ready", about)
            while self._failure is None:
                order = self._channel.receive(0.0 if self._busy() else LOOK)
                if order is not None:
                    self._obey(order)
                elif self._doing:
                    self._step()
        except (EOFError, OSError):
            pass  # the server has ended, or will start this worker again
        finally:
            self._stop.set()
            self._memory.give_up()
            if self._summing is not None:
                self._summing.join()
        if self._failure is not None:
            raise self._failure

    def _busy(self) -> bool:
        if self._doing == "round":
            return bool(self._collector.intake.missing())
        return self._doing == "model" and bool(self._collector.without)

    def _obey(self, order: Order) -> None:
        about = order.about
        if order.word in ("round", "model"):
            self._begin(order.word, self._work(about))
        elif order.word == "sum":
            self._begin_sum(self._work(about), about)
        elif order.word == "remembered":
            self._memory.remembered()
        elif order.word == "siblings" and self._siblings is not None:
            self._siblings.addresses = dict(about["addresses"])
        elif order.word == "stop":
            self._step(0.0)
            self._doing = ""
            self._channel.send("stopped", {"taken": sorted(self._collector.taken)})
        elif order.word == "total":
            self._total(about["without"])
        elif order.word == "words":
            self._doing = ""
            words = self._collector.words_of(about["model"])
            said = {name: (word.said, word.signature) for name, word in words.items()}
            self._channel.send("words", {"words": said})
        elif order.word == "agree":
            kept = self._collector.pass_on(about["model"], order.body, about["seconds"])
            self._channel.send("agreed", {"kept": sorted(kept)})

    def _work(self, about: Mapping[str, Any]) -> RoundWork:
        arrays = {name: array_of(*said) for name, said in about["state"].items()}
        state = restore_state(self._algorithm, "holds", "server", arrays)
        asked = {name: np.frombuffer(users, np.int64) for name, users in about["asked"].items()}
        download = self._algorithm.download(state)
        return RoundWork(about["round"], about["model"], asked, download, state=state)

    def _begin(self, word: str, work: RoundWork) -> None:
        """Opens a round, or has a model to give."""
        if word == "model":
            self._collector.offer(work)
        else:
            self._collector.begin(work)
        self._doing, self._told = word, set()
        self._step(0.0)

    def _step(self, seconds: float = LOOK) -> None:
        """Asks and hears nodes for a moment, and reports."""
        own = self._collector
        done = set[str]()
        if self._doing == "round":
            own.gather(seconds)
            done = set(own.taken)
        elif self._doing == "model":
            own.give(seconds)
            done = set(own.work.asked) - own.without
        elif self._doing == "":
            return
        new, self._told = done - self._told, self._told | done
        self._channel.send("report", self._report(new))

    def _report(self, new: set[str]) -> Mapping[str, Any]:
        own = self._collector
        counts = {code.value: count for code, count in own.counts.copy().items()}
        lengths = {name: own.lengths[name] for name in new if name in own.lengths}
        waiting, self._waiting = self._waiting, []
        return {
            "done": sorted(new),
            "lengths": lengths,
            "counts": counts,
            "present": own.present,
            "devices": own.devices,
            "link": self._link.tally(),
            "sent": [own.bytes_up, own.bytes_down, own.messages],
            "waiting": waiting,
        }

    def _total(self, without: list[str]) -> None:
        """The sum of what counts here. What another worker has taken too is left out: its journal
        has it.
        """
        own = self._collector
        work, total = own.work, own.end()
        if without:
            own.begin(work, without)
            total = own.end()
        names = sorted(own.taken)
        self._channel.send(
            "total",
            {"names": names, "heard": len(own.heard)},
            of_part(total, own.heard) if names else b"",
        )

    # ---- secure sums -----------------------------------------------------------------------------

    def _begin_sum(self, work: RoundWork, about: Mapping[str, Any]) -> None:
        """Begins the secure sum of a group in a thread, while this one listens to the server."""
        if self._summing is not None:
            self._summing.join()  # it has said its sum
        self._memory.told(about["past"], about["liars"])
        arguments = (work, about["group"], frozenset(about["of_group"]))
        self._summing = threading.Thread(target=self._sum, args=arguments, daemon=True, name="sum")
        self._doing = "sum"
        self._summing.start()

    def _sum(self, work: RoundWork, group: int, of_group: frozenset[str]) -> None:
        try:
            summed = self._collector.sum_of(group, work, of_group, self._memory)
            total = summed.total
            names = sorted(summed.names)
            users = np.concatenate([np.empty(0, np.int64), *(work.asked[name] for name in names)])
            self._channel.send("report", self._report(set()))
            about = {"group": group, "begun": summed.begun, "names": names, "heard": len(users)}
            body = of_part(total, np.sort(users)) if total.devices else b""
            self._channel.send("summed", about, body)
        except (ServerStopped, EOFError, OSError):
            pass  # the server is gone, as the other thread sees, too
        except BaseException as failure:
            self._failure = failure

    def _note_waiting(self, names: list[str]) -> None:
        self._waiting = names


@final
class AskedMemory:
    """The `SumMemory` of a worker: the server's own, which is asked to remember."""

    def __init__(self, channel: OrderChannel) -> None:
        self._channel = channel
        self._past: tuple[PastSum, ...] = ()
        self._liars: Mapping[str, str] = {}
        self._answered, self._over = threading.Event(), False

    def told(self, past: list[tuple[bytes, dict[str, int]]], liars: Mapping[str, str]) -> None:
        """Take what the server remembers."""
        self._past = tuple(PastSum(model, parties) for model, parties in past)
        self._liars = dict(liars)

    def summed(self) -> tuple[PastSum, ...]:
        return self._past

    def liars(self) -> Mapping[str, str]:
        return self._liars

    def remember_sum(self, summed: PastSum) -> None:
        self._remember({"sum": (summed.model, dict(summed.parties))})

    def remember_liar(self, name: str, lie: str) -> None:
        self._remember({"liar": (name, lie)})

    def remembered(self) -> None:
        """The server has it on its disk."""
        self._answered.set()

    def give_up(self) -> None:
        """The server is gone: nobody remembers anything any more."""
        self._over = True
        self._answered.set()

    def _remember(self, about: Mapping[str, Any]) -> None:
        self._answered.clear()
        if not self._over:
            self._channel.send("remember", about)
            self._answered.wait()
        if self._over:
            raise ServerStopped


def said_of(array: Array) -> tuple[str, list[int], bytes]:
    """An array as an order says it: its type, shape and bytes."""
    return array.dtype.str, list(array.shape), np.ascontiguousarray(array).tobytes()


def array_of(kind: str, shape: list[int], content: bytes) -> Array:
    """The array that `said_of` has said."""
    found: Array = np.frombuffer(content, np.dtype(kind)).reshape(shape).copy()
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
