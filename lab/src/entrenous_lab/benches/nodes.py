"""One server, ten thousand devices: seconds a round over real sockets, and the server's memory."""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.core.keys import key, local_key
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.shard import Shard

from .serving import SECONDS, crowd, node_key, run_server

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DEVICES, ITEMS, EACH, SETTINGS = (
    10_000,
    1700,
    100,
    {"factors": 20},
)  # as many items and rows a user as in MovieLens-100K
PROCESSES, CONNECTIONS, ROUNDS, WORKERS = 2, 64, 3, 2
REFUSED = 20  # connections in a row that nobody listens for, after which a server has ended
AIM, ROOM = 20.0, 300.0  # seconds a round; MB beside model and totals


def nodes(threads: int, progress: Progress, *, devices: int = DEVICES) -> dict[str, Any]:
    """FPL rounds of `devices` nodes of one user each, all of whom are asked: request, training,
    answer, over TLS 1.3 on loopback. The devices live in two processes and share 64 connections in
    each; each has its own key, checks the server's signature and the model, trains, and signs. One
    server process, then two workers. Memory is that of the server's processes together.
    """
    found: dict[str, Any] = {"devices": devices}
    with tempfile.TemporaryDirectory() as folder:
        progress(0, 3, "keys")
        terms = crowd(Path(folder) / "server", data_of(devices), SETTINGS, ROUNDS)
        for done, workers in enumerate((1, WORKERS), start=1):
            progress(done, 3, f"{workers} processes")
            found[f"workers_{workers}"] = _measured(Path(folder) / "server", devices, workers)
    progress(3, 3, "measured")
    model = ITEMS * (SETTINGS["factors"] + 1) * 4 / 1e6
    best = min(
        (found["workers_1"], found[f"workers_{WORKERS}"]), key=lambda one: one["seconds_per_round"]
    )
    return {
        **best,
        **found,
        "model_mb": round(model, 2),
        "totals_mb": round(2 * model + ITEMS * 8 / 1e6, 2),
        "rounds": terms.rounds,
        "ratio": best["seconds_per_round"] / AIM,
        "against": (
            f"the limit of {AIM:g} s a round of {DEVICES:,} devices, and of {ROOM:g} MB beside"
            " model and totals"
        ),
    }


def data_of(devices: int, items: int = ITEMS) -> Interactions:
    """The rows of as many users."""
    return synthetic(users=devices, items=items, interactions=devices * EACH, seed=1)


def as_founded(folder: Path) -> None:
    """Remove what rounds have left in a server's folder, to run them again."""
    for left in (
        *folder.glob("checkpoint-*"),
        *folder.glob("kept-*"),
        *folder.glob("*.journal"),
        *folder.glob("model.*"),
    ):
        left.unlink()


def run_devices(address: str, folder: Path, devices: int) -> None:
    """Run the devices of all nodes of a server, in PROCESSES processes, until all rounds are
    done.
    """
    shares = [json.dumps([address, str(folder), devices, part]) for part in range(PROCESSES)]
    commands = [[sys.executable, "-m", "entrenous_lab.benches.nodes", share] for share in shares]
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(
            pool.map(lambda command: subprocess.run(command, timeout=SECONDS, check=True), commands)
        )


def _measured(folder: Path, devices: int, workers: int) -> dict[str, Any]:
    from entrenous_network.operate.running import status

    as_founded(folder)
    took = run_server(folder, workers, lambda address: run_devices(address, folder, devices))
    done = status(folder)
    assert done["status"] == "finished" and done["answers"] == {"accepted": devices * ROUNDS}, done
    return {
        "seconds_per_round": done["seconds_a_round"],
        "peak_rss_mb": round(took.peak / 1e6),
        "server_cpu_ms_an_answer": round(1e3 * took.cpu / devices / ROUNDS, 3),
    }


# ---- a process of devices ------------------------------------------------------------------------


