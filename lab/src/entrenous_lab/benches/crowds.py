"""A federation by lot, under masks, of a hundred thousand members: seconds a round over real
sockets, and the server's memory.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from entrenous.core.contract.protocols import Progress, State
from entrenous.core.contract.update import Total
from entrenous.core.keys import key, local_key
from entrenous.federation.shard import Shard

from .nodes import Headers, Line, ServerGone, data_of
from .serving import SECONDS, Served, crowd, node_key, run_server

if TYPE_CHECKING:
    from entrenous_network.frames.request import NodeRequest, Responder
    from entrenous_network.frames.row_tests import RowTests
    from entrenous_network.node.node_store import MaskedVector
    from entrenous_network.secure_sum.party_list import PartyList

ENROLLED, PRESENT, COHORT, GROUPS = 100_000, 10_000, 1000, 3
PEOPLE, ANSWERS = 250, 1000
ITEMS, FACTORS = 1700, 16
ROUNDS, WINDOW = 2, 150.0  # seconds for each stage, at most
PROCESSES, LINES = 2, 10  # a server has 1,024 connections at once
SILENCES = 8  # of 20 s, after which a device takes its sum for lost
AIM, ROOM = 60.0, 600.0  # seconds a round; MB of the server


def crowds(
    threads: int,
    progress: Progress,
    *,
    enrolled: int = ENROLLED,
    present: int = PRESENT,
    drawn: int = COHORT,
    once: bool = True,
    workers: int = 1,
) -> dict[str, Any]:
    """Rounds of FPL under masks in which `present` of `enrolled` members are there, a lot draws
    `drawn` of these on average, and three groups are summed: adverts, masks and words, over TLS 1.3
    on loopback. The devices live in two processes on the same machine; each has its own key, holds
    lists and sums against its own floor and contract, and trains. once: the devices of a process
    verify each signature once, as those of a shop do; False = each device verifies all. workers: of
    the server; the memory of its processes is added up, with what they share.
    """
    from entrenous_network.agreement.terms import least_people

    lots = {
        "secure_sum": True,
        "sampling": "poisson",
        "people": max(least_people(enrolled), round(PEOPLE * present / PRESENT)),
        "answers": ANSWERS,
        "noise": 0.3,
        "noise_from": "seed",
        "rows": "all",
        "groups": GROUPS,
    }
    # The lot draws of everybody, and those who are away do not come.
    cohort = round(drawn * enrolled / present)
    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder) / "server"
        progress(0, 2, "keys")
        settings = {"factors": FACTORS, "cohort": cohort}
        more = {"protection": lots, "profile": "private", "deadline": WINDOW, "users": enrolled}
        terms = crowd(server, data_of(present, ITEMS), settings, ROUNDS, **more)
        with _devices(server, present, once) as meet:
            progress(1, 2, "rounds")
            took = run_server(server, workers, meet)
        found = _found(server, took)
    progress(2, 2, "measured")
    return {
        "enrolled": enrolled,
        "present": present,
        "rounds": terms.rounds,
        **found,
        "ratio": found["seconds_per_round"] / AIM,
        "against": (
            f"the aim of {AIM:g} s a round of {PRESENT:,} present and {ENROLLED:,} enrolled, and of"
            f" {ROOM:g} MB of the server; all devices work on this machine too"
        ),
    }


def _found(server: Path, took: Served) -> dict[str, Any]:
    from entrenous_network.operate.running import status
    from entrenous_network.server.server_folder import ServerFolder

    done = status(server)
    assert done["status"] == "finished" and not done["lost"], done
    with closing(ServerFolder(server)) as held:
        standing = held.newest(held.terms.make())
    assert standing is not None
    summed = standing.ledger.device_rounds / ROUNDS
    assert summed >= GROUPS * held.terms.protection.people, f"{summed} people a round"
    return {
        "people_in_sums_per_round": summed,
        "seconds_per_round": done["seconds_a_round"],
        "peak_rss_mb": round(took.peak / 1e6),
        "server_cpu_seconds_per_round": round(took.cpu / ROUNDS, 1),
        "answers": done["answers"],
    }


@contextmanager
def _devices(folder: Path, present: int, once: bool) -> Iterator[Callable[[str], None]]:
    """Makes ready the devices that are there, in PROCESSES processes. Gives what has them meet a
    server at an address, until that has ended.
    """
    processes = []
    try:
        for part in range(PROCESSES):
            share = json.dumps([str(folder), present, part, once])
            command = [sys.executable, "-m", __name__, share]
            one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            processes.append(one)
        for one in processes:
            assert one.stdout is not None
            assert one.stdout.readline() == b"ready\n"

        def meet(address: str) -> None:
            for one in processes:
                assert one.stdin is not None
                one.stdin.write(f"{address}\n".encode())
                one.stdin.close()
            for one in processes:
                assert one.wait(SECONDS) == 0

        yield meet
    finally:
        for one in processes:
            one.kill()
            one.wait()


# ---- a process of devices ------------------------------------------------------------------------


@final
class MemoryStore:
    """The facts that a device of the bench would have on its disk."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.sums: list[PartyList] = []

    def fact(self, name: str) -> str | None:
        """Returns a fact; None if there is none."""
        return self.facts.get(name)

    def count(self, name: str) -> int:
        """Returns a stored count; 0 before the first."""
        return int(self.fact(name) or 0)

    def past_sums(self) -> tuple[PartyList, ...]:
        """Returns the sums that the device has consented to."""
        return tuple(self.sums)

    def remember_sum(self, number: int, summed: PartyList) -> None:
        """Keeps a sum."""
        self.sums.append(summed)

    def masked(self) -> MaskedVector | None:
        """Returns nothing: each model is asked for once here."""
        return None


