"""Peers with tickets that send another peer hostile values over the real receiving end, in memory:
offers, models, exchanges of records.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import numpy as np
from entrenous_network.peers.address_book import LARGEST, AddressBook
from entrenous_network.peers.intake import PeerIntake
from entrenous_network.peers.messages import LONGEST, AddressRecord, Offer, Shuffle
from entrenous_network.peers.node import PeerNode
from entrenous_network.peers.port import Connection, LinkError
from entrenous_network.peers.rate_limits import RateLimits
from entrenous_network.peers.records import Verifier
from entrenous_network.peers.serving import PeerServer
from entrenous_network.wire import tensors
from entrenous_network.wire.pushed import digest, pack
from hostile_values import FLOATS, Hostile, finite
from memory_transport import Hub, VirtualHost, in_virtual_time
from peers_in_memory import ITEMS, SMALL, identity_of, public_of, terms
from small_federations import shop

from entrenous.core.contract.declared import bound
from entrenous.core.contract.enforce import check_kept
from entrenous.core.contract.gossip import ACCEPTED, TOO_AHEAD, DeviceData, data_of
from entrenous.federation.gossip import device_data
from entrenous.systems.named import kind_of

N, WAIT, AGAIN = (
    8,
    61.0,
    20,
    # peers; seconds between two lies, longer than a ban; lies, after which a good model must be
    # taken
)
PLACES = (
    "",
    "\0",
    "x" * 56,
    "localhost",
    "127.0.0.1:99999",
    "[::]:0",
    "0.0.0.0:0",
    "\x1b[2J",
    "memory:at-0",
    "é" * 28,
)
Task = asyncio.Task[None]


def rows(number: int) -> DeviceData:
    """The rows of one peer, at times and places, which some algorithms need."""
    return data_of(device_data(shop(N, ITEMS, each=9), None), np.array([number]))


class LiedTo:
    """One peer that receives, and the others, each of which may lie."""

    def __init__(self, algorithm: str, seed: int) -> None:
        fields = kind_of(algorithm)[0].model_fields
        settings = {name: value for name, value in SMALL.items() if name in fields}
        self.of, self.counts, self.link = (
            terms(N, algorithm, settings=settings),
            Counter[str](),
            Hub(),
        )
        width = self.of.gossip.width
        self.hostile = Hostile(
            seed, (N, self.of.items, width, self.of.body_bytes, self.of.gossip.view)
        )
        self.node, self.host = PeerNode(self.of, 0, rows(0), 3), VirtualHost(5, seed)
        self.contract = bound(self.node.algorithm, self.of.catalogue)
        self.node.start()
        self.good = PeerNode(self.of, 1, rows(1), 3)
        self.good.start()
        self.tasks: set[Task] = set()
        self.pushes = 0
        self.receiver()

    def receiver(self) -> None:
        """The receiving end, as a `Peer` has it."""
        verifier = Verifier(self.of, 15.0)
        self.tally, self.book, self.told = (
            Counter[str](),
            AddressBook(0, verifier),
            dict[int, int](),
        )
        self.limits = RateLimits(1.0, 60.0)
        self.intake = PeerIntake(self.of, self.book, self.limits, self.tally)
        self.server = PeerServer(
            self.intake,
            self.host,
            lambda: self.record(0),
            lambda sender, numbers: None,
            asyncio.Event(),
        )
        self.own = self.link.link(public_of(0), "memory:at-0")

    def record(self, number: int, **lies: Any) -> AddressRecord:
        """The record of a peer, signed by it; with what it lies about."""
        me = identity_of(self.of, number)
        ticket = me.ticket._replace(number=lies.pop("claims", number))
        ticket = ticket._replace(
            signature=lies.pop("ticket", ticket.signature), until=lies.pop("until", ticket.until)
        )
        return me._replace(ticket=ticket).record(
            lies.pop("addresses", [f"memory:at-{number}"]), self.host.wall() + lies.pop("later", 0)
        )

    # ---- messages --------------------------------------------------------------------------------

    def model(self) -> np.ndarray:
        """A model, most of it sound."""
        found, draw = self.good.pool[0].copy(), self.hostile.draw
        if draw.random() < 0.3:
            with np.errstate(over="ignore"):
                found[:] = np.float32(draw.choice((*FLOATS, 50.0, -50.0, 49.9)))
        return self.hostile.array(found) if draw.random() < 0.5 else found

    def body(self, number: int) -> bytes:
        """The body of an offer."""
        if self.hostile.draw.random() < 0.1:
            return tensors.write(self.hostile.arrays({"model": self.good.pool[0].copy()}))
        return pack(self.model())

    def offer(self, number: int, body: bytes, **lies: Any) -> dict[str, Any]:
        """An offer, as msgpack has it."""
        self.pushes += 1
        said = Offer(
            self.of.run_bytes,
            lies.pop("record", self.record(number)),
            self.pushes,
            len(body),
            digest(body),
            1,
            9,
            (2, 3, -1),
        )
        return {**msgspec.to_builtins(said, builtin_types=(bytes,)), **lies}

    def offered(self, number: int, body: bytes) -> dict[str, Any]:
        """An offer with one to three hostile numbers."""
        draw, lies = self.hostile.draw, dict[str, Any]()
        for _ in range(self.hostile.times()):
            name = draw.choice(
                [
                    "age",
                    "age",
                    "samples",
                    "samples",
                    "push",
                    "size",
                    "peers",
                    "peers",
                    "peers",
                    "record",
                    "digest",
                ]
            )
            lies[name] = {
                "record": lambda: self.forged(number),
                "peers": self.peers,
                "digest": lambda: draw.choice([bytes(32), b""]),
                "size": lambda: len(body) + draw.choice((-1, 0, 1, 10**9)),
            }.get(name, self.count)()
        return self.offer(number, body, **lies)

    def count(self) -> int:
        """An age, a number of rows or of a push; mostly one that a message may hold."""
        return (
            self.hostile.number(0, 2**31 - 1)
            if self.hostile.draw.random() < 0.8
            else self.hostile.number(-(2**63))
        )

    def peers(self) -> list[int]:
        """Numbers of peers: too many, twice the same, none that there are."""
        draw = self.hostile.draw
        found = [draw.randrange(-1, N) for _ in range(draw.choice((0, 1, 1, 3, 3, 8, 100, 101)))]
        return [self.count(), *found] if draw.random() < 0.3 else found

    def forged(self, number: int) -> Any:
        """A record that says something else, mostly signed by its peer."""
        draw = self.hostile.draw
        lies = draw.choice(
            [
                {"claims": draw.randrange(N + 2)},
                {"later": draw.choice((-16, -14, 299, 301, 10**9))},
                {"ticket": bytes(64)},
                {"until": draw.choice((0, 1, (1 << 40) - 1))},
                {"addresses": [draw.choice(PLACES) for _ in range(draw.choice((0, 1, 4)))]},
            ]
        )
        found = self.record(draw.choice((number, number, draw.randrange(N))), **lies)
        return msgspec.to_builtins(found, builtin_types=(bytes,))

    def shuffled(self, number: int) -> dict[str, Any]:
        """An exchange of records."""
        draw = self.hostile.draw
        records = (
            [msgspec.to_builtins(self.record(number), builtin_types=(bytes,))]
            if draw.random() < 0.7
            else []
        )
        records += [self.forged(draw.randrange(N)) for _ in range(draw.choice((0, 1, 7, 8)))]
        said = msgspec.to_builtins(Shuffle(self.of.run_bytes, ()), builtin_types=(bytes,))
        return {**said, "records": records, "wanted": self.peers()[:9], "serial": self.count()}

    # ---- on the wire -----------------------------------------------------------------------------

    async def say(self, number: int, said: dict[str, Any], body: bytes) -> list[str]:
        """Sends a message over a connection of its own, and the body if that is asked for; the
        answers.
        """
        there = self.link.link(public_of(number), f"memory:at-{number}")
        connection = await there.dial(public_of(0), ["memory:at-0"])
        await self.server.welcome(await self.own.accept(), self.spawn)
        answers: list[str] = []
        try:
            await self.exchange(connection, said, body, answers)
        except (LinkError, TimeoutError):
            answers.append("ended")
        connection.close()
        return answers

    async def exchange(
        self, connection: Connection, said: dict[str, Any], body: bytes, answers: list[str]
    ) -> None:
        """One request."""
        packed, stream = msgspec.msgpack.encode(said), await connection.open()
        await stream.write(len(packed).to_bytes(4, "little") + packed)
        for _ in range(2):
            async with asyncio.timeout(10):
                length = int.from_bytes(await stream.read(4), "little")
                reply = msgspec.msgpack.decode(await stream.read(min(length, LONGEST)))
            answers.append(reply["answer"])
            if reply["answer"] != "go":
                return
            await stream.write(body)

    def spawn(self, name: str, work: Any) -> None:
        """A task of the receiver, in which nothing may go wrong."""
        task: Task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)

    def kept(self) -> dict[str, bytes]:
        """All that the receiver's node is."""
        return {name: array.tobytes() for name, array in self.node.arrays().items()}

    async def try_one(self) -> None:
        """One lie, and what becomes of it."""
        draw, before, tally = self.hostile.draw, self.kept(), self.tally.copy()
        number = draw.randrange(1, N)
        kind, body = draw.randrange(10), self.body(number)
        said = (
            self.shuffled(number)
            if kind == 0
            else self.offer(number, body)
            if kind < 5
            else self.offered(number, body)
        )
        answers = await self.say(number, encodable(said), body)
        await asyncio.sleep(WAIT)
        self.settled()
        what = [
            name for name, n in self.tally.items() if n > tally.get(name, 0) and name != "banned"
        ]
        self.counts[what[0] if what else answers[-1]] += 1
        if not self.learn(answers):
            assert self.kept() == before, answers

    def settled(self) -> None:
        """Nothing has crashed, and nothing grows."""
        for task in [task for task in self.tasks if task.done()]:
            task.result()
            self.tasks.remove(task)
        assert self.server.open == len(self.tasks) == 0 and not self.intake.reading
        assert len(self.book.entries) <= LARGEST and not any(
            name.startswith("crash") for name in self.tally
        )

    def learn(self, answers: list[str]) -> bool:
        """Whether a model was taken; if so, the node has learnt from it, and all that it keeps is
        finite and as declared.
        """
        one = self.intake.next()
        assert (one is not None) == (answers == ["go", "ok"])
        if one is None:
            return False
        refused = self.node.receive(one)
        if (
            refused == TOO_AHEAD
        ):  # the one reason that only the node knows; nothing has changed then
            self.counts["refused.ahead"] += 1
            return False
        assert refused == ACCEPTED  # what else the node refuses must not get this far
        assert finite(self.node.arrays())
        check_kept(self.contract, self.node.nodes, 1)
        assert np.isfinite(self.node.scores()).all()
        assert self.node.push().headers.age[0] < 1 << 31
        return True

    async def do(self) -> None:
        """A correct model, which is taken."""
        body = pack(self.good.pool[0])
        answers = await self.say(1, self.offer(1, body), body)
        await asyncio.sleep(WAIT)
        self.settled()
        assert self.learn(answers), (answers, self.tally)


def encodable(said: Any) -> Any:
    """The same with numbers that msgpack can hold."""
    if isinstance(said, dict):
        return {name: encodable(value) for name, value in said.items()}
    if isinstance(said, list | tuple):
        return [encodable(value) for value in said]
    return max(-(2**63), min(2**64 - 1, said)) if isinstance(said, int) else said


async def _lying(algorithm: str, count: int, seed: int) -> Counter[str]:
    made = LiedTo(algorithm, seed)
    for number in range(count):
        await made.try_one()
        if number % AGAIN == AGAIN - 1:
            await made.do()
    await made.do()
    return made.counts


def lying_peers(algorithm: str, count: int, seed: int) -> Counter[str]:
    """So many lies of peers to one, by what became of them."""
    return in_virtual_time(_lying(algorithm, count, seed))
