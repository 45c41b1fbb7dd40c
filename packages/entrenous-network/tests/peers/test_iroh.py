"""Over real sockets: peers that learn, and attackers with keys of their own. No number of theirs
enters a model; the peer goes on.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from network_namespace import quiet
from peers_in_memory import identity_of, key_of, rows_of, terms

iroh_link = pytest.importorskip("entrenous_network.peers.iroh_link")

from entrenous_network.agreement.files import public_bytes  # noqa: E402
from entrenous_network.agreement.invitation import Contact  # noqa: E402
from entrenous_network.peers import serving  # noqa: E402
from entrenous_network.peers.connections import FAILED, Connections  # noqa: E402
from entrenous_network.peers.messages import (  # noqa: E402
    AddressRecord,
    Offer,
    Reply,
    Shuffle,
    frame,
    read_message,
)
from entrenous_network.peers.node import PeerNode  # noqa: E402
from entrenous_network.peers.peer import Membership, Peer, pace  # noqa: E402
from entrenous_network.peers.port import LinkError, Machine  # noqa: E402
from entrenous_network.peers.records import PeerIdentity  # noqa: E402
from entrenous_network.wire.pushed import digest, pack, packed_bytes  # noqa: E402

N, PERIOD = 6, 0.4
PATIENCE = 60.0  # seconds, many times what anything here takes on an idle machine
VICTIM, FRIEND, FOE = 0, 1, 2  # numbers; the foe has a ticket of its own


@pytest.fixture(autouse=True)
def own_network() -> Iterator[None]:
    with quiet():
        yield


class Scene:
    """A victim that learns from a friend, and a foe's link."""

    def __init__(self) -> None:
        self.of = terms(N, period=PERIOD)
        self.width = int(self.of.gossip.width)  # type: ignore[attr-defined]
        self.foe_self = identity_of(self.of, FOE)
        self.links: list[Any] = []

    async def __aenter__(self) -> Scene:
        rows, peers = rows_of(N), []
        for number in (VICTIM, FRIEND):
            link = await self.link(key_of(number))
            known = [Contact(VICTIM, self.links[0].key, tuple(self.links[0].addresses()))]
            node = PeerNode(self.of, number, rows[number], self.of.seed)
            times = pace(PERIOD)._replace(interval=0.0, ban=1.5)
            membership = Membership(self.of, identity_of(self.of, number), known)
            peers.append(Peer(membership, node, link, Machine(), times))
        self.victim, self.friend = peers
        self.tasks = [asyncio.create_task(peer.run()) for peer in peers]
        self.foe = await self.link(self.foe_self.key)
        return self

    async def __aexit__(self, *_: Any) -> None:
        for peer in (self.victim, self.friend):
            peer.stop()
        await asyncio.gather(*self.tasks)
        for link in self.links:
            await link.close()

    async def link(self, key: Ed25519PrivateKey) -> Any:
        self.links.append(await iroh_link.listen(key.private_bytes_raw()))
        return self.links[-1]

    async def dial(self, link: Any = None) -> Any:
        return await (link or self.foe).dial(self.links[0].key, self.links[0].addresses())

    async def stream(self, link: Any = None) -> Any:
        return await (await self.dial(link)).open()

    def record(self, me: PeerIdentity | None = None, wall: float = 0.0) -> AddressRecord:
        return (me or self.foe_self).record(["127.0.0.1:9"], wall or Machine().wall())

    def offer(
        self, model: np.ndarray | None = None, push: int = 1, **more: Any
    ) -> tuple[Offer, bytes]:
        body = pack(np.zeros(self.width, np.float32) if model is None else model)
        said = {
            "schema": self.of.run_bytes,
            "record": self.record(),
            "push": push,
            "size": len(body),
            "digest": digest(body),
            "age": 1,
            "samples": 9,
            "peers": (3,),
            **more,
        }
        return Offer(**said), body

    async def unharmed(self) -> None:
        """The victim still takes its friend's models, and its own is sound."""
        before, until = self.victim.tally["merged"], Machine().now() + PATIENCE
        while self.victim.tally["merged"] < before + 2:
            assert Machine().now() < until, self.victim.tally
            await asyncio.sleep(0.05)
        model = self.victim.node.pool[0]
        assert np.isfinite(model).all() and np.abs(model).max() < 50
        assert not [name for name in self.victim.tally if name.startswith("crash")], (
            self.victim.tally
        )

    async def counted(self, name: str, count: int = 1) -> None:
        until = Machine().now() + PATIENCE
        while self.victim.tally[name] < count:
            assert Machine().now() < until, (name, self.victim.tally)
            await asyncio.sleep(0.02)

    async def forgiven(self) -> None:
        while self.victim.limits.is_banned(self.foe.key, Machine().now()):
            await asyncio.sleep(0.1)
        self.victim.limits.good(self.foe.key)