@final
class Devices:
    """The devices of one process, with what they have in common: terms, list and rows."""

    def __init__(self, folder: Path, present: int, part: int, once: bool) -> None:
        from entrenous_network.agreement.members import MEMBERS, Members
        from entrenous_network.agreement.terms import FederationTerms
        from entrenous_network.secure_sum.primitives import VerifiedOnce, Verify, verified
        from entrenous_network.secure_sum.terms import Floors

        self.terms = FederationTerms.read(folder / "terms.json")
        self.members = Members.read(folder / MEMBERS, self.terms.users).head
        data = data_of(present, ITEMS)
        self.users = np.array_split(np.arange(present), PROCESSES)[part]
        own = data.of_users(self.users)
        protection = self.terms.protection
        self.shard = Shard(
            self.terms.make(), self.terms.catalogue, own, self.users, protection=protection
        )
        self.private = self.shard.init_devices(key(self.terms.seed, "devices"))
        self.rounds = key(self.terms.seed, "rounds")
        self.floors = Floors(people=protection.people, noise=True)
        self.verify: Verify = VerifiedOnce() if once else verified
        self._headers = Headers(self.terms.run)
        self._offers: dict[int, set[int]] = {}

    def header(self, device: LotDevice) -> str:
        """Returns what shows a device's key."""
        return self._headers.of(device.name, device.key)

    def offers(self, number: int) -> set[int]:
        """Returns the users whose lot takes part in a round."""
        from entrenous.privacy.protection import ProtectionInForce
        from entrenous.privacy.turnout import drawn, lots

        if number not in self._offers:
            rate = ProtectionInForce(self.terms.protection, self.shard.contract).rate
            keys = lots(self.rounds, number, self.users)
            self._offers[number] = set(self.users[drawn(keys, rate)].tolist())
        return self._offers[number]


