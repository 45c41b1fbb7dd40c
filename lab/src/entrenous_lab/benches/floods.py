"""A server under attack: seconds a round beside those of the same server, in the same run, that
nobody disturbs.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from entrenous.core.contract.protocols import Progress

from ._attackers import TICK, Disturbance
from .nodes import ITEMS, Devices, Line, data_of
from .serving import SECONDS, cpu_seconds, crowd, node_key, resident

ROUNDS = 1_000_000
AIM = 1.5  # times the undisturbed seconds of a round
TURNS = 3  # of each attack, with undisturbed rounds before each
ENOUGH, LEAST, MOST = 10, 4.0, 25.0  # rounds of a phase; seconds of it, at least and at most
SETTLED = 2.0  # seconds for an attack to be under way, and for the server to recover after it
RECONNECTED = 50  # answers, after which a device makes a new connection
ALL, SHAKES, ASKS = (
    1000.0,
    100.0,
    500.0,
)  # connections, handshakes and requests that an attacker begins a second, at most
CROWD, SLOW, MANY, FEW = 10_000, 256, 64, 4  # connections of an attacker
ELSEWHERE, HERE = "127.0.0.2", "127.0.0.1"  # where attackers are, and where nodes are
INTRUDERS = 9  # nodes without users whose owners attack
MEMBERS = 1000  # of a federation, with those who only have a key
DRIP = 1.0  # seconds between two bytes of a head
TRICKLE = 0.25  # seconds between two bytes of a body
LINES = "a:b\r\n" * 3200  # of a head, sent at once


class Flooded(NamedTuple):
    """A federation that is attacked: its devices, its items, the settings of FPL, and by which
    attacks.
    """

    devices: int
    items: int
    settings: dict[str, Any]
    names: tuple[str, ...]


CROWDED = Flooded(
    200,
    ITEMS,
    {"factors": 20},
    (
        "silent",
        "slow_heads",
        "long_heads",
        "long_heads_of_a_node",
        "requests_without_key",
        "requests_of_a_node",
        "signatures_of_nobody",
        "silent_beside_nodes",
    ),
)
LARGE = Flooded(
    8, 15_000, {"factors": 80, "triples": 7500}, ("bodies_of_a_node",)
)  # answers of 10 MB, at most


class Measure(NamedTuple):
    """A phase: seconds of each round; processor time beside the clock's; bytes of memory at most;
    counters of the server.
    """

    took: list[float]
    server: float
    devices: float
    attacker: float
    peak: int
    counts: dict[str, int]

    @property
    def median(self) -> float:
        return statistics.median(self.took)

    @property
    def work(self) -> float:
        """Processor seconds of the server a round, which other programs on the machine change
        little.
        """
        return self.server * sum(self.took) / len(self.took)

    def plus(self, other: Measure) -> Measure:
        """Both together; shares of processors are means by time."""
        ours, theirs = sum(self.took), sum(other.took)
        mean = lambda a, b: (a * ours + b * theirs) / (ours + theirs)  # noqa: E731
        return Measure(
            self.took + other.took,
            mean(self.server, other.server),
            mean(self.devices, other.devices),
            mean(self.attacker, other.attacker),
            max(self.peak, other.peak),
            dict(Counter(self.counts) + Counter(other.counts)),
        )


def floods(
    threads: int, progress: Progress, *, scenes: Sequence[Flooded] = (CROWDED, LARGE)
) -> dict[str, Any]:
    """FPL rounds of nodes of one user, each with a connection of its own over TLS 1.3 that it now
    and then makes anew; all are asked. Undisturbed rounds of the same server and rounds under
    attack take turns; each attack is a process of its own.
    """
    found: dict[str, Any] = {}
    for scene in scenes:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "server"
            run = _founded(place, scene)
            found |= _Attacked(place, scene, run, progress).all()
    worst = max(found.values(), key=lambda one: one["ratio"])
    return {
        **found,
        "load": [round(each, 1) for each in os.getloadavg()],
        "cores": os.cpu_count(),
        "ratio": worst["ratio"],
        "against": (
            f"the undisturbed rounds between the turns of each attack: the limit is {AIM:g} times"
            " as long"
        ),
    }


def _founded(folder: Path, scene: Flooded) -> str:
    """The folder of a server, with further nodes that have no users, some of which attack. Returns
    the number of its run.
    """
    from entrenous_network.agreement.files import public_bytes
    from entrenous_network.agreement.members import MEMBERS as LIST
    from entrenous_network.agreement.members import Member, Members

    devices = scene.devices
    terms = crowd(folder, data_of(devices, scene.items), scene.settings, ROUNDS)
    members = Members.read(folder / LIST, devices)
    others = range(devices, max(MEMBERS, devices + INTRUDERS))
    more = [
        Member(_name(number), public_bytes(node_key(number)).hex(), devices, devices - 1)
        for number in others
    ]
    members.write(folder / LIST, more)
    return terms.run


def _name(number: int) -> str:
    return f"node-{number}"


def attacks(address: str, run: str, scene: Flooded, largest: int) -> dict[str, Disturbance]:
    """The attacks on a server, by name. largest: bytes of an answer to it, at most."""
    from entrenous_network.links.admission import ROOM

    host, port = address.rsplit(":", 1)
    place: tuple[str, int] = host, int(port)
    head = "GET /v1/work HTTP/1.1\r\nhost: x\r\n"
    intruders = range(scene.devices, scene.devices + INTRUDERS)
    one = intruders[0]
    keyed = _post(run, one, "xyz")
    unsigned = tuple(_post(run, number, _by_nobody(run, number)) for number in intruders)
    many: dict[str, Any] = {"sockets": MANY, "opened": SHAKES, "sent": ASKS}
    claimed = min(largest, ROOM // FEW)  # by what heads say, all room of a server is taken
    without_end: dict[str, Any] = {
        "sockets": FEW,
        "opened": FEW,
        "first": head,
        "then": LINES,
        "every": TICK,
    }
    return {
        "silent": Disturbance(*place, ELSEWHERE, CROWD, ALL, silent=True),
        "slow_heads": Disturbance(
            *place, ELSEWHERE, SLOW, SHAKES, first=f"{head}x-slow: ", then="x", every=DRIP
        ),
        "long_heads": Disturbance(*place, ELSEWHERE, **without_end),
        "long_heads_of_a_node": Disturbance(*place, ELSEWHERE, **without_end, shown=keyed),
        "requests_without_key": Disturbance(*place, ELSEWHERE, requests=(f"{head}\r\n",), **many),
        "requests_of_a_node": Disturbance(*place, ELSEWHERE, requests=(keyed,), **many),
        "signatures_of_nobody": Disturbance(*place, ELSEWHERE, requests=unsigned, **many),
        "silent_beside_nodes": Disturbance(*place, HERE, CROWD, ALL, silent=True),
        "bodies_of_a_node": Disturbance(
            *place,
            ELSEWHERE,
            FEW,
            FEW,
            first=_post(run, one, "x", claimed),
            then="x",
            every=TRICKLE,
        ),
    }


def _post(run: str, number: int, body: str, size: int = 0) -> str:
    """An answer of a node, of as many bytes as it has or as it claims."""
    from entrenous_network.links.admission import here

    shown = here(node_key(number), run, _name(number))
    return (
        f"POST /v1/answer HTTP/1.1\r\nhost: x\r\nauthorization: {shown}\r\ncontent-length:"
        f" {size or len(body)}\r\n\r\n{body}"
    )


def _by_nobody(run: str, number: int) -> str:
    """An answer that claims to be a node's, and is signed by a key that no member has."""
    from entrenous_network.frames.frames import seal

    return seal(node_key(-1 - number), "update", b"x", run=run, node=_name(number)).decode(
        "latin-1"
    )


