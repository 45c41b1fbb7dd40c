"""Two machines on this one: two network namespaces with a cable between them, where the system
allows it, and a Ray cluster of both.

Run as a program, inside the first of them: a server whose two workers are actors, one on each
machine, and its nodes, half of which connect to either. Prints the sha256 of the model.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

RAY = Path(sys.executable).parent / "ray"
RAY_PORT, PORT = 6391, 8443
HEAD, OTHER = "10.99.7.1", "10.99.7.2"
STARTED = 90.0  # seconds for both machines to be in the cluster


def environment() -> dict[str, str]:
    """That of every process of the cluster: one token, which nobody else has."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": f"{os.getpid():064d}"}
    return {**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0"}


class NotHere(Exception):
    """Raised with the reason why there can be no two machines."""


class Machines(NamedTuple):
    """The names of the namespaces. The first one has the head of the cluster."""

    first: str
    second: str


def ip(*words: str) -> None:
    """Run `ip`. Raises NotHere."""
    if shutil.which("ip") is None:
        raise NotHere("there is no program `ip`")
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise NotHere(f"`ip {' '.join(words)}`: {done.stderr.strip()}")


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Two namespaces with a cable between them. Raises NotHere."""
    machines = Machines(f"entr{os.getpid()}a", f"entr{os.getpid()}b")
    with ExitStack() as made:
        for name in machines:
            ip("netns", "add", name)
            made.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
        # Each end has a name of its own until it is in its namespace.
        ends = [f"v{os.getpid()}a", f"v{os.getpid()}b"]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(machines, ends, (HEAD, OTHER), strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")
        yield machines


@contextmanager
def cluster(machines: Machines) -> Iterator[None]:
    """A Ray cluster of one processor on each machine."""
    with ExitStack() as started, tempfile.TemporaryDirectory(prefix="er") as folder:
        common = ["--num-cpus", "1", "--block", "--disable-usage-stats"]
        head = ["--head", "--port", str(RAY_PORT), "--temp-dir", folder]
        head += ["--include-dashboard", "false", "--node-ip-address", HEAD]
        other = ["--address", f"{HEAD}:{RAY_PORT}", "--node-ip-address", OTHER]
        for name, words in zip(machines, (head, other), strict=True):
            command = ["ip", "netns", "exec", name, str(RAY), "start", *words, *common]
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(),
            )
            started.callback(ended, process)
            await_nodes(machines.first, 1 if words is head else 2)
        yield


def ended(process: subprocess.Popen[bytes]) -> None:
    """End `ray start --block` and all that it has started."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def await_nodes(machine: str, count: int) -> None:
    """Wait until the cluster has so many machines."""
    code = (
        "import ray, sys; ray.init(sys.argv[1], logging_level=50, log_to_driver=False);"
        " print(sum(node['Alive'] for node in ray.nodes()))"
    )
    command = ["ip", "netns", "exec", machine, sys.executable, "-c", code, f"{HEAD}:{RAY_PORT}"]
    until = time.monotonic() + STARTED
    while True:
        asked = subprocess.run(command, capture_output=True, text=True, env=environment())
        if asked.stdout.strip() == str(count):
            return
        assert time.monotonic() < until, asked.stderr[-400:]
        time.sleep(0.5)


def main(server: Path, kill: bool) -> None:
    """Serve a federation by two actors, with all of its nodes."""
    from entrenous_network.agreement.terms import TERMS, FederationTerms
    from entrenous_network.links.https import HttpsPlan
    from entrenous_network.operate.founding import FoundedFederation
    from entrenous_network.operate.running import RayPlan
    from entrenous_network.server.pool import WorkerPool
    from entrenous_network.server.server_folder import ServerFolder
    from entrenous_ray.actors import HiredActor, serve_by_actors
    from federation_links import PATIENCE, nodes_at

    folders = sorted((server.parent / "nodes").iterdir())
    terms = FederationTerms.read(server / TERMS)
    lock, count = threading.Lock(), [0]
    over, at_work = threading.Event(), list[threading.Thread]()

    def begin(pool: WorkerPool[HiredActor]) -> None:
        addresses = sorted({standing.address.partition(":")[0] for standing in pool.standing})
        assert addresses == [HEAD, OTHER], addresses

        def each(name: str, frame: bytes) -> None:
            with lock:
                count[0] += 1
                if kill and count[0] == 40:
                    os.kill(pool.standing[1].process, signal.SIGKILL)

        def live(address: str, half: list[Path]) -> None:
            made = FoundedFederation(terms, server, {folder.name: folder for folder in half})
            with nodes_at(made, f"{address}:{PORT}", each):
                over.wait(PATIENCE)

        for number, address in enumerate(addresses):
            thread = threading.Thread(target=live, args=(address, folders[number::2]), daemon=True)
            at_work.append(thread)
            thread.start()

    https = HttpsPlan(HEAD, PORT, server / "keys")
    plan = RayPlan(f"{HEAD}:{RAY_PORT}", server.parent / "actors")
    with closing(ServerFolder(server)) as held:
        print(serve_by_actors(held, https, 2, threading.Event(), begin, plan=plan))
    over.set()
    for thread in at_work:
        thread.join(PATIENCE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "kill" in sys.argv[2:])
