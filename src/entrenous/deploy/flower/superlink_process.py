"""`python -m entrenous.deploy.flower.superlink_process`: Flower's own SuperLink behind our gate, on sockets that the supervisor holds.

Arguments: the descriptor of the nodes' socket, that of the private one, the pid of the supervisor, the file with the secret, the
largest body in bytes; then flower-superlink's own. The sockets outlive this process: calls wait while a new SuperLink starts.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .accepting import BoundedSocket
from .gate import App, Bounds, Gate, Peek
from .records import leaf_of
from .shortcut import shortened

STALE, AHEAD = 300.0, 5.0  # seconds that a signed time may be old, and that clocks may differ: as Flower's own check has it


class BoundedHttp(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn with bounds on connections and on the time that a request's head may take."""

    def __init__(self, *, bounds: Bounds, open_from: dict[str, int], private: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.bounds, self.open_from, self.private = bounds, open_from, private
        self._late: asyncio.TimerHandle | None = None
        self._address, self._head = "", 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.server and self.server[1] == self.private:
            return
        self._address = self.client[0] if self.client else "?"
        self.open_from[self._address] = self.open_from.get(self._address, 0) + 1
        if sum(self.open_from.values()) > self.bounds.connections or self.open_from[self._address] > self.bounds.from_address:
            transport.abort()
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        if self._address:
            self.open_from[self._address] -= 1
            if not self.open_from[self._address]:
                del self.open_from[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._late is not None and self._head > self.bounds.head_bytes:
            return self.transport.abort()
        self._head += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head = 0
        self._start_clock()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_clock()
        super().on_headers_complete()

    def _start_clock(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.bounds.head, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def main(arguments: list[str]) -> None:
    nodes, private, parent, secret, largest, *rest = arguments
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    end_with(int(parent))
    flower = import_module("flwr.superlink.cli.flower_superlink")  # the module, for its package calls a function so
    bounds = Bounds(body=int(largest))
    outside = BoundedSocket(fileno=int(nodes), most=bounds.connections, from_address=bounds.from_address)
    sockets = [outside, socket.socket(fileno=int(private))]
    run = partial(serve, sockets=sockets, secret=Path(secret).read_text().strip(), bounds=bounds)
    setattr(flower, "uvicorn", SimpleNamespace(run=run))  # noqa: B010
    sys.argv = ["flower-superlink", *rest]
    flower.flower_superlink()


def serve(app: App, *, sockets: list[socket.socket], secret: str, bounds: Bounds, **settings: Any) -> None:
    """Serve an application as uvicorn.run would, on sockets that are open already, with the gate in front of it."""
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = bounds.head  # type: ignore[attr-defined]
    private = sockets[1].getsockname()[1]
    config = uvicorn.Config(
        Gate(shortened(app), private, secret, bounds, _peek(app)),  # type: ignore[arg-type]
        http=partial(BoundedHttp, bounds=bounds, open_from={}, private=private),  # type: ignore[arg-type]
        loop="asyncio",
        access_log=False,
        log_config=settings["log_config"],
        ssl_keyfile=settings["ssl_keyfile"],
        ssl_certfile=settings["ssl_certfile"],
        timeout_keep_alive=10,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=sockets)


def _peek(app: Any) -> Peek:
    from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest, PushMessagesResponse
    from flwr.proto.runtime_pb2 import PushAppMessagesRequest, PushAppMessagesResponse
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

    def node_of(headers: dict[bytes, bytes]) -> int | None:
        try:
            key, signature = b64decode(headers[b"flwr-public-key"]), b64decode(headers[b"flwr-signature"])
            node: int | None = app.state.linkstate_factory.state().get_node_id_by_public_key(key)
            stamp = headers[b"flwr-timestamp"]
            signed = node is not None and is_fresh(stamp) and verify_signature(bytes_to_public_key(key), stamp, signature)
        except (KeyError, ValueError):
            return None
        return node if signed else None

    def genuine(headers: dict[bytes, bytes]) -> bool:
        return node_of(headers) is not None

    def release(headers: dict[bytes, bytes]) -> None:
        node = node_of(headers)
        if node is not None:
            app.state.linkstate_factory.state().deactivate_node(node)

    def asking(body: bytes) -> int:
        return int(PullMessagesRequest.FromString(body).node.node_id)

    def addressed(body: bytes) -> Iterable[int]:
        return {message.metadata.dst_node_id for message in PushAppMessagesRequest.FromString(body).messages_list}

    def parts(reply: bytes) -> int:
        return len(PushAppMessagesResponse.FromString(reply).objects_to_push)

    def complete(body: bytes, reply: bytes) -> bool:
        wanted = PushMessagesResponse.FromString(reply).objects_to_push
        return not any(leaf_of(tree) in wanted for tree in PushMessagesRequest.FromString(body).message_object_trees)

    return Peek(genuine, release, asking, addressed, parts, complete)


def is_fresh(stamp: bytes, now: datetime | None = None) -> bool:
    """Whether a signed time is as recent as Flower asks of one: what was once heard on the way says nothing of who says it now. Raises
    ValueError for a text that is no time."""
    signed = datetime.fromisoformat(stamp.decode("ascii"))
    age = ((now or datetime.now(UTC)) - (signed if signed.tzinfo else signed.replace(tzinfo=UTC))).total_seconds()
    return -AHEAD < age < STALE + AHEAD


def end_with(parent: int) -> None:
    """Ends this process when the supervisor has gone, however it went."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent").start()


if __name__ == "__main__":
    main(sys.argv[1:])