@final
class _Attacked:
    """One server with its devices, and what is done to it. all: of every attack, what became of the
    rounds.
    """

    def __init__(self, folder: Path, scene: Flooded, run: str, progress: Progress) -> None:
        self._folder, self._scene, self._run, self._progress = folder, scene, run, progress
        self._ends: list[float] = []  # when each round was over
        self._over, self._failed = threading.Event(), list[BaseException]()
        self._found: dict[str, dict[str, Any]] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        from entrenous_network.frames.secure import largest_answer
        from entrenous_network.links.https import HttpsPlan
        from entrenous_network.operate import running
        from entrenous_network.server.server import serve_opened
        from entrenous_network.server.server_folder import ServerFolder

        plan = HttpsPlan(port=0, keys=self._folder / "keys")
        with (
            closing(ServerFolder(self._folder)) as held,
            closing(running.https_link(held, plan)) as self._link,
        ):
            self._largest = largest_answer(held.terms, held.members)
            self._link.start()
            thread = threading.Thread(target=self._guarded)
            thread.start()
            serve_opened(
                self._link,
                held,
                self._over,
                lambda done, of, what: self._ends.append(time.monotonic()),
            )
            thread.join(SECONDS)
        if self._failed:
            raise self._failed[0]
        return self._found

    def _guarded(self) -> None:
        try:
            self._one_after_the_other()
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._over.set()

    def _one_after_the_other(self) -> None:
        scene, names = self._scene, self._scene.names
        share = [self._link.address, str(self._folder), scene.devices, scene.items]
        with _process("entrenous_lab.benches.floods", share) as devices:
            while len(self._ends) < ENOUGH // 4:  # everybody is there, and everything compiled
                assert devices.poll() is None
                time.sleep(0.1)
            for done, name in enumerate(names):
                self._progress(done, len(names), name)
                turns = [self._turn(devices, name) for _ in range(TURNS)]
                calm = reduce(Measure.plus, [before for before, _, _ in turns])
                during = reduce(Measure.plus, [attacked for _, attacked, _ in turns])
                said = reduce(lambda a, b: a + b, [Counter(told) for _, _, told in turns])
                self._found[name] = _compared(calm, during, said, self._attack(name))
        self._progress(len(names), len(names), "measured")

    def _attack(self, name: str) -> Disturbance:
        """An attack, made now: what shows a key grows old."""
        return attacks(self._link.address, self._run, self._scene, self._largest)[name]

    def _turn(
        self, devices: subprocess.Popen[bytes], name: str
    ) -> tuple[Measure, Measure, dict[str, float]]:
        """Undisturbed rounds, rounds under attack, and what the attacker says that it did."""
        calm = self._phase(devices, None)
        with _process("entrenous_lab.benches._attackers", self._attack(name)) as attacker:
            time.sleep(SETTLED)
            during = self._phase(devices, attacker)
            attacker.terminate()
            said = json.loads(attacker.communicate(timeout=30)[0])
        time.sleep(SETTLED)
        return calm, during, said

    def _phase(
        self, devices: subprocess.Popen[bytes], attacker: subprocess.Popen[bytes] | None
    ) -> Measure:
        """Rounds until there are ENOUGH, or MOST seconds are over."""
        began, first, peak = time.monotonic(), len(self._ends), 0
        pids = [devices.pid, *([] if attacker is None else [attacker.pid])]
        spent, before = [time.process_time(), *map(cpu_seconds, pids)], self._counts()
        while (
            len(self._ends) - first <= ENOUGH or time.monotonic() - began < LEAST
        ) and time.monotonic() - began < MOST:
            time.sleep(0.05)
            peak = max(peak, resident(os.getpid()))
        seconds = time.monotonic() - began
        now = [time.process_time(), *map(cpu_seconds, pids)]
        shares = [(b - a) / seconds for a, b in zip(spent, now, strict=True)] + [0.0]
        took = np.diff(self._ends[first:]).tolist()
        counts = dict(Counter(self._counts()) - Counter(before))
        return Measure(took or [seconds], shares[0], shares[1], shares[2], peak, counts)

    def _counts(self) -> dict[str, int]:
        guard = self._link.guard
        return {"refused": guard.refused, "evicted": guard.evicted, **dict(self._link.counts)}


