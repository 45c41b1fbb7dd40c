"""`HttpsServerLink`: the server's port to its nodes over HTTPS, TLS 1.3, by uvicorn in a thread of
its own.

httptools keeps a head until it is complete, however long it grows, and uvicorn a list of all
requests that come before an answer. `BoundedProtocol` counts bytes before they are parsed, for
strangers and for members alike.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import threading
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from entrenous.core.errors import EntrenousError, InputError, NotYet, may_pass

from ..agreement.address import joined_address, refuse_plain
from ..agreement.members import Member
from .admission import HEAD, HEAD_SECONDS, HELD, Admission, Bounds, Guard
from .application import Front, Traffic, application
from .buffers import use_small_buffers
from .health import Trouble, no_trouble
from .listening import GuardedSocket
from .metrics import LinkTally
from .siblings import Siblings

KEPT = int(2 * HELD)  # seconds that a connection stays open between two requests
SWEEP = 1.0  # seconds between two looks for connections and requests that are over
READY = 60.0  # seconds for the thread to begin
BACKLOG = 2048
OWN_FILES = 256  # descriptors of a server besides its connections


class OutOfTurnError(Exception):
    """Raised inside the parser for a request that comes before the last one is answered; no node
    sends that.
    """


@final
class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of one connection by uvicorn and httptools, with the limits that these lack.

    counts: requests by what became of them. A request that is cut off here counts as `long-head`,
    `slow-head` or `out-of-turn`. All bytes of a request outside its body count together: its head,
    the framing of chunks, and what follows them.
    traffic: is told of connections that are over.
    """

    def __init__(self, counts: Counter[str], traffic: Traffic, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._counts = counts
        self._traffic = traffic
        self._ended_here = False  # True once this side ends the line, which was still for long
        self._loose = 0  # bytes of this request outside its body
        self._in_head = True
        self._patience: TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parses the bytes that have come, piece by piece, and hangs up where a request has too
        much besides its body.
        """
        # One read of the socket may hold far more than a head, so it is looked at in pieces.
        view = memoryview(data)
        for at in range(0, len(view), HEAD):
            if self.transport.is_closing():
                return
            piece = bytes(view[at : at + HEAD])
            # The parser takes the bytes of bodies off again, in `on_body`.
            self._loose += len(piece)
            super().data_received(piece)
            if self._loose > HEAD:
                self._hang_up("long-head")
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection, and stops waiting for its head."""
        self._stop_waiting()
        if self.client is not None:
            self._traffic.over(self.client, hung_up=not self._ended_here)
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Ends a line that has been still for long. Its node may be computing."""
        self._ended_here = True
        super().timeout_keep_alive_handler()

    # ---- calls of the parser ----

    def on_message_begin(self) -> None:
        """Notes that a request begins. Raises OutOfTurnError."""
        # uvicorn would queue as many requests as anybody cares to send.
        if self.cycle is not None and not self.cycle.response_complete:
            self._counts["out-of-turn"] += 1
            raise OutOfTurnError
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Notes that a head is complete."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Takes a piece of a body."""
        self._loose -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Notes that a request has come as a whole."""
        self._loose = 0
        self._in_head = True
        super().on_message_complete()

    # ---- limits ----

    def _watch(self) -> None:
        """Waits for a head that has begun, but not for ever."""
        begun = self._in_head and self._loose > 0
        if not begun or self.transport.is_closing():
            self._stop_waiting()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._hang_up, "slow-head")

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self, why: str) -> None:
        if not self.transport.is_closing():
            self._counts[why] += 1
            self.transport.abort()


class HttpsPlan(NamedTuple):
    """The address of a server, and its limits."""

    host: str = "127.0.0.1"
    port: int = 8443
    """0 = a free one."""
    keys: Path | None = None
    """The folder with server.crt and server.key; None = plain text."""
    insecure: bool = False
    """True if plain text beyond loopback is allowed."""
    bounds: Bounds = Bounds()
    proxy: str = ""
    """The address from which a proxy connects that limits connections and rates itself; "" = there
    is none."""
    origins: tuple[str, ...] = ()
    """The origins of web pages that may speak to the server, such as https://app.example."""
    nearby: str = "127.0.0.1"
    """The address at which the other workers of a server reach this one, on a port of its own."""


@final
class HttpsServerLink(Traffic):
    """A `ServerLink` that nodes connect to. It listens from `start` to `close`.

    members: who may come in. largest: bytes of an answer, at most. trouble, siblings: as in
    `Front`. nearby: HOST:PORT for siblings, "" where there are none.

    Raises InputError for an address that is not this machine's or is taken, for keys that cannot be
    read, and for plain text beyond loopback.
    """

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
        super().__init__()
        self.largest = largest
        self.counts = Counter[str]()
        self.guard = Guard(plan.bounds, proxy=plan.proxy)
        if listening is None:
            listening = listen(plan.host, plan.port)
        self._socket = GuardedSocket(listening, self.guard)
        self.admission = Admission(run, members)
        front = Front(self.admission, self, self.guard, largest, self.counts, trouble, siblings)
        server = uvicorn.Server(_configured(front, plan.keys, plan.origins))
        # Each with the socket that it listens to.
        self._servers: list[tuple[uvicorn.Server, socket.socket]] = [(server, self._socket)]
        self.nearby = ""
        if siblings is not None:
            self._listen_nearby(front, plan.nearby)
        self._begun = threading.Event()
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True, name="https")

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket."""
        host, port = self._socket.getsockname()[:2]
        return joined_address(host, port)

    def tally(self) -> LinkTally:
        """Returns what this port has counted so far."""
        return LinkTally(dict(self.counts), self.guard.refused)

    def start(self) -> None:
        """Begins to listen to nodes. Raises EntrenousError if that fails."""
        _allow_files(self.guard.bounds, len(self._servers))
        use_small_buffers()
        # In a thread of its own, so that nodes are heard while the server computes.
        self._thread.start()
        self._begun.wait(READY)
        if self._failure or not self._begun.is_set():
            raise EntrenousError(f"the server does not listen: {self._failure or 'no answer'}")

    def close(self) -> None:
        """Hangs up on everybody and ends the thread."""
        # A node whose answer is on the disk would otherwise send it once more, and one that asks
        # would be told of a fault of this server.
        self.acknowledge()
        if self._thread.is_alive():
            self.end_questions()
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
        self.nearby = joined_address(host, listening.getsockname()[1])
        passed = front._replace(guard=None, nearby=True)
        self._servers.append((uvicorn.Server(_configured(passed, None)), listening))

    def _run(self) -> None:
        try:
            # Not the loop of a policy that somebody set, as Ray does: this one calls the `accept`
            # of `GuardedSocket`.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure.append(error)
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self.begin()
        sweeping = asyncio.create_task(self._sweep_often())
        serving = [
            asyncio.create_task(server.serve(sockets=[listening]))
            for server, listening in self._servers
        ]
        # uvicorn has no event for this. A server that ends before it has started has failed.
        while not all(server.started for server, _ in self._servers):
            if any(task.done() for task in serving):
                break
            await asyncio.sleep(0.01)
        self._begun.set()
        await asyncio.gather(*serving)
        sweeping.cancel()

    async def _sweep_often(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            self._socket.sweep()
            self.sweep()


def listen(
    host: str, port: int, *, shared: bool = False, backlog: int | None = BACKLOG
) -> socket.socket:
    """Returns a listening socket.

    shared: others may listen there too, and connections are spread over them. backlog: None = the
    socket holds the port, and takes no connections. Raises InputError where the address is not this
    machine's or is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if backlog is not None:
            server = socket.create_server(
                (host, port), family=family, backlog=backlog, reuse_port=shared
            )
            # Connections inherit it. Without it the body of an answer waits up to 40 ms for the
            # receiver to acknowledge its head: asyncio sets it only where a socket names TCP.
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return server
        holder = socket.socket(family)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
        holder.bind((host, port))
        return holder
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror}"
        kind = NotYet if may_pass(error) else InputError
        raise kind("server", problem, fix="choose another port or address") from error


