"""The transport over QUIC by iroh: TLS 1.3, a peer's public key is its address. The only importer
of iroh.

Here iroh uses no relay, no discovery service and no public server (preset minimal). One thing
cannot be switched off from Python: an SSDP datagram to the local network for each endpoint that is
opened (research/p2p.md, 4).
"""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import socket
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, final
from weakref import WeakSet

import iroh
import iroh.iroh_ffi as ffi

from entrenous.core.errors import InputError, NotYet, may_pass, one_line

from ..agreement.address import is_loopback, parted, port_of
from .port import Arriving, Connection, LinkError, Stream
from .reachable import can_be_a_peers

T = TypeVar("T")
ALPN = b"entrenous-peer/1"
# Bytes that are read or written in one step; larger steps are no faster, and hold up the loop
# (bench `peers`).
PIECE = 1 << 18
# Bytes that may be read ahead of what was asked for, so that a frame costs one step and not two.
EARLY = 1 << 12
STREAMS = 2  # of one connection at once
WINDOW = 4 << 20  # bytes of one connection that nobody has read yet
GUARD = 300.0  # seconds to open or accept a stream; callers have their own, shorter deadlines
SHORT = 4.0  # seconds to bind, to end a stream, to close


def hasten() -> bool:
    """Replaces the loop by which iroh 1.2.0 hands bytes to its library one at a time (7 MB/s) by a
    copy. Returns whether the loop was there.

    uniffi-rs has repaired it (pull request 2824); a release with that repair no longer has the
    loop, and is left alone."""
    builder = getattr(ffi, "_UniffiRustBufferBuilder", None)
    slow = getattr(builder, "write", None)
    if builder is None or slow is None or "enumerate" not in slow.__code__.co_names:
        return False

    def write(self: Any, value: Any) -> None:
        n = len(value)
        with self._reserve(n):
            if n:
                start = ctypes.cast(self.rbuf.data, ctypes.c_void_p).value
                ctypes.memmove(start + self.rbuf.len, bytes(value), n)

    builder.write = write
    return True


def answer_at_once() -> bool:
    """Lets finished steps of iroh go on at once. Returns whether anything was changed.

    iroh 1.2.0 reports every finished step to the event loop as if from another thread: a write to
    the loop's pipe and one more turn of the loop, although four steps in five are done before the
    call returns."""
    before: Any = getattr(ffi, "_uniffi_continuation_callback", None)
    kind = getattr(ffi, "_UNIFFI_RUST_FUTURE_CONTINUATION_CALLBACK", None)
    waiting: Any = getattr(ffi, "_UniffiContinuationHandleMap", None)
    settle: Any = getattr(ffi, "_uniffi_set_future_result", None)
    if before is None or kind is None or waiting is None or settle is None:
        return False
    if hasattr(before, "replaced"):
        return False

    def continued(handle: int, code: int) -> None:
        loop, future = waiting.remove(handle)
        if asyncio._get_running_loop() is loop:
            settle(future, code)
        else:
            loop.call_soon_threadsafe(settle, future, code)

    now = kind(continued)
    now.replaced = before  # a step that has begun may still call it
    ffi._uniffi_continuation_callback = now
    return True


async def within(seconds: float, step: Awaitable[T]) -> T:
    """Awaits a step of iroh for at most some seconds. Raises LinkError for its errors, TimeoutError
    when it takes longer.
    """
    async with asyncio.timeout(seconds):
        return await _plainly(step)


async def _plainly(step: Awaitable[T]) -> T:
    """Returns the result of a step, as long as it takes. Raises LinkError for iroh's errors."""
    try:
        return await step
    except iroh.IrohError as error:
        raise LinkError(_said(error)) from None


def _said(error: Any) -> str:
    """Returns an error of iroh in a word, since str(error) is empty."""
    return str(error.kind().name).lower()


