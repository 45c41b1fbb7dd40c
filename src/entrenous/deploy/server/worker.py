"""`python -m entrenous.deploy.server.worker`: one of several processes that take the answers of a
server's rounds, each with journal and sum.

Orders come over a channel: `round` and `model` (with a number) say what to ask for; `stop` ends it,
and is answered with the names that were taken; `total` (with names that another worker has taken
too) is answered with the sum. What is under way is reported meanwhile.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, final

from ..frames.contribution import agreed, of_part
from ..frames.secure import largest_answer
from ..links.https import HttpsPlan, HttpsServerLink, listen
from .channel import Channel, Order
from .collector import Collector
from .log_line import LogFormat
from .rounds import model_work, round_work, standing
from .server_folder import ServerFolder

LOOK = 0.1  # seconds between two looks for orders, and two reports


class WorkerPlan(NamedTuple):
    """What a worker is told at its start. start: the server's; part, of: which of how many it is;
    fd: its end of the channel.
    """

    folder: str
    start: int
    part: int
    of: int
    fd: int
    host: str
    port: int
    keys: str
    insecure: bool
    proxy: str = ""
    log_format: LogFormat = "text"


def main(arguments: list[str]) -> None:
    """Serve until the channel is closed. arguments: a `WorkerPlan` as JSON."""
    plan = WorkerPlan(*json.loads(arguments[0]))
    channel = Channel(socket.socket(fileno=plan.fd))
    https = HttpsPlan(
        plan.host,
        plan.port,
        Path(plan.keys) if plan.keys else None,
        plan.insecure,
        proxy=plan.proxy,
    )
    with closing(ServerFolder(Path(plan.folder), plan.start, plan.log_format)) as held:
        largest = largest_answer(held.terms, held.members, held.algorithm)
        listening = listen(plan.host, plan.port, shared=True)
        with closing(
            HttpsServerLink(
                https, held.terms.run, held.members.nodes, largest, listening, held.trouble
            )
        ) as link:
            link.start()
            Worker(held, link, channel, plan.part, plan.of).run()


@final
class Worker:
    """One worker: a collector, and what it is told to do."""

    def __init__(
        self,
        held: ServerFolder,
        link: HttpsServerLink,
        channel: Channel,
        part: int = 0,
        of: int = 1,
    ) -> None:
        self._held, self._channel, self._link = held, channel, link
        self._algorithm = held.terms.make(place=held.algorithm)
        self._contract = agreed(self._algorithm, held.terms.catalogue, held.terms.protection)
        self._collector = Collector(held, self._contract, link, threading.Event(), part=part, of=of)
        self._doing, self._told = "", set[str]()  # names that were reported

    def run(self) -> None:
        """Do as told until the channel is closed."""
        self._channel.send("ready", {})
        try:
            while True:
                order = self._channel.receive(0.0 if self._busy() else LOOK)
                if order is not None:
                    self._obey(order)
                elif self._doing:
                    self._step()
        except (EOFError, OSError):
            return  # the server has ended, or will start this worker again

    def _busy(self) -> bool:
        own = self._collector
        return (
            bool(own.intake.missing())
            if self._doing == "round"
            else bool(own.without)
            if self._doing == "model"
            else False
        )

    def _obey(self, order: Order) -> None:
        if order.word in ("round", "model"):
            self._begin(order.word, int(order.about["round"]), bytes(order.body))
        elif order.word == "stop":
            self._step(0.0)
            self._doing = ""
            self._channel.send("stopped", {"taken": sorted(self._collector.taken)})
        elif order.word == "total":
            self._total(order.about["without"])

    def _begin(self, word: str, number: int, model: bytes) -> None:
        """Opens a round, or has a model to give; both follow from the folder."""
        found = standing(self._held, self._algorithm)
        state = found.state
        assert found.round == number, (found.round, number)  # the server commits before it orders
        if word == "model":
            self._collector.offer(model_work(self._held, self._algorithm, number, state))
        else:
            work = round_work(self._held, self._algorithm, self._contract, number, state)
            assert work.model == model
            self._collector.begin(work)
        self._doing, self._told = word, set()
        self._step(0.0)

    def _step(self, seconds: float = LOOK) -> None:
        """Asks and hears nodes for a moment, and reports."""
        own = self._collector
        if self._doing == "round":
            own.gather(seconds)
            done = set(own.taken)
        elif self._doing == "model":
            own.give(seconds)
            done = set(self._held.members.nodes) - own.without
        else:
            return
        new, self._told = done - self._told, self._told | done
        self._channel.send("report", self._report(new))

    def _report(self, new: set[str]) -> Mapping[str, Any]:
        own = self._collector
        counts = {code.value: count for code, count in own.counts.items()}
        lengths = {name: own.lengths[name] for name in new if name in own.lengths}
        return {
            "done": sorted(new),
            "lengths": lengths,
            "counts": counts,
            "present": own.present,
            "devices": own.devices,
            "link": self._link.tally(),
            "sent": [own.bytes_up, own.bytes_down, own.messages],
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


if __name__ == "__main__":
    main(sys.argv[1:])
