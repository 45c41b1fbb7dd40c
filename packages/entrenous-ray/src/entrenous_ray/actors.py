"""The engine `actors`: workers of a server as actors of Ray, on the machines of a cluster.

Ray places them, carries orders, reports and totals, and says when one has died. Each actor is the
worker of `entrenous_network.server.worker` in a thread: it listens on its machine's own address, at
the port of the server's place.json, which all actors of one machine share. A proxy in front spreads
nodes over the machines (ops/haproxy-actors.cfg). Each actor has a folder: for its journal, and for
the terms, members and keys that the server hands it.
"""

from __future__ import annotations

import importlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, final

from entrenous_network.agreement.address import joined_address
from entrenous_network.agreement.files import IDENTITY
from entrenous_network.agreement.terms import TERMS
from entrenous_network.links.https import HttpsPlan, listen
from entrenous_network.operate.running import RayPlan, Say, served_by
from entrenous_network.server.channel import Order, next_order
from entrenous_network.server.pool import WorkerPool
from entrenous_network.server.server_folder import OF_WORKERS, LogFormat, ServerFolder
from entrenous_network.server.worker import serve

from entrenous import __version__
from entrenous.core.errors import InputError, StartAgain, one_line
from entrenous.core.files import make_folder, write_private
from entrenous.core.keywords import at_least

from .engine import EngineOptions, engine

LOCAL = "local"  # the address that means: a Ray of this machine alone
READY = 120.0  # seconds for an actor to start
HELD = 5.0  # seconds that a question for messages is held, and that an actor has to end
# Groups of calls, each of which an actor takes in order.
ORDERS = "orders"
MESSAGES = "messages"
KEYS = ("server.crt", "server.key")


class ActorPlan(NamedTuple):
    """The configuration of an actor at its start."""

    files: Mapping[str, bytes]
    """Of the server's folder, by name."""
    folder: str
    start: int
    part: int
    of: int
    https: HttpsPlan
    log_format: LogFormat
    version: str


@final
class ActorChannel:
    """A worker's end of its connection to the server: two queues in its process."""

    def __init__(self) -> None:
        self.orders: SimpleQueue[Order | None] = SimpleQueue()
        self.messages: SimpleQueue[Order] = SimpleQueue()

    def send(self, word: str, about: Mapping[str, Any], body: bytes = b"") -> None:
        self.messages.put(Order(word, about, body))

    def receive(self, seconds: float | None = None) -> Order | None:
        return next_order(self.orders, seconds)


class WorkerActor:
    """A worker in the process of an actor."""

    def __init__(self) -> None:
        self._channel = ActorChannel()
        self._thread = threading.Thread(target=self._run, daemon=True, name="worker")
        self._failure: BaseException | None = None

    def begin(self, plan: ActorPlan) -> str:
        """Starts to work. Returns the address of the actor's machine in its cluster.

        Raises InputError for another version of this package, and a folder that cannot be written.
        """
        if plan.version != __version__:
            problem = f"a machine has entrenous {__version__}"
            raise InputError("--ray", problem, expected=plan.version, fix="install the same")
        self._plan = plan
        self._host = _own_address()
        folder = Path(plan.folder)
        try:
            make_folder(folder / "keys", mode=0o700)
            for name, content in plan.files.items():
                write_private(folder / name, content, new=False)
        except OSError as cause:
            problem = f"cannot be written ({cause.strerror})"
            raise InputError(str(folder), problem, fix="name another with --journal") from None
        self._thread.start()
        return self._host

    def tell(self, order: Order, state: Mapping[str, Any] | None = None) -> None:
        """Takes an order. state: of the server, which the order lacks where it is given."""
        if state is not None:
            order = order._replace(about={**order.about, "state": state})
        self._channel.orders.put(order)

    def said(self) -> list[Order]:
        """The messages that have come, or will come in a moment. Raises RuntimeError when the
        worker has ended.
        """
        messages = []
        with suppress(Empty):
            messages.append(self._channel.messages.get(timeout=HELD))
            while True:
                messages.append(self._channel.messages.get_nowait())
        if not messages and not self._thread.is_alive():
            raise RuntimeError(f"the worker has ended: {self._failure!r}")
        return messages

    def end(self) -> None:
        """Hangs up on all nodes."""
        self._channel.orders.put(None)
        self._thread.join(HELD)

    def _run(self) -> None:
        plan = self._plan
        folder = Path(plan.folder)
        host = self._host
        keys = None
        if f"keys/{KEYS[0]}" in plan.files:
            keys = folder / "keys"
        https = plan.https._replace(host=host, keys=keys, nearby=host)
        try:
            with closing(ServerFolder(folder, plan.start, plan.log_format)) as held:
                listening = listen(host, https.port, shared=True)
                serve(held, https, listening, self._channel, plan.part, plan.of)
        except BaseException as failure:
            self._failure = failure
            raise


def _own_address() -> str:
    """The address of this machine in its cluster."""
    ray: Any = importlib.import_module("ray")
    return str(ray.util.get_node_ip_address())