@final
class _Private(iroh.Preset):  # type: ignore[misc]  # iroh is not typed
    """A preset without anybody else's servers, which listens at the given addresses alone."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    def apply(self, builder: Any) -> None:
        builder.apply_minimal()
        builder.relay_mode(iroh.RelayMode.disabled())
        for address in self._addresses:
            builder.bind_addr(address)


async def listen(
    secret: bytes, listen: str = "127.0.0.1:0", advertise: Sequence[str] = ()
) -> IrohLink:
    """Returns a link at a host and port of this machine. advertise: addresses that others are told
    instead, behind a router that forwards a port.

    Raises NotYet when the address cannot be had now, InputError when it is no address. A process
    can have one event loop: iroh's library keeps the first."""
    _check(listen)
    hasten()
    answer_at_once()
    # any loop will do
    ffi.uniffi_set_event_loop(asyncio.get_running_loop())  # type: ignore[arg-type]
    # Without an address of the other family, iroh opens one that all the world can reach.
    loopback = "127.0.0.1:0" if listen.startswith("[") else "[::1]:0"
    for addresses in ((listen, loopback), (listen,)):  # a machine may have no IPv6
        try:
            options = iroh.EndpointOptions(
                preset=_Private(addresses), secret_key=secret, alpns=[ALPN]
            )
            endpoint = await within(SHORT, iroh.Endpoint.bind(options))
            return IrohLink(endpoint, listen, advertise)
        except (LinkError, TimeoutError) as failed:
            cause = failed
    kind = NotYet if _may_come(listen) else InputError
    raise kind(
        listen,
        f"cannot be listened at ({cause})",
        expected="a free UDP port of this machine",
        fix="say another as `listen` in node.json",
    )


def _check(listen: str) -> None:
    """Raises InputError for a text that is no address and port; iroh would refuse it in its own
    words.
    """
    host, digits = parted(listen)
    known = False
    with suppress(ValueError):
        ipaddress.ip_address(host)
        known = port_of(digits) is not None
    if not known:
        raise InputError(
            one_line(listen, 80),
            "cannot be listened at: it is no address and port",
            expected="such as 10.77.0.10:9411",
            fix="say another as `listen` in node.json",
        )


def _may_come(listen: str) -> bool:
    """Returns whether an address may be had later: another process has its port, or the machine has
    not got it yet, such as an address of a private network that comes up late. iroh does not say
    why it was refused."""
    host, digits = parted(listen)
    family = socket.AF_INET6 if listen.startswith("[") else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trying:
            trying.bind((host, int(digits)))
    except OSError as error:
        return may_pass(error)
    return True  # it has become free meanwhile


@final
class IrohLink:
    """An iroh endpoint: a `PeerLink` over QUIC."""

    def __init__(self, endpoint: Any, listen: str, advertise: Sequence[str]) -> None:
        self._endpoint = endpoint
        self._advertise = list(advertise)
        self.key: bytes = endpoint.id().to_bytes()
        self._ipv6 = listen.startswith("[")
        self._everywhere = listen.startswith(("0.0.0.0:", "[::]:"))
        self._on_loopback = is_loopback(parted(listen)[0])
        # Connections in both directions that somebody still holds.
        self._connections: WeakSet[IrohConnection] = WeakSet()

    def addresses(self) -> list[str]:
        """Returns the addresses at which others reach this endpoint: the advertised ones, or those
        it listens at; if it listens everywhere, those that the machine knows."""
        if self._advertise:
            return self._advertise
        if self._everywhere:
            known = self._endpoint.addr().direct_addresses()
        else:
            known = self._endpoint.bound_sockets()
        own = [address for address in known if address.startswith("[") == self._ipv6]
        return [address for address in own if can_be_a_peers(address, self._on_loopback)][:4]

    async def dial(self, key: bytes, addresses: Sequence[str]) -> Connection:
        """Opens a connection to the peer with this key. Raises LinkError if nobody or another key
        answers, or if none of the addresses can be a peer's, and then sends nothing; TimeoutError
        after SHORT seconds. A failure may hang up on the peer (see `_forget_path`).
        """
        possible = [each for each in addresses if can_be_a_peers(each, self._on_loopback)]
        if not possible:
            raise LinkError("no address that can be a peer's")
        try:
            address = iroh.EndpointAddr(iroh.EndpointId.from_bytes(key), None, possible)
        except iroh.IrohError as error:
            raise LinkError(_said(error)) from None
        try:
            connection = await within(SHORT, self._endpoint.connect(address, ALPN))
        except BaseException:  # also where the caller's own time is over
            self._forget_path(key)
            raise
        dialled = IrohConnection(connection)
        self._connections.add(dialled)
        return dialled

    def _forget_path(self, key: bytes) -> None:
        """Closes the connections that a peer has opened to us, if one of them may hide its address.

        While any connection with a key is open, iroh 1.2.0 sends to one address of this key alone,
        and does not choose anew when the connection at that address ends. So a peer that was
        killed, came back at another port and pushed to us before we noticed its death could never
        be reached again. Without open connections iroh tries all addresses (its issue 3602). The
        peer loses little, since its next push opens a new connection.
        """
        held = [connection for connection in self._connections if connection.peer == key]
        # A peer that cannot be reached at all, such as one behind a router, keeps its connection.
        if any(connection.is_second for connection in held):
            for connection in held:
                connection.close()
                self._connections.discard(connection)

    async def accept(self) -> Arriving:
        """Waits for the next incoming connection, before the handshake."""
        incoming = await _plainly(self._endpoint.accept_next())
        if incoming is None:
            raise LinkError("the endpoint is closed")
        return _IrohArriving(incoming, await _plainly(incoming.remote_addr()), self._connections)

    async def close(self) -> None:
        """Closes the endpoint and all its connections. Never raises."""
        try:
            await within(SHORT, self._endpoint.close())
        except (LinkError, TimeoutError):
            return


