"""Speed and memory of pushes between peers: processes on loopback, with all of the protocol but
nothing to learn, against bare iroh.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from entrenous.core.contract.protocols import Progress

PEERS, ROUNDS = 20, 5
MODEL = {"factors": 74}  # times 1,682 items: 0.5 MB
TURNS = 3


HOWS = ("protocol", "changing", "bare")


def peers(threads: int, progress: Progress) -> dict[str, Any]:
    """20 processes, each pushing models of 0.5 MB to 3 others at once, five rounds in a row: MB a
    second of all together and processor milliseconds for each MB, both ends. Nothing is learned,
    merged or stored. In turns: the protocol (offer, go, body, digest, strict reading, range of
    every number, ok) over connections that are there; the same where a peer
    keeps only the newest few of 19, so that most pushes begin with a handshake (a real peer pushes
    to a view of 3 for ten pushes); and bare iroh (length, body, ok).
    """
    with _running() as running:
        for how in HOWS:
            _round(running, how, ROUNDS)
        best = dict.fromkeys(HOWS, (0.0, 1e9))
        for turn in range(TURNS):
            for how in HOWS:
                _ask_all(running, {"meet": how})
                rate, cpu = _round(running, how, ROUNDS)
                best[how] = max(rate, best[how][0]), min(cpu, best[how][1])
            progress(turn + 1, TURNS, "turn")
        ends = _ask_all(running, {"rss": 1})
        rss = [one["rss_mb"] for one in ends]
        busy, failed = (sum(one[name] for one in ends) for name in ("busy", "failed"))
    (rate, cpu), (bare_rate, bare_cpu) = best["protocol"], best["bare"]
    return {
        "megabytes_per_second": rate,
        "cpu_ms_per_megabyte": cpu,
        "changing_megabytes_per_second": best["changing"][0],
        "changing_cpu_ms_per_megabyte": best["changing"][1],
        "bare_megabytes_per_second": bare_rate,
        "bare_cpu_ms_per_megabyte": bare_cpu,
        "busy_answers": busy,
        "failed_attempts": failed,
        "ratio": rate / bare_rate,
        "cpu_ratio": cpu / bare_cpu,
        "rss_mb_largest": max(rss),
        "peers": PEERS,
        "against": "bare iroh between the same processes, in turns",
    }


@contextmanager
def _running() -> Iterator[list[subprocess.Popen[str]]]:
    """The processes, which know each other."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from entrenous_network.agreement.files import public_bytes
    from entrenous_network.agreement.terms import FederationTerms
    from entrenous_network.agreement.tickets import Ticket, ends

    operator = Ed25519PrivateKey.generate()
    terms = FederationTerms(
        topology="peers",
        algorithm="pepper-gmf",
        settings=MODEL,
        users=PEERS,
        items=1682,
        operator=public_bytes(operator).hex(),
    )
    command = [sys.executable, "-m", "entrenous_lab.benches._peers_load"]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PEERS)
    ]
    try:
        keys = [Ed25519PrivateKey.generate() for _ in running]
        for n, (one, key) in enumerate(zip(running, keys, strict=True)):
            ticket = Ticket.sign(operator, terms.run_bytes, n, public_bytes(key), ends(days=1))
            other = Ed25519PrivateKey.generate().private_bytes_raw().hex()
            said = [ticket.number, ticket.until, ticket.signature.hex()]
            _tell(
                one,
                {
                    "terms": terms.text(),
                    "ticket": said,
                    "key": key.private_bytes_raw().hex(),
                    "other": other,
                },
            )
        found = [_heard(one) for one in running]
        contacts = [
            [(n, public_bytes(keys[n]).hex(), one["addresses"]), (n, one["key"], one["bare"])]
            for n, one in enumerate(found)
        ]
        for n, one in enumerate(running):
            _tell(one, {"peers": contacts[:n] + contacts[n + 1 :]})
        for one in running:
            _heard(one)
        yield running
    finally:
        for one in running:
            one.terminate()
        for one in running:
            one.wait(20)


def _round(running: list[subprocess.Popen[str]], how: str, rounds: int) -> tuple[float, float]:
    """MB a second, and CPU ms for each MB."""
    before = sum(one["cpu"] for one in _ask_all(running, {"rss": 1}))
    began = time.perf_counter()
    found = _ask_all(running, {"push": rounds, "how": how})
    wall = time.perf_counter() - began
    spent = sum(one["cpu"] for one in _ask_all(running, {"rss": 1})) - before
    megabytes = sum(one["bytes"] for one in found) / 1e6
    return megabytes / wall, 1000 * spent / megabytes


def _ask_all(running: list[subprocess.Popen[str]], order: dict[str, Any]) -> list[dict[str, Any]]:
    """All at once."""
    for one in running:
        _tell(one, order)
    return [_heard(one) for one in running]


def _tell(one: subprocess.Popen[str], thing: dict[str, Any]) -> None:
    assert one.stdin is not None
    one.stdin.write(json.dumps(thing) + "\n")
    one.stdin.flush()


def _heard(one: subprocess.Popen[str]) -> dict[str, Any]:
    assert one.stdout is not None
    line = one.stdout.readline()
    if not line:
        raise RuntimeError("a process of the bench has ended")
    return dict(json.loads(line))


BENCHES = {"peers": peers}