@final
class LotDevice:
    """The device of one user: a `TrainingNode` whose secure side is the real one."""

    def __init__(self, common: Devices, user: int) -> None:
        from entrenous_network.frames.request import Responder

        self._common = common
        self._user = user
        self.name = f"node-{user}"
        self.key = node_key(user)
        self.terms = common.terms
        self.shard = common.shard
        self.contract = common.shard.contract
        self.store = MemoryStore()
        users = np.array([user])
        self.responder: Responder = Responder(
            self.name, self.key, self.terms, self.contract, users, 1
        )
        self._kinds: dict[str, Any] = {}

    def answer(self, request: bytes) -> bytes:
        """Returns the answer to a request."""
        from entrenous_network.node.secure_node import SecureSide
        from entrenous_network.secure_sum.messages import STAGES

        if not self._kinds:
            common = self._common
            side = SecureSide(
                self,  # type: ignore[arg-type]
                common.members,
                common.floors,
                common.verify,
            )
            self._kinds |= dict.fromkeys(STAGES, side.answer)
        return self.responder.answer(request, self._kinds)

    def offers(self, number: int) -> bool:
        """Tells whether it takes part in a round."""
        return self._user in self._common.offers(number)

    def before(self, request: NodeRequest) -> tuple[State, np.uint64]:
        """Returns the private state, and the key of a round's draws."""
        return self._common.private, np.uint64(local_key(self._common.rounds, request.round))

    def train_sum(self, request: NodeRequest) -> tuple[State, Total]:
        """Trains the device of a request. Returns private states, and what it sends."""
        devices, drawn = self.before(request)
        total, _ = self.shard.work(request.download, devices, request.users, drawn, delivered=True)
        return devices, total

    def tests(self) -> RowTests | None:
        """Returns no tests of new rows."""
        return None

    def test_key(self, number: int) -> np.uint64:
        """Returns the key of noise on tests, of which there are none."""
        return self._common.rounds

    def keep(self, request: NodeRequest, answer: bytes, devices: State, *kept: Any) -> None:
        """Keeps the facts of an answer."""
        facts: dict[str, str] = kept[0]
        self.store.facts |= facts


async def live(own: Devices, address: str, ca: Path) -> None:
    """All rounds of the devices of a process: LINES connections for those whom no lot draws, and
    one more for each that is in a sum.
    """
    summing: dict[int, asyncio.Task[None]] = {}
    turn = asyncio.Lock()

    async def asked(line: Line, device: LotDevice) -> str:
        """Fetches one request and answers it. Returns its kind, "" if there was none in time."""
        from entrenous_network.frames.frames import opened

        request = await line.ask("GET /v1/work", own.header(device), b"")
        if not request:
            return ""
        async with turn:
            answer = device.answer(request)
            # Many devices share a loop: connections have their turn between two answers.
            await asyncio.sleep(0)
        await line.ask("POST /v1/answer", own.header(device), answer)
        kind = opened(request).head.kind
        # Nothing more comes in this round for whom the lot does not draw.
        return "refused" if opened(answer).head.kind == "refused" else kind

    async def in_sum(device: LotDevice) -> None:
        """The stages of a sum, until its last one or until nothing has come for long."""
        line = Line(address, ca)
        silences = 0
        while silences < SILENCES:
            kind = await asked(line, device)
            if kind in ("refused", "unmask"):
                break
            silences += not kind
        line.close()

    async def some(users: list[int]) -> None:
        devices = [LotDevice(own, user) for user in users]
        line = Line(address, ca)
        while True:
            for user, device in zip(users, devices, strict=True):
                if user in summing and not summing[user].done():
                    continue
                if await asked(line, device) == "advert":
                    summing[user] = asyncio.create_task(in_sum(device))

    lines = np.array_split(own.users, LINES)
    try:
        await asyncio.gather(*(some(users.tolist()) for users in lines if len(users)))
    except ServerGone:
        for task in summing.values():
            task.cancel()


BENCHES = {"federation-crowd": crowds}

if __name__ == "__main__":
    server_folder, there, share, is_once = json.loads(sys.argv[1])
    here = Devices(Path(server_folder), there, share, is_once)
    print("ready", flush=True)
    where = sys.stdin.readline().strip()
    asyncio.run(live(here, where, Path(server_folder) / "keys" / "ca.crt"))
