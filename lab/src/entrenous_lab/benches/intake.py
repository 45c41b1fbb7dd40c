"""How many answers a server takes a second: over TLS, checked, on its disk, added up,
acknowledged.
"""

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
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from entrenous.core.contract.protocols import Progress
from entrenous.data.synthetic import synthetic
from entrenous.federation.shard import Shard

from .nodes import as_founded
from .serving import SECONDS, crowd, node_key, run_server

NODES, CONNECTIONS = 6000, 64
ITEMS, SETTINGS = 10_000, {"factors": 20, "triples": 650}
WORKERS = 2
AIM = 1000.0  # answers a second on two cores, client and all


class Prepared(NamedTuple):
    """What the client sends: for each node the header that shows its key and what precedes the
    body; the body that all have.
    """

    headers: list[str]
    heads: list[bytes]
    body: bytes


def intake(threads: int, progress: Progress) -> dict[str, Any]:
    """Answers of some 58 kB, each of a node of its own: TLS 1.3, two signatures (who asks, who
    answers), all checks of values, journal with one wait for the disk for all that came together,
    int64 sums, acknowledgement. 64 connections of a client process on this machine; a server of one
    process, then of two workers.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        progress(0, 3, "keys and answers")
        prepared = _prepared(Path(folder) / "server")
        (Path(folder) / "prepared").write_bytes(msgspec.msgpack.encode(prepared))
        for done, workers in enumerate((1, WORKERS), start=1):
            progress(done, 3, f"{workers} processes")
            found[f"workers_{workers}"] = _measured(Path(folder) / "server", workers)
    progress(3, 3, "measured")
    best = max(found.values(), key=lambda one: one["answers_per_second"])
    return {
        **best,
        **found,
        "answers": NODES,
        "kilobytes": round(len(prepared.body) / 1e3, 1),
        "connections": CONNECTIONS,
        "ratio": AIM / best["answers_per_second"],
        "against": (
            f"the limit of {AIM:g} answers a second on two cores with their client (below 1 is"
            " better)"
        ),
    }


def _measured(folder: Path, workers: int) -> dict[str, Any]:
    """One round of all nodes, from the first byte of the first answer to the last
    acknowledgement.
    """
    as_founded(folder)
    said: list[dict[str, Any]] = []

    def send(address: str) -> None:
        command = [sys.executable, "-m", "entrenous_lab.benches.intake", address, str(folder)]
        said.append(
            json.loads(
                subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True).stdout
            )
        )

    took = run_server(folder, workers, send)
    assert said and said[0]["answered"] == NODES, said
    return {
        "answers_per_second": round(NODES / said[0]["seconds"], 1),
        "p50_ms": said[0]["p50_ms"],
        "p99_ms": said[0]["p99_ms"],
        "server_cpu_ms": round(1e3 * took.cpu / NODES, 3),
        "client_cpu_ms": said[0]["cpu_ms"],
        "peak_rss_mb": round(took.peak / 1e6),
    }


def _prepared(folder: Path) -> Prepared:
    """A server's folder, and an answer of every node to its first round: the body of one device,
    signed by each.
    """
    from entrenous_network.frames.contribution import agreed, of_update
    from entrenous_network.frames.frames import seal
    from entrenous_network.frames.request import announced_of
    from entrenous_network.links.admission import here

    from entrenous.core.keys import key

    data = synthetic(users=NODES, items=ITEMS, interactions=NODES * 20, seed=1)
    terms = crowd(folder, data, SETTINGS, 1)
    made = terms.make()
    contract, shard = (
        agreed(made, data.catalogue),
        Shard(made, data.catalogue, data, np.arange(NODES)),
    )
    download = made.download(made.init_server(data.catalogue, key(terms.seed, "server")))
    body = of_update(
        shard.update(download, shard.init_devices(np.uint64(1)), np.array([0]), np.uint64(2))
    )
    about: dict[str, Any] = {
        "round": 0,
        "model": announced_of(contract, download),
        "items": ITEMS,
        "about": {"users": 1},
    }
    keys = {f"node-{n}": node_key(n) for n in range(NODES)}
    heads = [
        seal(own, "update", body, run=terms.run, node=name, **about)[: -len(body)]
        for name, own in keys.items()
    ]
    return Prepared([here(own, terms.run, name) for name, own in keys.items()], heads, body)


# ---- the client: a process of its own, no HTTP library in it, so that it takes little of the machi


async def client(address: str, folder: Path) -> dict[str, Any]:
    """Sends all answers over CONNECTIONS connections, each the next when one was acknowledged.
    Returns how long they took.
    """
    prepared = msgspec.msgpack.decode((folder.parent / "prepared").read_bytes(), type=Prepared)
    trust = ssl.create_default_context(cafile=str(folder / "keys" / "ca.crt"))
    host, port = address.rsplit(":", 1)
    waits: list[float] = []
    codes: Counter[bytes] = Counter()
    left = iter(range(len(prepared.heads)))
    lines = [await asyncio.open_connection(host, int(port), ssl=trust) for _ in range(CONNECTIONS)]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n in left:
            began, size = time.perf_counter(), len(prepared.heads[n]) + len(prepared.body)
            head = (
                "POST /v1/answer HTTP/1.1\r\nhost: x\r\nauthorization:"
                f" {prepared.headers[n]}\r\ncontent-length: {size}\r\n\r\n"
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
    return {
        "seconds": seconds,
        "answered": codes[b"200"],
        "p50_ms": round(1e3 * statistics.median(ranked), 1),
        "p99_ms": round(1e3 * ranked[int(0.99 * len(ranked))], 1),
        "cpu_ms": round(1e3 * spent / len(ranked), 3),
    }


BENCHES = {"intake": intake}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(client(sys.argv[1], Path(sys.argv[2])))))