def _allow_files(bounds: Bounds, ports: int) -> None:
    """Allows this process as many descriptors as connections may need, if the machine lets it.
    ports: 2 where other workers are there, to which and from which questions are passed on.
    """
    # The soft limit is often 1,024, though the process may raise it.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lines = bounds.connections * (2 * ports - 1)
    needed = lines + bounds.silent + OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed
        if hard != resource.RLIM_INFINITY:
            most = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def configured(application: Starlette, **further: Any) -> uvicorn.Config:
    """Returns how uvicorn serves an application: it logs nothing, says nothing of itself, and
    believes no header about who asks. further: other options of uvicorn.
    """
    return uvicorn.Config(
        application,  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        **further,
    )


def _configured(front: Front, keys: Path | None, origins: Sequence[str] = ()) -> uvicorn.Config:
    tls = {}
    if keys is not None:
        tls = {"ssl_certfile": keys / "server.crt", "ssl_keyfile": keys / "server.key"}
    config = configured(
        application(front, origins),
        http=partial(BoundedProtocol, front.counts, front.traffic),
        log_level="critical",
        backlog=BACKLOG,
        timeout_keep_alive=KEPT,
        **tls,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        problem = f"no certificate can be read ({error})"
        raise InputError(str(keys), problem, expected="server.crt and server.key") from error
    if config.ssl is not None:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return config
