"""`LocalWorkers`: workers as processes of the server's machine, which nodes reach on one port."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from select import select
from typing import final

from ..agreement.address import joined_address
from ..links.https import HttpsPlan, listen
from .channel import Channel, Order
from .server_folder import ServerFolder
from .worker import WorkerPlan


@final
class WorkerProcess:
    """A `Hired` worker: a process, and the server's end of its channel."""

    def __init__(self, plan: WorkerPlan) -> None:
        ours, theirs = socket.socketpair()
        argument = json.dumps(plan._replace(fd=theirs.fileno()))
        command = [sys.executable, "-m", "entrenous_network.server.worker", argument]
        self.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self.channel = Channel(ours)

    def send(self, order: Order) -> None:
        self.channel.send(*order)

    def receive(self, seconds: float) -> Order | None:
        return self.channel.receive(seconds)

    def end(self) -> None:
        """Ends the process by closing its channel, and by SIGKILL if that is not enough."""
        self.channel.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@final
class LocalWorkers:
    """The `Workers` of one machine. The port is kept while processes come and go."""

    def __init__(self, folder: ServerFolder, plan: HttpsPlan, count: int) -> None:
        self._reserved = listen(plan.host, plan.port, shared=True, backlog=None)
        port = self._reserved.getsockname()[1]
        self.address = joined_address(plan.host, port)
        self._plan = WorkerPlan(
            folder=str(folder.path.absolute()),
            start=folder.start,
            part=0,
            of=count,
            fd=-1,
            host=plan.host,
            port=port,
            keys="" if plan.keys is None else str(plan.keys),
            insecure=plan.insecure,
            proxy=plan.proxy,
            origins=plan.origins,
            log_format=folder.log_format,
        )

    def hire(self, part: int) -> WorkerProcess:
        return WorkerProcess(self._plan._replace(part=part))

    def ready(self, workers: Sequence[WorkerProcess], seconds: float) -> Sequence[WorkerProcess]:
        channels = {worker.channel: worker for worker in workers}
        readable = select(list(channels), [], [], seconds)[0]
        return [channels[channel] for channel in readable]

    def lists(self) -> Mapping[str, bytes]:
        return {}  # they read the server's folder

    def close(self) -> None:
        self._reserved.close()
