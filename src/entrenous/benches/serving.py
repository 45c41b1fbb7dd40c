"""What benches of a server have in common: a federation of one user a node, a server that runs to its end, and what that takes."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.interactions import Interactions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..deploy.terms import FederationTerms

SECONDS = 900.0  # in which all of it is over, on any machine


def node_key(number: int) -> Ed25519PrivateKey:
    """The key of a node of a bench, which any process of it can make again."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a bench's node %d" % number).digest())


def crowd(folder: Path, data: Interactions, settings: dict[str, Any], rounds: int) -> FederationTerms:
    """Make the folder of a server of FPL with a node for each user of a data set, named node-0 and so on."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ..deploy.certificates import make_keys
    from ..deploy.files import write_text
    from ..deploy.identity import write_identity
    from ..deploy.members import Member, Members
    from ..deploy.terms import FederationTerms

    server, nodes = Ed25519PrivateKey.generate(), len(data.users)
    terms = FederationTerms.parse(
        {"algorithm": "fpl", "settings": settings, "rounds": rounds, "draws": "public", **data.catalogue._asdict(),
         "operator": server.public_key().public_bytes_raw().hex()}, "terms",
    )  # fmt: skip
    folder.mkdir(mode=0o700)
    make_keys(folder / "keys")
    write_text(folder / "terms.json", terms.text())
    members = {f"node-{n}": Member(node_key(n).public_key(), np.array([n])) for n in range(nodes)}
    write_text(folder / "members.json", Members(members, nodes).text())
    write_identity(folder / "identity.key", server)
    return terms


def run_server(folder: Path, plan: Any, workers: int, nodes: Callable[[str], None]) -> tuple[float, int]:
    """Run a server to its end while `nodes`, given its address, does theirs. Returns processor seconds and the largest memory of all of its
    processes together, in bytes."""
    from ..deploy import running, server
    from ..deploy.server_folder import ServerFolder

    failed: list[BaseException] = []
    watched = Watched()

    def live(address: str) -> None:
        try:
            nodes(address)
        except BaseException as error:
            failed.append(error)
            stop.set()

    stop, thread = threading.Event(), threading.Thread(target=lambda: None)

    def begin(address: str, pids: list[int]) -> None:
        nonlocal thread
        watched.begin(pids)
        thread = threading.Thread(target=live, args=(address,))
        thread.start()

    farewell, server.FAREWELL = server.FAREWELL, 0.0
    try:
        with closing(ServerFolder(folder)) as held:
            if workers > 1:
                running.serve_by_workers(held, plan, workers, stop, lambda pool: begin(
                    pool.address, [worker.process.pid for worker in pool.workers]))  # fmt: skip
            else:
                with closing(running.https_link(held, plan)) as link:
                    link.start()
                    begin(link.address, [])
                    server.serve_opened(link, held, stop)
    finally:
        server.FAREWELL = farewell
        found = watched.end()
        thread.join(SECONDS)
    if failed:
        raise failed[0]
    return found


class Watched:
    """Processor time and memory of this process and others, while they work."""

    def __init__(self) -> None:
        self._over, self._peak, self._pids = threading.Event(), 0, list[int]()
        self._spent, self._others, self._before = 0.0, dict[int, float](), 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self, others: list[int]) -> None:
        """Begin to watch."""
        self._pids, self._before = others, time.process_time()
        self._first = {pid: cpu_seconds(pid) for pid in others}
        self._thread.start()

    def end(self) -> tuple[float, int]:
        """Processor seconds since the beginning, and the largest memory seen, in bytes."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        others = sum(now - self._first[pid] for pid, now in self._others.items())
        return time.process_time() - self._before + others, self._peak

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self._peak = max(self._peak, sum(resident(pid) for pid in (os.getpid(), *self._pids)))
            for pid in self._pids:
                self._others[pid] = cpu_seconds(pid) or self._others.get(pid, 0.0)


def resident(pid: int) -> int:
    """Bytes of a process in memory; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, as Linux counts it; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