def scene(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(4 * PATIENCE):
            async with Scene() as here:
                await here.unharmed()
                await story(here)
                await here.unharmed()

    asyncio.run(whole())


async def answers(stream: Any) -> str:
    async with asyncio.timeout(8):
        message = await read_message(stream)
    assert isinstance(message, Reply)
    return message.answer


async def breaks(stream: Any) -> None:
    """Whatever comes, it is no answer."""
    with pytest.raises(FAILED):
        await answers(stream)


# ---- bytes ---------------------------------------------------------------------------------------


def test_three_errors_are_a_ban_that_ends() -> None:
    async def story(here: Scene) -> None:
        limits = here.victim.limits
        # Longer than this test on any machine: it ends when the test says so.
        limits.ban = 3600.0
        connection = await here.dial()
        for _ in range(3):
            stream = await connection.open()
            await stream.write(b"\xff" * 4)
            await breaks(stream)
        assert here.victim.tally["banned"] == 1
        with pytest.raises(FAILED):
            await Connections(here.foe).ask(
                _victim(here), Shuffle(here.of.run_bytes, (here.record(),))
            )
        assert here.victim.tally["connections.banned"] >= 1
        await here.unharmed()
        limits._of[here.foe.key].banned_until = 0.0
        reply = await Connections(here.foe).ask(
            _victim(here), Shuffle(here.of.run_bytes, (here.record(),))
        )
        assert reply.answer == "records" and reply.records[0].number == VICTIM

    scene(story)


def _victim(here: Scene) -> Contact:
    return Contact(VICTIM, here.links[0].key, tuple(here.links[0].addresses()))


# ---- offers and models ---------------------------------------------------------------------------


def test_offers_of_another_size_are_refused_before_a_byte_is_read() -> None:
    async def story(here: Scene) -> None:
        for size in (1 << 40, (1 << 62) - 1, 0, packed_bytes(here.width) + 1):
            stream = await here.stream()
            await stream.write(frame(here.offer(size=size)[0]))
            await breaks(stream)
            await here.forgiven()
        assert here.victim.tally["error.size"] == 4 and not here.victim.intake.reading

    scene(story)


@pytest.mark.parametrize("where", ["on the spot", "in a thread"])
def test_models_that_are_no_models_never_reach_the_node(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SMALL", 0 if where == "in a thread" else serving.SMALL)

    async def story(here: Scene) -> None:
        nan, inf, huge = (np.zeros(here.width, np.float32) for _ in range(3))
        nan[3], inf[5], huge[7] = np.nan, -np.inf, 1e9
        before = here.victim.tally["merged"]
        for push, (model, code) in enumerate(
            [(nan, "not-finite"), (inf, "not-finite"), (huge, "too-large")], 10
        ):
            offer, body = here.offer(model, push)
            assert await _pushed(here, offer, body) == "rejected"
            await here.counted(f"error.{code}")
            await here.forgiven()
        offer, body = here.offer(push=20)
        assert await _pushed(here, offer, body[:-1] + b"\1") == "rejected"
        await here.counted("error.digest")
        await here.forgiven()
        wrong = body.replace(b"F32", b"I32")
        assert (
            await _pushed(here, here.offer(push=21, digest=digest(wrong))[0], wrong) == "rejected"
        )
        await here.counted("error.body-dtype")
        await here.forgiven()
        for number in (N, 1 << 30):
            with pytest.raises(FAILED):
                await _pushed(here, here.offer(push=22, peers=(number,))[0], body)
            await here.forgiven()
        assert here.victim.tally["refused"] == 0 and here.victim.tally["merged"] >= before
        assert FOE not in {event.sender for event in here.victim.node.fresh}

    scene(story)


async def _pushed(here: Scene, offer: Offer, body: bytes) -> str:
    lines = Connections(here.foe)
    try:
        return (await lines.ask(_victim(here), offer, body, 8.0)).answer
    finally:
        lines.close()


@pytest.mark.parametrize("where", ["on the spot", "in a thread"])
def test_a_sound_model_is_taken_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SMALL", 0 if where == "in a thread" else serving.SMALL)

    async def story(here: Scene) -> None:
        offer, body = here.offer(push=1)
        assert await _pushed(here, offer, body) == "ok"
        assert await _pushed(here, offer, body) == "seen"
        assert await _pushed(here, here.offer(push=2)[0], body) == "ok"
        while len(_taken(here)) < 2:
            await asyncio.sleep(0.02)
        assert _taken(here) == [1, 2]
        other = msgspec.structs.replace(here.offer(push=3)[0], schema=b"\0" * 16)
        assert await _pushed(here, other, body) == "schema"

    scene(story)


def _taken(here: Scene) -> list[int]:
    """The numbers of the foe's pushes that the victim has merged."""
    return [event.push for event in here.victim.node.fresh if event.sender == FOE]


# ---- who somebody is -----------------------------------------------------------------------------


def test_numbers_and_records_of_others_cannot_be_had() -> None:
    async def story(here: Scene) -> None:
        stranger, wall = Ed25519PrivateKey.generate(), Machine().wall()
        own = here.record()
        # All kinds of forged records are refused in test_parts.py and test_tickets.py.
        forged = [
            here.foe_self._replace(key=stranger).record(["127.0.0.1:9"], wall),
            here.record(wall=wall + 10_000),  # of the future
        ]
        for record in forged:
            for message in (
                here.offer(record=record)[0],
                Shuffle(here.of.run_bytes, (own, record)),
            ):
                stream = await here.stream()
                await stream.write(frame(message))
                await breaks(stream)
                await here.forgiven()
        contact = here.victim.book.contact(FRIEND)
        assert contact is not None and contact.key == here.links[1].key
        assert here.victim.book.contact(FOE).addresses == ("127.0.0.1:9",)
        stale = Shuffle(here.of.run_bytes, (own, here.record(wall=wall - 10_000)))
        assert (await Connections(here.foe).ask(_victim(here), stale)).answer == "records", (
            "an honest peer may pass on what has just expired"
        )

    scene(story)


def test_a_dialler_who_expects_another_key_is_not_connected() -> None:
    async def story(here: Scene) -> None:
        with pytest.raises((LinkError, TimeoutError)):
            await here.foe.dial(
                public_bytes(Ed25519PrivateKey.generate()), here.links[0].addresses()
            )

    scene(story)


@pytest.mark.parametrize("at", ["127.0.0.1:0", "[::1]:0"])
def test_loopback_means_loopback_in_both_families(at: str) -> None:
    async def story() -> list[str]:
        link = await iroh_link.listen(Ed25519PrivateKey.generate().private_bytes_raw(), at)
        assert link.addresses() and all(one.startswith(at[:-1]) for one in link.addresses())
        bound = list(link._endpoint.bound_sockets())
        await link.close()
        return bound

    assert sorted(one.rsplit(":", 1)[0] for one in asyncio.run(story())) == ["127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    ("address", "machine"),
    [
        ("192.0.2.7:4433", "192.0.2.7"),
        ("[2001:db8:1:2:3:4:5:6]:9", "2001:db8:1:2::/64"),
        ("[::ffff:192.0.2.7]:1", "192.0.2.7"),
        ("127.0.0.1:5", ""),
        ("[::1]:5", ""),
        ("[fe80::1%eth0]:1", "fe80::/64"),
    ],
)
def test_connections_are_counted_by_machine_or_household(address: str, machine: str) -> None:
    """Before the handshake; those of this machine are not counted."""
    assert iroh_link.origin(iroh_link.iroh.IncomingAddr.IP(address)) == machine
    assert iroh_link.origin(iroh_link.iroh.IncomingAddr.CUSTOM("a pigeon")) == "not by IP"


def udp_socket() -> socket.socket:
    """A service of this machine that waits for a packet."""
    service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    service.bind(("127.0.0.1", 0))
    service.setblocking(False)
    return service


@pytest.mark.parametrize(("listen", "reached"), [("0.0.0.0:0", False), ("127.0.0.1:0", True)])
def test_no_record_makes_a_peer_send_packets_to_its_own_machine(listen: str, reached: bool) -> None:
    """A peer that listens beyond loopback sends nothing there; one of a trial, on loopback alone,
    does, as the friend may be there.
    """

    async def dial() -> bool:
        with udp_socket() as service:
            link = await iroh_link.listen(key_of(VICTIM).private_bytes_raw(), listen)
            own, forms = (
                service.getsockname()[1],
                ("127.0.0.1:{}", "127.0.0.2:{}", "[::ffff:127.0.0.1]:{}", "0.0.0.0:{}"),
            )
            with pytest.raises((LinkError, TimeoutError)):
                await link.dial(public_bytes(key_of(FOE)), [form.format(own) for form in forms])
            await link.close()
            try:
                return len(service.recv(65536)) > 0
            except BlockingIOError:
                return False

    assert asyncio.run(dial()) is reached


# ---- a peer that was killed and comes back -------------------------------------------------------

# A peer that can be killed: it says where it listens, and has a connection with another open.
RESTARTED = """
import asyncio, sys
from entrenous_network.peers.iroh_link import listen
from entrenous_network.peers.port import LinkError
async def run():
    link = await listen(bytes.fromhex(sys.argv[1]))
    other = await link.dial(bytes.fromhex(sys.argv[2]), [sys.argv[3]])
    stream = await other.open()
    await stream.write(b"here")
    print(*link.addresses(), flush=True)
    held = []
    while True:
        try:
            held.append(await (await link.accept()).take())
        except (LinkError, TimeoutError):
            continue
asyncio.run(run())
"""


ATTEMPTS = 4


def started(key: Ed25519PrivateKey, other: Any) -> tuple[subprocess.Popen[str], str]:
    """Starts a peer as a process, and returns its address once it is connected with `other`."""
    words = [key.private_bytes_raw().hex(), other.key.hex(), *other.addresses()]
    process = subprocess.Popen(
        [sys.executable, "-c", RESTARTED, *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("reached", [True, False])
def test_a_killed_peer_is_reached_at_its_new_address_though_it_dials_first(
    reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """iroh sends to the address of the connection that was made first, also when it is dead, for as
    long as a later one of the same key is open."""
    monkeypatch.setattr(iroh_link, "SHORT", 1.5)  # more than iroh waits to send again
    key, processes = key_of(FRIEND), []

    async def story() -> int:
        link = await iroh_link.listen(key_of(VICTIM).private_bytes_raw())
        arrived: list[Any] = []

        async def welcome() -> None:
            while True:
                arrived.append(await (await link.accept()).take())

        async def begun(life: int) -> str:
            process, address = await asyncio.to_thread(started, key, link)
            processes.append(process)
            while len(arrived) < life:
                await asyncio.sleep(0.02)
            return address

        welcoming = asyncio.create_task(welcome())
        address = await begun(1)
        before = await link.dial(public_bytes(key), [address]) if reached else arrived[0]
        processes[0].kill()
        processes[0].wait()
        address = await begun(2)
        before.close()
        failures = 0
        for _ in range(ATTEMPTS):
            try:
                await link.dial(public_bytes(key), [address])
                break
            except (LinkError, TimeoutError):
                failures += 1
        welcoming.cancel()
        await link.close()
        return failures

    async def in_time() -> int:
        async with asyncio.timeout(4 * PATIENCE):
            return await story()

    try:
        failures = asyncio.run(in_time())
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert failures < ATTEMPTS, "the dead address hides the new one"
