"""Connections are counted when they are accepted: silent ones, which never begin a handshake, give
way to those that speak.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from entrenous_network.agreement.certificates import make_keys
from entrenous_network.links.admission import Bounds, Guard
from entrenous_network.links.listening import TURN, GuardedSocket

BOUNDS = Bounds(
    connections=30,
    strangers=10,
    from_address=6,
    of_node=2,
    patience=5.0,
    banned=3.0,
    silent=20,
    silent_from=8,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Sockets:
    """A guarded socket without an event loop, and what connects to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.guard = Guard(BOUNDS, self.clock)
        self.listening = GuardedSocket(
            socket.create_server(("127.0.0.1", 0), backlog=256), self.guard, self.clock
        )
        self.theirs: list[socket.socket] = []
        self.ours: list[socket.socket] = []

    def arrive(self, host: str = "127.0.0.1") -> tuple[str, int]:
        """Connect, and say nothing."""
        self.theirs.append(
            socket.create_connection(self.listening.getsockname(), source_address=(host, 0))
        )
        return self.theirs[-1].getsockname()

    def connect(self, host: str = "127.0.0.1") -> tuple[str, int]:
        """Connect, and say something."""
        peer = self.arrive(host)
        self.theirs[-1].send(b"x")
        self.accepted()
        return peer

    def accepted(self) -> int:
        """How many connections are passed on now, as an event loop asks for them."""
        before = len(self.ours)
        while select.select([self.listening], [], [], 0.0)[0]:
            with suppress(BlockingIOError):
                while True:
                    self.ours.append(self.listening.accept()[0])
        return len(self.ours) - before

    def is_open(self, number: int) -> bool:
        """Whether the other end of a connection has not been hung up on."""
        self.theirs[number].setblocking(False)
        try:
            return self.theirs[number].recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False


@pytest.fixture
def sockets():
    found = Sockets()
    yield found
    for each in (*found.theirs, *found.ours, found.listening):
        each.close()


def test_the_oldest_stranger_of_an_address_gives_way(sockets: Sockets) -> None:
    for _ in range(9):
        sockets.connect()
    assert [sockets.is_open(n) for n in range(9)] == [False] * 3 + [True] * 6
    assert sockets.guard.open == 6 and sockets.guard.evicted == 3


def test_strangers_of_many_addresses_leave_the_places_of_known_nodes_alone(
    sockets: Sockets,
) -> None:
    known = [sockets.connect() for _ in range(2)]
    assert all(sockets.guard.knows(peer, "node-1") for peer in known)
    for n in range(40):
        sockets.connect(f"127.0.0.{2 + n}")
    assert sockets.guard.open == 2 + BOUNDS.strangers
    assert (
        sockets.is_open(0) and sockets.is_open(1) and sockets.is_open(41) and not sockets.is_open(2)
    )


def test_one_node_has_few_connections_and_known_ones_have_an_end_too(sockets: Sockets) -> None:
    for n in range(BOUNDS.of_node + 1):
        assert sockets.guard.knows(sockets.connect(), "node-1"), n
    assert not sockets.is_open(0) and sockets.is_open(1) and sockets.is_open(2)
    most = BOUNDS.connections - BOUNDS.strangers
    taken = [
        sockets.guard.knows(sockets.connect(f"127.0.1.{n}"), f"other-{n}") for n in range(most)
    ]
    assert taken == [True] * (most - 2) + [False] * 2


def test_strangers_have_so_long_and_a_banned_address_comes_back_later(sockets: Sockets) -> None:
    known = sockets.connect()
    sockets.guard.knows(known, "node-1")
    sockets.connect()
    sockets.clock.now = 5.1
    sockets.guard.sweep()
    assert sockets.is_open(0) and not sockets.is_open(1)
    sockets.connect()
    sockets.guard.ban("127.0.0.1")
    assert sockets.is_open(0) and not sockets.is_open(2)  # the known one stays
    sockets.connect()
    assert not sockets.is_open(3)
    sockets.clock.now += 3.1
    sockets.guard.sweep()
    sockets.connect()
    assert sockets.guard.open == 2 and sockets.guard.refused == 1