@final
class HiredActor:
    """A `Hired` worker: an actor, and the question for its messages that is under way."""

    def __init__(self, ray: Any, actor: Any, states: SharedStates) -> None:
        self._ray = ray
        self._actor = actor
        self._states = states
        self.come: deque[Order] = deque()
        self._ask()

    def send(self, order: Order) -> None:
        told = self._actor.tell.options(concurrency_group=ORDERS)
        if "state" not in order.about:
            told.remote(order)
            return
        about = {name: value for name, value in order.about.items() if name != "state"}
        told.remote(order._replace(about=about), self._states.shared(order.about["state"]))

    def receive(self, seconds: float) -> Order | None:
        until = time.monotonic() + seconds
        while not self.come:
            left = max(0.0, until - time.monotonic())
            if not self._ray.wait([self.asked], timeout=left)[0]:
                return None
            try:
                self.come.extend(self._ray.get(self.asked))
            except self._ray.exceptions.RayError as died:
                raise EOFError(one_line(str(died).rstrip().rpartition("\n")[2], 300)) from None
            self._ask()
        return self.come.popleft()

    def end(self) -> None:
        """Ends the actor, also one that has died."""
        ending = self._actor.end.options(concurrency_group=ORDERS).remote()
        self._ray.wait([ending], timeout=2 * HELD)
        self._ray.kill(self._actor)

    def _ask(self) -> None:
        self.asked = self._actor.said.options(concurrency_group=MESSAGES).remote()


@final
class SharedStates:
    """The server's state as an object of Ray, which each machine gets once."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._state: Any = None
        self._reference: Any = None

    def shared(self, state: Any) -> Any:
        """The reference of a state, which is that of the last one if it is the same object."""
        if state is not self._state:
            self._state = state
            self._reference = self._ray.put(state)
        return self._reference


@final
class RayWorkers:
    """The `Workers` of a cluster. ray: the library, connected; plan: where the server listens."""

    def __init__(
        self, ray: Any, folder: ServerFolder, https: HttpsPlan, plan: RayPlan, count: int
    ) -> None:
        self._ray = ray
        self._states = SharedStates(ray)
        self.address = ""  # of the first actor, once it is there
        self._kind = ray.remote(concurrency_groups={ORDERS: 1, MESSAGES: 1})(WorkerActor)
        self._folder = folder
        files = _files(folder, [TERMS, IDENTITY, *OF_WORKERS, "algorithm"])
        if https.keys is not None:
            files |= {f"keys/{name}": (https.keys / name).read_bytes() for name in KEYS}
        self._plan = ActorPlan(
            files=files,
            folder=str(plan.journal / folder.terms.run),
            start=folder.start,
            part=0,
            of=count,
            https=https,
            log_format=folder.log_format,
            version=__version__,
        )

    def hire(self, part: int) -> HiredActor:
        """Starts worker number `part`, where Ray places it. Raises InputError for what the actor
        refuses, and StartAgain where the cluster has no room.
        """
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = self._kind.options(**options).remote()
        own = self._plan._replace(part=part, folder=f"{self._plan.folder}/{part:03d}")
        beginning = actor.begin.options(concurrency_group=ORDERS).remote(own)
        errors = self._ray.exceptions
        try:
            host = self._ray.get(beginning, timeout=READY)
        except errors.RayTaskError as failed:
            if isinstance(failed.cause, InputError):
                raise failed.cause from None
            raise
        except errors.GetTimeoutError:
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
            problem = f"actor {part} did not start in {READY:g} s; the cluster has {cpus} CPUs"
            raise StartAgain(f"{problem}, and each actor needs one; see `ray status`") from None
        self.address = self.address or joined_address(host, own.https.port)
        return HiredActor(self._ray, actor, self._states)

    def ready(self, workers: Sequence[HiredActor], seconds: float) -> Sequence[HiredActor]:
        come = [worker for worker in workers if worker.come]
        if come:
            return come
        asked = {worker.asked: worker for worker in workers}
        said, _ = self._ray.wait(list(asked), num_returns=1, timeout=seconds)
        return [asked[reference] for reference in said]

    def lists(self) -> Mapping[str, bytes]:
        files = _files(self._folder, OF_WORKERS)
        # Actors that are hired from now on get them at their start.
        self._plan = self._plan._replace(files={**self._plan.files, **files})
        return files

    def close(self) -> None:
        """Does nothing: actors end by themselves."""


def _files(folder: ServerFolder, names: Sequence[str]) -> dict[str, bytes]:
    """Returns the content of those files of a server's folder that are there."""
    paths = [folder.path / name for name in names]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def serve_by_actors(
    held: ServerFolder,
    https: HttpsPlan,
    workers: int,
    stop: threading.Event,
    ready: Callable[[WorkerPool[HiredActor]], None] = lambda pool: None,
    say: Say = lambda line: None,
    *,
    plan: RayPlan,
) -> str | None:
    """Runs the server of an open folder with actors of Ray that receive answers; otherwise as
    `serve_by_workers`.
    """
    at_least("--workers", workers, 1)
    address = None if plan.address == LOCAL else plan.address
    ending = signal.getsignal(signal.SIGTERM)
    with engine(EngineOptions(workers, address, 1)) as library:
        if threading.current_thread() is threading.main_thread():
            # Ray has put its own handler there, which aborts; a stopped server ends in order.
            signal.signal(signal.SIGTERM, ending)
        hiring = RayWorkers(library, held, https, plan, workers)
        return served_by(held, hiring, workers, stop, ready, say)
