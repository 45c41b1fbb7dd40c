"""`HttpsServerLink`: the server's port to its nodes over HTTPS, TLS 1.3, by uvicorn in a thread of
its own.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, final

import uvicorn

from ...core.errors import EntrenousError, InputError, NotYet, may_pass
from ..agreement.address import refuse_plain
from ..agreement.members import Member
from ..frames.frames import FrameParts
from .admission import Admission
from .application import Front, application
from .health import Trouble, no_trouble
from .listening import Bounds, Guard
from .lobby import GuardedSocket
from .metrics import LinkTally
from .protocol import BoundedProtocol
from .siblings import Siblings
from .traffic import HELD, Traffic

KEPT = int(2 * HELD)  # seconds that a connection stays open between two requests
READY = 60.0  # seconds for the thread to begin
BACKLOG = 2048
OWN_FILES = 256  # descriptors of a server beside its connections


class HttpsPlan(NamedTuple):
    """Where a server listens. port 0 = a free one; keys: the folder with server.crt and server.key,
    None = plain text; proxy: the address from which a proxy connects that limits connections and
    rates itself, "" = there is none.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    keys: Path | None = None
    insecure: bool = False
    bounds: Bounds = Bounds()
    proxy: str = ""
    nearby: str = "127.0.0.1"
    """The address at which the other workers of a server reach this one, on a port of its own."""


@final
class HttpsServerLink:
    """A `ServerLink` that nodes connect to. It listens from `start` to `close`; members: who may
    come in; largest: bytes of an answer, at most; trouble, siblings: as in `Front`. nearby:
    HOST:PORT for siblings, "" where there are none.

    Raises InputError for an address that is not ours or is taken, keys that cannot be read, and
    plain text beyond loopback."""

    def __init__(
        self,
        plan: HttpsPlan,
        run: str,
        members: Mapping[str, Member],
        largest: int,
        listening: socket.socket | None = None,
        trouble: Callable[[], Trouble | None] = no_trouble,
        siblings: Siblings | None = None,
    ) -> None:
        if plan.keys is None:
            refuse_plain("server", plan.host, plan.insecure)
        self.counts, self.traffic = Counter[str](), Traffic()
        self.guard = Guard(plan.bounds, proxy=plan.proxy)
        self._socket = GuardedSocket(listening or listen(plan.host, plan.port), self.guard)
        admission = Admission(run, members)
        front = Front(admission, self.traffic, self.guard, largest, self.counts, trouble, siblings)
        self._servers: list[tuple[uvicorn.Server, socket.socket]] = []
        self._servers.append((uvicorn.Server(_configured(front, plan.keys)), self._socket))
        self.nearby = ""
        if siblings is not None:
            self._listen_nearby(front, plan.nearby)
        self._begun, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, daemon=True, name="https")

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def tally(self) -> LinkTally:
        """What this port has counted so far."""
        return LinkTally(dict(self.counts), self.guard.open, self.guard.refused, self.guard.evicted)

    def start(self) -> None:
        """Begin to listen to nodes. Raises EntrenousError if that fails."""
        _allow_files(self.guard.bounds)
        self._thread.start()
        self._begun.wait(READY)
        if self._failure or not self._begun.is_set():
            raise EntrenousError(f"the server does not listen: {self._failure or 'no answer'}")

    def present(self) -> Collection[str]:
        return self.traffic.present()

    def ready(self) -> Collection[str]:
        return self.traffic.ready()

    def send(self, node: str, frame: FrameParts, seconds: float) -> None:
        self.traffic.send(node, frame, seconds)

    def receive(self, seconds: float) -> list[tuple[str, bytes]]:
        return self.traffic.receive(seconds)

    def acknowledge(self) -> None:
        self.traffic.acknowledge()

    def close(self) -> None:
        """Hang up on everybody and end the thread."""
        self.acknowledge()
        for server, _ in self._servers:
            server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(READY)
        for _, listening in self._servers:
            listening.close()

    def _listen_nearby(self, front: Front, host: str) -> None:
        """Listens to the other workers, too: without TLS, and without a guard, since each of them
        speaks for many nodes.
        """
        listening = listen(host, 0)
        port = listening.getsockname()[1]
        self.nearby = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        alone = front._replace(guard=None, siblings=None)
        self._servers.append((uvicorn.Server(_configured(alone, None)), listening))

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure.append(error)
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self.traffic.begin()
        sweeping = asyncio.create_task(self._sweep())
        serving = [
            asyncio.create_task(server.serve(sockets=[listening]))
            for server, listening in self._servers
        ]
        while not all(server.started for server, _ in self._servers):
            if any(task.done() for task in serving):
                break
            await asyncio.sleep(0.01)
        self._begun.set()
        await asyncio.gather(*serving)
        sweeping.cancel()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._socket.sweep()
            self.traffic.sweep()


def listen(
    host: str, port: int, *, shared: bool = False, backlog: int | None = BACKLOG
) -> socket.socket:
    """A listening socket. shared: others may listen there too, and connections are spread over
    them; backlog: None = it has the port alone, and takes no connections. Raises InputError where
    the address is not ours or is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if backlog is not None:
            return socket.create_server(
                (host, port), family=family, backlog=backlog, reuse_port=shared
            )
        held = socket.socket(family)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
        held.bind((host, port))
        return held
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror}"
        kind = NotYet if may_pass(error) else InputError
        raise kind("server", problem, fix="choose another port or address") from error


def _allow_files(bounds: Bounds) -> None:
    """As many descriptors as connections may need, if the machine lets this process have them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = bounds.connections + bounds.silent + OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _configured(front: Front, keys: Path | None) -> uvicorn.Config:
    tls = (
        {}
        if keys is None
        else {"ssl_certfile": keys / "server.crt", "ssl_keyfile": keys / "server.key"}
    )
    protocol = partial(BoundedProtocol, front.counts)
    config = uvicorn.Config(
        application(front),
        http=protocol,  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEPT,
        timeout_graceful_shutdown=1,
        **tls,  # type: ignore[arg-type]
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            str(keys), f"no certificate can be read ({error})", expected="server.crt and server.key"
        ) from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return config