def _compared(
    calm: Measure, during: Measure, said: Mapping[str, float], attack: Disturbance
) -> dict[str, Any]:
    return {
        "seconds_a_round": round(during.median, 4),
        "undisturbed": round(calm.median, 4),
        "ratio": round(during.median / calm.median, 3),
        "longest_round": round(max(during.took), 3),
        "longest_undisturbed": round(max(calm.took), 3),
        "rounds": len(during.took),
        "server_cpu_ms_a_round": round(1e3 * during.work, 1),
        "server_cpu_ms_undisturbed": round(1e3 * calm.work, 1),
        "server": during.counts,
        "peak_rss_mb": round(during.peak / 1e6),
        "peak_rss_mb_undisturbed": round(calm.peak / 1e6),
        "from": attack.source,
        "cores_of": {
            "server": round(during.server, 2),
            "devices": round(during.devices, 2),
            "attacker": round(during.attacker, 2),
        },
        "attacker": {key: round(value, 2) for key, value in said.items()},
        "opened_a_second_at_most": attack.opened,
    }


@contextmanager
def _process(module: str, said: Sequence[Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this bench, told what to do by a line, and ended afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(said).encode() + b"\n")
    process.stdin.flush()
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


# ---- the process of devices ----------------------------------------------------------------------


async def live(address: str, folder: Path, devices: int, items: int) -> None:
    """All devices, each with its connection, until the process is ended."""
    own = Devices(folder, devices, 0, 1, items)

    async def one(user: int) -> None:
        line = Line(address, folder / "keys" / "ca.crt")
        for turn in count(user):  # not all make a new connection at once
            request = await line.ask("GET /v1/work", own.header(user), b"")
            if request:
                await line.ask("POST /v1/answer", own.header(user), own.answer(user, request))
            if turn % RECONNECTED == 0:
                line.close()

    await asyncio.gather(*(one(user) for user in own.users.tolist()))


BENCHES = {"floods": floods}

if __name__ == "__main__":
    there, where, many, of = json.loads(sys.stdin.readline())
    asyncio.run(live(there, Path(where), many, of))