def origin(address: Any) -> str:
    """Returns the machine of a sender: its IPv4 address, or the /64 network of an IPv6 address,
    which a household has for itself; "" for this machine. It may be forged: a forger cannot finish
    the handshake, and has a place for as long as that may take.
    """
    if not address.is_ip():
        return "not by IP"
    host, _ = parted(address.addr)
    plain, _, _ = host.partition("%")
    ip: Any = ipaddress.ip_address(plain)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:
        return ""
    if ip.version == 4:
        return str(ip)
    return str(ipaddress.ip_network((ip, 64), strict=False))


@final
class _IrohArriving:
    def __init__(self, incoming: Any, address: Any, connections: WeakSet[IrohConnection]) -> None:
        self._incoming = incoming
        self.origin = origin(address)
        self._connections = connections

    async def take(self) -> Connection:
        """Returns the connection after the handshake, in which the other end has proved its key."""
        accepting = await within(SHORT, self._incoming.accept())
        connection = await within(SHORT, accepting.connect())
        connection.set_max_concurrent_bi_streams(STREAMS)
        connection.set_max_concurrent_uni_streams(0)
        connection.set_receive_window(WINDOW)
        taken = IrohConnection(connection)
        taken.is_second = any(other.peer == taken.peer for other in self._connections)
        self._connections.add(taken)
        return taken

    async def refuse(self) -> None:
        await within(SHORT, self._incoming.refuse())


@final
class IrohConnection:
    """A QUIC connection with one other peer; a `Connection`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.peer: bytes = connection.remote_id().to_bytes()
        # Set where another connection with this key was held when this one arrived.
        self.is_second = False

    async def open(self) -> Stream:
        """Opens a stream. Waits while the other end allows no more of them."""
        return IrohStream(await within(GUARD, self._connection.open_bi()))

    async def accept(self) -> Stream:
        """Waits for the next stream that the other end opens."""
        return IrohStream(await within(GUARD, self._connection.accept_bi()))

    def close(self) -> None:
        """Closes the connection. Never raises."""
        try:
            self._connection.close(0, b"")
        except iroh.IrohError:
            return


@final
class IrohStream:
    """A QUIC stream, in both directions; a `Stream`. Single calls have no deadline, since one
    for each piece would cost more than the piece."""

    def __init__(self, stream: Any) -> None:
        self._send = stream.send()
        self._receive = stream.recv()
        self._early = bytearray()

    async def read(self, size: int) -> bytearray:
        """Reads exactly `size` bytes. Memory grows with what has arrived, not with what was
        promised.
        """
        while len(self._early) < size <= EARLY:
            piece = await _plainly(self._receive.read(EARLY))
            if not piece:
                raise LinkError("finished")
            self._early += piece
        data = self._early[:size]
        self._early = self._early[size:]
        while len(data) < size:
            data += await _plainly(self._receive.read_exact(min(PIECE, size - len(data))))
        return data

    async def write(self, data: bytes) -> None:
        """Sends bytes. Waits while the other end reads nothing."""
        for low in range(0, len(data), PIECE):
            await _plainly(self._send.write_all(data[low : low + PIECE]))

    async def finish(self) -> None:
        """Ends this direction. The other end cannot tell that from a stream that was dropped, so
        readers rely on lengths and digests alone."""
        await within(SHORT, self._send.finish())

    async def abort(self) -> None:
        """Breaks both directions of the stream. Never raises."""
        for step in (self._send.reset(1), self._receive.stop(1)):
            try:
                await within(SHORT, step)
            except (LinkError, TimeoutError):
                continue