@final
class Headers:
    """What shows the keys of some nodes, made anew every minute. run: of their federation."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._made: dict[str, tuple[float, str]] = {}

    def of(self, name: str, key: Ed25519PrivateKey) -> str:
        """Returns the header of a node with this key."""
        from entrenous_network.links.admission import here

        made, text = self._made.get(name, (-math.inf, ""))
        if time.monotonic() - made > 60.0:
            text = here(key, self._run, name)
            self._made[name] = time.monotonic(), text
        return text


@final
class Devices:
    """The devices of one process (part `part` of `of`), each with its user's rows and private
    vector, in memory.
    """

    def __init__(
        self, folder: Path, devices: int, part: int, of: int = PROCESSES, items: int = ITEMS
    ) -> None:
        from entrenous_network.agreement.terms import FederationTerms

        self.terms = FederationTerms.read(folder / "terms.json")
        data = data_of(devices, items)
        self.users = np.array_split(np.arange(devices), of)[part]
        self.shard = Shard(self.terms.make(), data.catalogue, data.of_users(self.users), self.users)
        self._private = self.shard.init_devices(key(self.terms.seed, "devices"))
        self._keys = {int(user): node_key(int(user)) for user in self.users}
        self._headers = Headers(self.terms.run)

    def header(self, user: int) -> str:
        """What shows a device's key."""
        return self._headers.of(f"node-{user}", self._keys[user])

    def answer(self, user: int, request: bytes) -> bytes:
        """What a node's device answers: trained on what the server signed, if it is what was
        announced.
        """
        from entrenous_network.frames.contribution import of_update
        from entrenous_network.frames.frames import opened, seal, signed_by
        from entrenous_network.frames.request import announced, read_download
        from entrenous_network.wire.tensors import TensorField

        frame = opened(request)
        assert signed_by(frame, self.terms.operator)
        download, more = read_download(
            frame.body, self.shard.contract, 1, {"users": TensorField("i8", (1,))}
        )
        assert announced(self.shard.contract, download) == frame.head.model and more[
            "users"
        ].tolist() == [user]
        drawn = np.uint64(local_key(key(self.terms.seed, "rounds"), frame.head.round))
        body = of_update(self.shard.update(download, self._private, more["users"], drawn))
        about: dict[str, Any] = {
            "round": frame.head.round,
            "model": frame.head.model,
            "items": self.terms.items,
            "about": {"users": 1},
        }
        return seal(
            self._keys[user], "update", body, run=self.terms.run, node=f"node-{user}", **about
        )


async def live(address: str, folder: Path, devices: int, part: int) -> None:
    """All rounds of all devices of a process, over CONNECTIONS connections."""
    own = Devices(folder, devices, part)

    async def some(users: list[int]) -> None:
        line = Line(address, folder / "keys" / "ca.crt")
        for _ in range(ROUNDS):
            for user in users:
                request = b""
                while not request:
                    request = await line.ask("GET /v1/work", own.header(user), b"")
                await line.ask("POST /v1/answer", own.header(user), own.answer(user, request))
        line.close()

    await asyncio.gather(
        *(some(users.tolist()) for users in np.array_split(own.users, CONNECTIONS) if len(users))
    )


class ServerGone(Exception):
    """Raised when nobody has listened at a server's address for some seconds."""


@final
class Line:
    """One connection to a server, made anew when it breaks: a server hangs up on too many who
    connect at once.
    """

    def __init__(self, address: str, ca: Path) -> None:
        self._address, self._trust = (
            address.rsplit(":", 1),
            ssl.create_default_context(cafile=str(ca)),
        )
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, what: str, header: str, body: bytes) -> bytes:
        """One request, and the body of its response. Raises ServerGone."""
        refused = 0
        head = (
            f"{what} HTTP/1.1\r\nhost: x\r\nauthorization: {header}\r\ncontent-length:"
            f" {len(body)}\r\n\r\n".encode()
        )
        while True:
            try:
                return await self._asked(head + body)
            except (OSError, asyncio.IncompleteReadError) as lost:
                self.close()
                refused += isinstance(lost, ConnectionRefusedError)
                if refused > REFUSED:
                    raise ServerGone from None
                await asyncio.sleep(0.2)

    async def _asked(self, request: bytes) -> bytes:
        if self._line is None:
            self._line = await asyncio.open_connection(
                self._address[0], int(self._address[1]), ssl=self._trust
            )
        reader, writer = self._line
        writer.write(request)
        said = await reader.readuntil(b"\r\n\r\n")
        if said[9:12] in (b"429", b"500", b"503"):
            raise ConnectionError(said)  # no place just now, or the server ends
        assert said[9:10] == b"2", said
        length = next(
            (
                int(each.split(b":")[1])
                for each in said.lower().split(b"\r\n")
                if each.startswith(b"content-length")
            ),
            0,
        )
        return await reader.readexactly(length)

    def close(self) -> None:
        """Close the connection to the server."""
        if self._line is not None:
            self._line[1].close()
        self._line = None


BENCHES = {"federation-nodes": nodes}

if __name__ == "__main__":
    there, where, count, share = json.loads(sys.argv[1])
    asyncio.run(live(there, Path(where), count, share))
