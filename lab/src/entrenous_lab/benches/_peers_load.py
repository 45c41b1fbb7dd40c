"""One process of the bench `peers`: the protocol between peers with nothing to learn, and beside it
the bare transport.

Reads a line of JSON for each order and answers with one: {"peers": contacts}, {"meet": how},
{"push": rounds, "how": how} with how = "protocol", "changing" or "bare", {"rss": 1}."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from entrenous_network.agreement.invitation import Contact
from entrenous_network.agreement.terms import FederationTerms
from entrenous_network.agreement.tickets import Ticket
from entrenous_network.peers.address_book import AddressBook
from entrenous_network.peers.connections import FAILED, KEPT, Connections
from entrenous_network.peers.intake import PeerIntake, deadline
from entrenous_network.peers.iroh_link import IrohLink, listen
from entrenous_network.peers.messages import Offer, Shuffle
from entrenous_network.peers.port import Connection, Machine, Stream
from entrenous_network.peers.rate_limits import RateLimits
from entrenous_network.peers.records import PeerIdentity, Verifier
from entrenous_network.peers.serving import PeerServer
from entrenous_network.wire.pushed import digest, pack

from entrenous.core.keys import key
from entrenous.kernels.sampling import cohort

WAYS = 3


@final
class Load:
    """The load of one process: it receives models and discards them, and sends copies of one model
    to others.
    """

    def __init__(self, said: dict[str, Any], link: IrohLink, bare: IrohLink) -> None:
        self.terms, self.link, self.bare = (
            FederationTerms.parse(json.loads(said["terms"])),
            link,
            bare,
        )
        (number, until, signature), key = (
            said["ticket"],
            Ed25519PrivateKey.from_private_bytes(bytes.fromhex(said["key"])),
        )
        self.me = PeerIdentity(
            key, self.terms.run_bytes, Ticket(number, until, bytes.fromhex(signature))
        )
        self.host, self.tally, woken = Machine(), Counter[str](), asyncio.Event()
        self.book, limits = AddressBook(number, Verifier(self.terms, 1e6)), RateLimits(0.0, 1.0)
        self.intake, self.connections = (
            PeerIntake(self.terms, self.book, limits, self.tally),
            Connections(link),
        )
        self.record = self.me.record(link.addresses(), self.host.wall())
        self.server = PeerServer(
            self.intake,
            self.host,
            lambda: self.record,
            lambda sender, peers: None,
            woken,
        )
        self.woken = woken
        width = self.intake.width
        self.body = pack(np.linspace(-1, 1, width, dtype=np.float32))
        self.digest, self.pushes, self.tasks = digest(self.body), 0, set[asyncio.Task[None]]()
        self.contacts: list[tuple[Contact, Contact]] = []
        self.kept: dict[bytes, Connection] = {}

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task without supervision: an error in it fails the bench."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def welcome(self) -> None:
        """Accept connections for ever and serve the peers' protocol on them."""
        while True:
            await self.server.welcome(await self.link.accept(), self.spawn)

    async def drain(self) -> None:
        """Take the models that arrive, in place of a node."""
        while True:
            await self.woken.wait()
            self.woken.clear()
            self.intake.waiting.clear()

    async def welcome_bare(self) -> None:
        """Accept connections for ever and read them without the peers' protocol, to measure the
        transport alone.
        """
        while True:
            connection = await (await self.bare.accept()).take()
            self.spawn("bare", self._serve_bare(connection))

    async def _serve_bare(self, connection: Connection) -> None:
        while True:
            stream = await connection.accept()
            self.spawn("stream", self._take_bare(stream))

    async def _take_bare(self, stream: Stream) -> None:
        await stream.read(int.from_bytes(await stream.read(8), "little"))
        await stream.write(b"ok")
        await stream.finish()

    async def meet(self, how: str) -> None:
        """Connect to all other processes before anything is measured. how: "changing" keeps as few
        connections as a real peer does."""
        self.connections.kept = KEPT if how == "changing" else len(self.contacts)
        for to, bare in self.contacts:
            if how == "bare":
                await self._met(bare)
            else:
                await self._asked(to, Shuffle(self.terms.run_bytes, (self.record,)))

    async def push(self, rounds: int, how: str) -> dict[str, Any]:
        """Run some rounds of pushes to WAYS others, all of a round at once. Returns the bytes
        sent.
        """
        one = self._bare if how == "bare" else self._protocol
        for number in range(rounds):
            chosen = cohort(key(self.me.number, how, self.pushes, number), WAYS, len(self.contacts))
            await asyncio.gather(*(one(*self.contacts[int(c)]) for c in chosen))
        return {"bytes": rounds * WAYS * len(self.body)}

    async def _protocol(self, to: Contact, _: Contact) -> None:
        self.pushes += 1
        offer = Offer(
            self.terms.run_bytes, self.record, self.pushes, len(self.body), self.digest, 1, 1, ()
        )
        while (answer := await self._asked(to, offer)) not in ("ok", "seen"):
            self.tally[answer] += 1
            await asyncio.sleep(0.01)

    async def _asked(self, to: Contact, said: Offer | Shuffle) -> str:
        try:
            return (
                await self.connections.ask(to, said, self.body, deadline(len(self.body)))
            ).answer
        except FAILED:
            return "failed"

    async def _met(self, to: Contact) -> Connection:
        while to.key not in self.kept:
            try:
                self.kept[to.key] = await self.bare.dial(to.key, to.addresses)
            except FAILED:
                self.tally["failed"] += 1
        return self.kept[to.key]

    async def _bare(self, _: Contact, to: Contact) -> None:
        stream = await (await self._met(to)).open()
        await stream.write(len(self.body).to_bytes(8, "little"))
        await stream.write(self.body)
        assert await stream.read(2) == b"ok"
        await stream.finish()


async def _main() -> None:
    loop = asyncio.get_running_loop()
    said = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    load = Load(
        said, await listen(bytes.fromhex(said["key"])), await listen(bytes.fromhex(said["other"]))
    )
    for work in (load.welcome(), load.drain(), load.welcome_bare()):
        load.spawn("loop", work)
    _answer(
        {
            "addresses": load.link.addresses(),
            "bare": load.bare.addresses(),
            "key": load.bare.key.hex(),
            "bytes": len(load.body),
        }
    )
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        if "peers" in order:
            load.contacts = [(_contact(*one), _contact(*other)) for one, other in order["peers"]]
            _answer({})
        elif "meet" in order:
            await load.meet(order["meet"])
            _answer({})
        elif "push" in order:
            _answer(await load.push(order["push"], order["how"]))
        else:
            _answer(
                {
                    "cpu": time.process_time(),
                    "rss_mb": _rss_mb(),
                    "busy": load.tally["busy"],
                    "failed": load.tally["failed"],
                    "bytes": load.tally["received.ok"] * len(load.body),
                }
            )
    sys.stdout.flush()
    os._exit(0)


def _contact(number: int, key: str, addresses: list[str]) -> Contact:
    """Reads a contact from the parts that an order in JSON has of it."""
    return Contact(number, bytes.fromhex(key), tuple(addresses))


def _answer(thing: dict[str, Any]) -> None:
    print(json.dumps(thing), flush=True)


def _rss_mb() -> float:
    """Now, where the system says; else the most so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    asyncio.run(_main())
