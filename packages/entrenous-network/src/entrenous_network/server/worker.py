"""One of several processes that take the answers of a server's rounds, each with a journal and a
sum: a process of the server's machine (`python -m entrenous_network.server.worker`), or an actor of
Ray on another one (entrenous-ray).

Orders come over a channel. `round`, `given` and `sum` bring work, with the server's state: to take
updates, to hand a model on, and to make the secure sums of some groups. `total` ends a round, with
the names that count at other workers, and is answered with the sum of the others; `hand` has the
given model handed on, and is answered by `handed`. Reports of what is under way are sent
meanwhile, and `summed` when the secure sum is there. `homes` names a
round, whose groups say which nodes a worker serves from then on. It is answered with who was there
and is served elsewhere now, and `there` tells each worker who has come to it so.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, final

import msgspec
import numpy as np
from safetensors.numpy import load

from entrenous.core.files import write_private
from entrenous.core.types import Int64Array
from entrenous.runs.recommenders import restore_state

from ..agreement.members import Member, Members
from ..agreement.terms import FederationTerms
from ..frames.contribution import agreed_by, contract_of, of_total
from ..frames.frames import Code
from ..frames.request import RoundWork
from ..frames.secure import SPARE, largest_answer
from ..links.admission import STANDARD, Bounds
from ..links.https import HttpsPlan, HttpsServerLink, listen
from ..links.metrics import LinkTally
from ..links.siblings import Siblings
from .channel import Channel, Order, OrderChannel, next_order
from .collector import Collector
from .exchange import ServerStopped
from .grouped_round import GroupSum, groups_of_round, works_of_groups
from .knocks import KNOCKED, AskedDesk
from .server_folder import LogFormat, ServerFolder

LOOK = 0.1  # seconds between two looks for orders, and two reports
MOST_CONNECTED = 4096  # nodes at once; each takes some 60 kB of the server


class WorkerPlan(NamedTuple):
    """The arguments of a worker process."""

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
    origins: Sequence[str] = ()


def main(arguments: list[str]) -> None:
    """Serves until the channel is closed. arguments: a `WorkerPlan` as JSON."""
    plan = WorkerPlan(*json.loads(arguments[0]))
    channel = Channel(socket.socket(fileno=plan.fd))
    keys = Path(plan.keys) if plan.keys else None
    https = HttpsPlan(plan.host, plan.port, keys, plan.insecure, proxy=plan.proxy)
    https = https._replace(origins=tuple(plan.origins))
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
    """Serves as worker number `part` of `of` until the channel is closed."""
    # With room for items that come.
    largest = int(SPARE * largest_answer(held.terms, held.members, held.algorithm))
    siblings = None
    if has_homes(held.terms, of):
        siblings = Siblings(homes(held.terms, held.members, of, 0), part)
    run = held.terms.run
    nodes = held.members.nodes
    https = https._replace(bounds=bounds_of(held))
    link = HttpsServerLink(https, run, nodes, largest, listening, held.trouble, siblings)
    desk = AskedDesk(channel)
    link.admission.joins = desk
    with closing(link):
        link.start()
        Worker(held, link, channel, desk, siblings, part, of).run()


def bounds_of(held: ServerFolder) -> Bounds:
    """Returns the limits of a server's connections. Under masks there is room for twice as many
    nodes as are drawn for a round, who all wait for each other, up to MOST_CONNECTED.
    """
    if not held.terms.masked:
        return STANDARD
    contract = contract_of(held.terms, held.algorithm)
    usual = STANDARD.connections - STANDARD.strangers
    known = max(usual, min(2 * contract.cohort, MOST_CONNECTED))
    return STANDARD._replace(connections=known + STANDARD.strangers)


def has_homes(terms: FederationTerms, workers: int) -> bool:
    """Returns whether each node is served by one worker alone."""
    return terms.masked and workers > 1


def homes(terms: FederationTerms, members: Members, workers: int, number: int) -> dict[str, int]:
    """Returns the number of the worker that speaks with each node from round `number` on, by name:
    under masks that of its group's worker. Empty where any worker may speak with any node.
    """
    home: dict[str, int] = {}
    if has_homes(terms, workers):
        for group, names in enumerate(groups_of_round(members, terms, number)):
            home |= dict.fromkeys(names, group % workers)
    return home


@final
class Worker:
    """One worker: a collector that obeys the orders of the server's process."""

    def __init__(
        self,
        held: ServerFolder,
        link: HttpsServerLink,
        channel: OrderChannel,
        desk: AskedDesk,
        siblings: Siblings | None,
        part: int,
        of: int,
    ) -> None:
        self._held = held
        self._channel = channel
        self._link = link
        self._desk = desk
        self._siblings = siblings
        self._part = part
        self._of = of
        self._round = 0  # whose groups say which nodes it serves
        self._stop = threading.Event()
        self._orders: SimpleQueue[Order | None] = SimpleQueue()  # None: the server is gone
        self._waiting: list[str] = []  # nodes of a secure sum that have been missing for long
        self._doing = ""  # the word of the order that it works on
        self._told = set[str]()  # names that were reported
        self._given: tuple[RoundWork, bytes] | None = None  # to hand on, with the words for it
        self._have = set[str]()  # the nodes that have that
        self._summing: threading.Thread | None = None
        self._failure: BaseException | None = None  # of the thread that makes a secure sum
        self._link_told = LinkTally()  # what its port has counted and was reported
        self._reporting = threading.Lock()  # both threads report
        self._take_lists()

    def _take_lists(self) -> None:
        """Begins to work with the lists of the folder, as they are now."""
        held = self._held
        self._algorithm = held.terms.make(place=held.algorithm)
        self._contract = agreed_by(held.terms, self._algorithm)
        self._collector = Collector(
            held,
            self._contract,
            self._link,
            self._stop,
            self._note_waiting,
            part=self._part,
            of=self._of,
        )
        # What the collector has counted and was reported.
        self._counts_told = Counter[Code]()
        self._sent_told: Int64Array = np.zeros(3, np.int64)

    def run(self) -> None:
        """Obeys orders until the channel is closed."""
        try:
            about = {"address": self._link.nearby, "process": os.getpid()}
            self._channel.send("ready", about)
            threading.Thread(target=self._hear, daemon=True, name="orders").start()
            while self._failure is None:
                order = next_order(self._orders, 0.0 if self._busy() else LOOK)
                if order is not None:
                    self._obey(order)
                elif self._doing:
                    self._step()
        # The server has ended, or will start this worker again.
        except (EOFError, OSError, ServerStopped):
            pass
        finally:
            self._stop.set()
            if self._summing is not None:
                self._summing.join()
        if self._failure is not None:
            raise self._failure

    def _hear(self) -> None:
        """Takes what the server says until it is gone. Whoever joins waits for no round."""
        with suppress(EOFError):
            while (order := self._channel.receive()) is not None:
                if order.word == KNOCKED:
                    self._desk.said(order)
                elif order.word == "member":
                    self._link.admission.welcome(msgspec.json.decode(order.body, type=Member))
                else:
                    self._orders.put(order)
        self._stop.set()
        self._orders.put(None)

    def _busy(self) -> bool:
        return self._doing == "round" and bool(self._collector.intake.missing())

    def _obey(self, order: Order) -> None:
        about = order.about
        if order.word == "round":
            self._begin(self._work(about))
        elif order.word == "sum":
            self._begin_sum(self._work(about))
        elif order.word == "given":
            self._given = self._work(about), order.body
            self._have = set(about["have"])
            self._told = set()
        elif order.word == "hand":
            self._hand_on(about["have"], about["seconds"])
        elif order.word == "rest":
            self._collector.announce_rest(about["seconds"])
        elif order.word == "lists":
            self._change_lists(about["files"])
            self._channel.send("listed", {"moved": self._serve_those_of(self._round)})
        elif order.word == "homes":
            self._channel.send("moved", {"moved": self._serve_those_of(about["round"])})
        elif order.word == "there" and self._siblings is not None:
            self._link.came(about["moved"])
            self._link.send_on(self._siblings)
        elif order.word == "siblings" and self._siblings is not None:
            self._siblings.addresses = dict(about["addresses"])
            self._serve_those_of(about["round"])
            # Whoever was connected to a worker that died comes back.
            self._link.since = time.monotonic()
        elif order.word == "total":
            self._total(set(about["counted"]))

    def _change_lists(self, files: Mapping[str, bytes]) -> None:
        """Goes on with lists that have changed. files: of the server's folder, by name, where this
        machine has not got them.
        """
        for name, content in files.items():
            write_private(self._held.path / name, content, new=False)
        self._held.read_lists()
        self._take_lists()
        self._link.admission.change(self._held.members.nodes)

    def _serve_those_of(self, number: int) -> dict[str, float]:
        """Serves the nodes of its groups of round `number` from now on. Returns the nodes that were
        there and are served by another worker, as `Traffic.moved`.
        """
        self._round = number
        if self._siblings is None:
            return {}
        self._siblings.home = homes(self._held.terms, self._held.members, self._of, number)
        return self._link.moved(self._siblings)

    def _work(self, about: Mapping[str, Any]) -> RoundWork:
        state = restore_state(self._algorithm, "holds", "server", load(about["state"]))
        asked = {name: np.frombuffer(users, np.int64) for name, users in about["asked"].items()}
        download = self._algorithm.download(state)
        return RoundWork(about["round"], about["model"], asked, download, state=state)

    def _begin(self, work: RoundWork) -> None:
        """Opens a round."""
        self._collector.begin(work)
        self._doing = "round"
        self._told = set()
        self._step(0.0)

    def _step(self, seconds: float = LOOK) -> None:
        """Asks and hears nodes for a moment, and reports."""
        collector = self._collector
        done: set[str] = set()
        if self._doing == "round":
            collector.gather(seconds)
            done = set(collector.taken)
        elif self._doing == "":
            return
        new = done - self._told
        self._told |= done
        self._channel.send("report", self._report(new))

    def _report(self, new: set[str]) -> Mapping[str, Any]:
        own = self._collector
        with self._reporting:
            more, further, on_link = self._counted_since()
        lengths = {name: own.lengths[name] for name in new if name in own.lengths}
        waiting = self._waiting
        self._waiting = []
        return {
            "done": sorted(new),
            "lengths": lengths,
            "counts": more,
            "present": own.present,
            "devices": own.devices,
            "link": on_link,
            "sent": further,
            "waiting": waiting,
        }

    def _counted_since(self) -> tuple[dict[str, int], list[int], LinkTally]:
        """Returns what was counted since this was last called: answers by their codes, bytes up,
        bytes down and messages, and the counts of the port.
        """
        own = self._collector
        counts = Counter(own.counts)
        sent = np.array([own.bytes_up, own.bytes_down, own.messages])
        link = self._link.tally()
        more = {code.value: count for code, count in (counts - self._counts_told).items()}
        further = (sent - self._sent_told).tolist()
        on_link = link.since(self._link_told)
        self._counts_told = counts
        self._sent_told = sent
        self._link_told = link
        return more, further, on_link

    def _hand_on(self, more: Sequence[str], seconds: float) -> None:
        """Hands on the model that was given, and says who has it now. more: nodes that have it
        from other workers.
        """
        self._doing = ""
        assert self._given is not None  # told before
        self._have.update(more)
        have, words, over = self._collector.hand_on(*self._given, self._have, seconds)
        kept = set(have) - self._have
        self._have |= kept
        new = words.keys() - self._told
        self._told |= new
        took = {name: words[name] for name in new}
        self._channel.send("report", self._report(set()))
        self._channel.send("handed", {"kept": sorted(kept), "words": took, "over": over})

    def _total(self, counted: set[str]) -> None:
        """Ends a round, and sends the sum of the answers that count here: not of those nodes that
        count at another worker.
        """
        self._step(0.0)
        self._doing = ""
        collector = self._collector
        work = collector.work
        total = collector.end()
        if counted.intersection(collector.taken):
            # The journal has the others: they are added up anew.
            collector.begin(work, counted)
            total = collector.end()
        names = sorted(collector.taken)
        body = of_total(total) if names else b""
        self._channel.send("total", {"names": names}, body)

    # ---- secure sums -----------------------------------------------------------------------------

    def _begin_sum(self, work: RoundWork) -> None:
        """Begins the secure sums of its groups in a thread, while this one listens to the
        server."""
        # The thread of the sums before has sent them.
        if self._summing is not None:
            self._summing.join()
        self._summing = threading.Thread(target=self._sum, args=(work,), daemon=True, name="sum")
        self._doing = "sum"
        self._summing.start()

    def _sum(self, work: RoundWork) -> None:
        try:
            works = works_of_groups(self._held, work)
            for summed in self._collector.sums(works):
                self._channel.send("report", self._report(set(summed.names)))
                self._send_sum(summed)
        # The server is gone, which the other thread sees too.
        except (ServerStopped, EOFError, OSError):
            pass
        except BaseException as failure:
            self._failure = failure

    def _send_sum(self, summed: GroupSum) -> None:
        total = summed.total
        names = sorted(summed.names)
        about = {
            "group": summed.group,
            "begun": summed.begun,
            "names": names,
            "liars": summed.liars,
        }
        body = b""
        if total.devices:
            body = of_total(total)
        self._channel.send("summed", about, body)

    def _note_waiting(self, names: list[str]) -> None:
        self._waiting = names


if __name__ == "__main__":
    main(sys.argv[1:])
