"""How many answers a server takes a second: over TLS, checked, on its disk, added up, acknowledged."""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.protocols import Progress
from ..data.synthetic import synthetic
from ..federation.shard import Shard

NODES, CONNECTIONS = 6000, 64
ITEMS, SETTINGS = 10_000, {"factors": 20, "triples": 650}
AIM = 1000.0  # answers a second on two cores, client and all
SECONDS = 600.0  # in which all of it is over, on any machine


class Prepared(NamedTuple):
    """What the client sends: for each node the header that shows its key and what precedes the body; the body that all have."""

    headers: list[str]
    heads: list[bytes]
    body: bytes


def intake(threads: int, progress: Progress) -> dict[str, Any]:
    """Answers of some 50 kB, each of a node of its own: TLS 1.3, two signatures (who asks, who answers), all checks of values, journal with
    one wait for the disk for all that came together, int64 sums, acknowledgement. 64 connections of a client process on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        progress(0, 2, "keys and answers")
        found = _measured(Path(folder), progress)
    progress(2, 2, "measured")
    rate = found["answers_per_second"]
    return {**found, "ratio": AIM / rate, "against": f"the limit of {AIM:g} answers a second on two cores with their client"}


def _measured(folder: Path, progress: Progress) -> dict[str, Any]:
    from ..deploy.certificates import make_keys
    from ..deploy.codes import Code
    from ..deploy.intake import Open, RoundIntake
    from ..deploy.journal import Journal
    from ..deploy.links.https import HttpsPlan, HttpsServerLink
    from ..deploy.members import Members

    make_keys(folder)
    members, contract, run, model, prepared = _prepared()
    write_prepared(folder / "prepared", prepared)
    taken = RoundIntake(run, Members(members, NODES), contract, lambda line: None)
    now = Open(0, model, {name: member.users for name, member in members.items()})
    with closing(HttpsServerLink(HttpsPlan(port=0, keys=folder), run, members, 1 << 20)) as link:
        with closing(Journal(folder / "round.journal")) as journal:
            taken.begin(now, journal, [])
            link.start()
            progress(1, 2, "answers")
            client = [sys.executable, "-m", "entrenous.benches.intake", link.address, str(folder)]
            with subprocess.Popen(client, stdout=subprocess.PIPE) as process:
                spent = time.process_time()
                batches = _taken_all(link, taken, process.poll)
                spent = time.process_time() - spent
                said = json.loads(process.communicate(timeout=SECONDS)[0])
        accepted = taken.counts[Code.ACCEPTED]
    assert accepted == NODES == said["answered"], (taken.counts, said)
    return {
        "answers_per_second": round(NODES / said["seconds"], 1), "p50_ms": said["p50_ms"], "p99_ms": said["p99_ms"],
        "answers": NODES, "kilobytes": round(len(prepared.body) / 1e3, 1), "connections": CONNECTIONS,
        "answers_a_disk_wait": round(NODES / batches, 1), "server_cpu_ms": round(1e3 * spent / NODES, 3), "client_cpu_ms": said["cpu_ms"],
    }  # fmt: skip


def _taken_all(link: Any, taken: Any, ended: Callable[[], int | None]) -> int:
    """Takes answers until all nodes have given theirs. Returns how often it waited for the disk."""
    batches, until = 0, time.monotonic() + SECONDS
    while taken.missing() and time.monotonic() < until and ended() in (None, 0):
        frames = [frame for _, frame in link.receive(0.2)]
        if frames:
            taken.receive_all(frames)
            batches += 1
        link.acknowledge()
    return max(batches, 1)


def _prepared() -> tuple[Any, Any, str, bytes, Prepared]:
    """A federation of one user a node, and an answer of each."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..algorithms.fpl import FPL
    from ..deploy.contribution import agreed, of_update
    from ..deploy.frames import seal
    from ..deploy.links.admission import here
    from ..deploy.members import Member
    from ..deploy.request import announced_of

    data = synthetic(users=NODES, items=ITEMS, interactions=NODES * 20, seed=1)
    made = FPL(**SETTINGS).configured(data.catalogue)  # type: ignore[arg-type]
    contract = agreed(made, data.catalogue)
    shard = Shard(made, data.catalogue, data, np.arange(NODES))
    download = made.download(made.init_server(data.catalogue, np.uint64(3)))
    body = of_update(shard.update(download, shard.init_devices(np.uint64(1)), np.array([0]), np.uint64(2)))
    model, run = announced_of(contract, download), "ab" * 16
    keys = {f"node-{n}": Ed25519PrivateKey.generate() for n in range(NODES)}
    about: dict[str, Any] = {"round": 0, "model": model, "items": ITEMS, "about": {"users": 1}}
    heads = [seal(key, "update", body, run=run, node=name, **about)[: -len(body)] for name, key in keys.items()]
    headers = [here(key, run, name) for name, key in keys.items()]
    members = {name: Member(key.public_key(), np.array([n])) for n, (name, key) in enumerate(keys.items())}
    return members, contract, run, model, Prepared(headers, heads, body)


def write_prepared(path: Path, prepared: Prepared) -> None:
    """Write what a client is to send."""
    import msgspec

    path.write_bytes(msgspec.msgpack.encode(prepared))


# ---- the client: a process of its own, no HTTP library in it, so that it takes little of the machine -----------------------------------


async def client(address: str, folder: Path) -> dict[str, Any]:
    """Sends all answers over CONNECTIONS connections, each the next when one was acknowledged. Returns how long they took."""
    import msgspec

    prepared = msgspec.msgpack.decode((folder / "prepared").read_bytes(), type=Prepared)
    trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    host, port = address.rsplit(":", 1)
    waits: list[float] = []
    codes: Counter[bytes] = Counter()
    left = iter(range(len(prepared.heads)))
    lines = [await asyncio.open_connection(host, int(port), ssl=trust) for _ in range(CONNECTIONS)]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n in left:
            began, size = time.perf_counter(), len(prepared.heads[n]) + len(prepared.body)
            head = (
                f"POST /v1/answer HTTP/1.1\r\nhost: x\r\nauthorization: {prepared.headers[n]}\r\ncontent-length: {size}\r\n\r\n"
            )
            writer.write(head.encode() + prepared.heads[n] + prepared.body)
            codes[(await reader.readuntil(b"\r\n\r\n"))[9:12]] += 1
            waits.append(time.perf_counter() - began)

    began, spent = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(*line) for line in lines))
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    for _, writer in lines:
        writer.close()
    ranked = sorted(waits)
    return {"seconds": seconds, "answered": codes[b"200"], "p50_ms": round(1e3 * statistics.median(ranked), 1),
            "p99_ms": round(1e3 * ranked[int(0.99 * len(ranked))], 1), "cpu_ms": round(1e3 * spent / len(ranked), 3)}  # fmt: skip


BENCHES = {"intake": intake}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(client(sys.argv[1], Path(sys.argv[2])))))