def test_who_says_nothing_waits_outside_and_the_oldest_gives_way(sockets: Sockets) -> None:
    """Nothing is prepared for silent connections; those of one address leave others their places,
    and one that speaks is passed on.
    """
    for _ in range(BOUNDS.silent_from + 4):
        sockets.arrive("127.0.0.2")
    assert (
        sockets.accepted() == 0
        and sockets.guard.open == BOUNDS.silent_from
        and sockets.guard.evicted == 4
    )
    assert [sockets.is_open(n) for n in range(6)] == [False] * 4 + [True] * 2
    for n in range(BOUNDS.silent):
        sockets.arrive(f"127.0.1.{n + 1}")
    assert sockets.accepted() == 0 and sockets.guard.silent == BOUNDS.silent
    sockets.theirs[-1].send(b"hello")
    assert (
        sockets.accepted() == 1
        and sockets.guard.silent == BOUNDS.silent - 1
        and sockets.ours[0].recv(9) == b"hello"
    )


def test_silent_connections_have_so_long_and_who_hangs_up_is_never_passed_on(
    sockets: Sockets,
) -> None:
    sockets.arrive()
    sockets.accepted()
    sockets.clock.now = 5.1
    sockets.arrive()
    sockets.accepted()
    sockets.listening.sweep()
    assert not sockets.is_open(0) and sockets.is_open(1) and sockets.guard.open == 1
    sockets.theirs[1].close()
    assert sockets.accepted() == 0 and sockets.guard.open == 0


def test_an_event_loop_gets_its_turn_among_many_newcomers(sockets: Sockets) -> None:
    for n in range(TURN + 10):
        sockets.arrive(f"127.0.2.{n + 1}")
    with pytest.raises(BlockingIOError):
        sockets.listening.accept()
    assert sockets.guard.open + sockets.guard.evicted == TURN
    sockets.accepted()
    assert sockets.guard.open + sockets.guard.evicted == TURN + 10


def test_an_address_brings_so_many_strangers_a_second_and_who_shows_a_key_costs_nothing() -> None:
    clock = Clock()
    guard = Guard(Bounds(greeted=2.0, greeted_at_once=3.0, renewed=0.0, renewed_at_once=5.0), clock)

    def arrive(port: int, host: str = "127.0.0.1") -> bool:
        return guard.arrived(socket.socket(), (host, port)) is not None

    assert [arrive(n) for n in range(5)] == [True] * 3 + [False] * 2 and guard.refused == 2
    assert arrive(9, "127.0.0.2")
    assert guard.knows(("127.0.0.1", 0), "node-1") and arrive(10)  # gave back what it took
    clock.now = 1.0
    assert [arrive(20 + n) for n in range(3)] == [True, True, False]
    clock.now = 10.0
    came = [arrive(100 + n) and guard.knows(("127.0.0.1", 100 + n), "node-1") for n in range(20)]
    assert (
        came == [True] * 7 + [False] * 13
    )  # four of one node were free; then three more, as any stranger has


def test_a_proxy_has_no_limits_and_is_not_banned() -> None:
    guard = Guard(BOUNDS, Clock(), proxy="127.0.0.9")
    peers = [("127.0.0.9", n) for n in range(100)]
    ours = [guard.arrived(socket.socket(), peer) for peer in peers]
    assert all(ours) and guard.open == 100 and all(guard.knows(peer, "node-1") for peer in peers)
    guard.ban("127.0.0.9")
    assert guard.welcome("127.0.0.9") and guard.evicted == guard.refused == 0
    assert guard.arrived(socket.socket(), ("127.0.0.1", 1)) is not None and not guard.trusts(
        "127.0.0.1"
    )
    for own in ours:
        assert own is not None
        own.close()
    assert guard.open == 1


SILENT = 200


async def served(context: ssl.SSLContext) -> tuple[int, int]:
    """Connections there are while hundreds are silent before TLS, and how many of twenty clients of
    the same address are answered.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(2))
        writer.close()

    own = GuardedSocket(socket.create_server(("127.0.0.1", 0), backlog=512), Guard(BOUNDS))
    own.setblocking(False)
    server = await asyncio.start_server(answer, sock=own, ssl=context)
    port, answers = own.getsockname()[1], 0
    silent = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(SILENT)]
    during = own.guard.open
    theirs = ssl.create_default_context()
    theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=theirs)
        writer.write(b"hi")
        answers += await reader.readexactly(2) == b"hi"
        writer.close()
    for writer in silent:
        writer.close()
    server.close()
    return during, answers


def test_silent_connections_are_bounded_before_their_handshake(tmp_path: Path) -> None:
    make_keys(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    during, answers = asyncio.run(served(context))
    assert during <= BOUNDS.silent_from and answers == 20
