"""What benches of a server have in common: a federation of one user a node, a server that runs to
its end, and what that takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from entrenous.data.interactions import Interactions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from entrenous_network.agreement.terms import FederationTerms

SECONDS = 900.0  # in which all of it is over, on any machine


def node_key(number: int) -> Ed25519PrivateKey:
    """The key of a node of a bench, which any process of it can make again."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(b"a bench's node %d" % number).digest()
    )


def crowd(
    folder: Path, data: Interactions, settings: dict[str, Any], rounds: int, **more: Any
) -> FederationTerms:
    """Make the folder of a server of FPL with a node for each user of a data set, named node-0 and
    so on. more: further terms; `users` among them are in place of those of the data set.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from entrenous_network.agreement.catalogue import Items
    from entrenous_network.agreement.certificates import make_keys
    from entrenous_network.agreement.files import public_bytes
    from entrenous_network.agreement.members import Member
    from entrenous_network.agreement.terms import FederationTerms
    from entrenous_network.operate.founding import write_operator

    from entrenous.runs.manifest import catalogue_sizes

    server = Ed25519PrivateKey.generate()
    items = Items.of(data)
    terms = FederationTerms.parse(
        {
            "algorithm": "fpl",
            "settings": settings,
            "rounds": rounds,
            "draws": "public",
            **catalogue_sizes(data.catalogue),
            "items_root": items.log.tree.head.root.hex(),
            "operator": server.public_key().public_bytes_raw().hex(),
            **more,
        },
        "terms",
    )
    members = [
        Member(f"node-{user}", public_bytes(node_key(user)).hex(), user, user)
        for user in range(terms.users)
    ]
    write_operator(folder, server, terms, items, "", members, {}, None)
    make_keys(folder / "keys")
    return terms


def run_server(folder: Path, workers: int, nodes: Callable[[str], None]) -> Served:
    """Run a server, a process of its own, to its end while `nodes`, given its address, does
    theirs.
    """
    command = [sys.executable, "-m", "entrenous_lab.benches.serving", str(folder), str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            nodes(json.loads(_line(server))["address"])
            return Served(**json.loads(_line(server)))
        finally:
            server.terminate()
            server.wait(SECONDS)


def _line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def serve(folder: Path, workers: int) -> None:
    """The server's process: says where it listens, and when all is over what it took."""
    from entrenous_network.links.https import HttpsPlan
    from entrenous_network.operate import running
    from entrenous_network.server import server
    from entrenous_network.server.server_folder import ServerFolder

    server.FAREWELL = 0.0  # nobody waits for the trained model
    plan, stop, watched = HttpsPlan(port=0, keys=folder / "keys"), threading.Event(), Watched()
    with closing(ServerFolder(folder)) as held:

        def begin(address: str, pids: Sequence[int]) -> None:
            watched.begin(pids)
            print(json.dumps({"address": address}), flush=True)

        if workers > 1:
            running.serve_by_workers(
                held,
                plan,
                workers,
                stop,
                lambda pool: begin(pool.address, [one.process.pid for one in pool.workers]),
            )
        else:
            with closing(running.https_link(held, plan)) as link:
                link.start()
                begin(link.address, [])
                server.serve_opened(link, held, stop)
        print(json.dumps(watched.end()._asdict()), flush=True)


class Served(NamedTuple):
    """What a server took. cpu: processor seconds of all of its processes; peak: the largest memory
    of each, added up, in bytes.
    """

    cpu: float
    peak: int


@final
class Watched:
    """Processor time and memory of this process and others, while they work."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._seen: dict[int, tuple[float, int]] = {}
        self._first: dict[int, float] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self, others: Sequence[int]) -> None:
        """Begin to watch processor time and memory, of this process and of `others`."""
        self._first = {pid: cpu_seconds(pid) for pid in (os.getpid(), *others)}
        self._thread.start()

    def end(self) -> Served:
        """What was used since the beginning."""
        self._over.set()
        self._thread.join()
        self._look()
        used = sum(cpu - self._first[pid] for pid, (cpu, _) in self._seen.items())
        return Served(used, sum(peak for _, peak in self._seen.values()))

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def _look(self) -> None:
        for pid in self._first:
            if peak := largest_memory(pid):
                self._seen[pid] = cpu_seconds(pid), peak


def largest_memory(pid: int) -> int:
    """The most bytes that a process has had in memory; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def resident(pid: int) -> int:
    """Bytes of a process in memory now; 0 when it has ended."""
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


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
