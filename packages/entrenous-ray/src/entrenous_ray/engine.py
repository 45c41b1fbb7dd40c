"""Ray itself: started on this machine alone, or joined in a cluster that runs already; and shut
down at the end.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from entrenous.core.errors import InputError, one_line
from entrenous.core.keywords import at_least
from entrenous.federation.shard import cores

from .crew import Crew, Hand

# Seconds for a machine to take a connection.
ANSWER = 5.0
# Seconds to join a cluster.
JOIN = 30.0
START = (
    "start one with `ray start --head` and name HOST:PORT as it prints it, or `auto` on a machine"
    " of the cluster"
)
JOINING = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=50)"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Keeps the output of workers and of Ray's own processes off the user's terminal.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
NO_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class EngineOptions(NamedTuple):
    """The values of --workers, --ray and --threads."""

    workers: int | None
    """None = as many as the cluster has CPUs."""
    ray: str | None
    """The address of a cluster; None = this machine alone."""
    threads: int
    """The threads of each worker; 0 = an equal share of this machine's cores, or one in a
    cluster.
    """

    def check(self) -> None:
        """Checks the options before anything is loaded or started. Raises InputError for impossible
        values.
        """
        at_least("--workers", self.workers, 1)
        at_least("--threads", self.threads, 0)

    def check_users(self, users: int) -> None:
        """Raises InputError if there are more workers than users, since every worker needs some."""
        if self.workers is not None and self.workers > users:
            raise InputError(
                "--workers",
                f"got {self.workers} for {users} users",
                expected="no more workers than users",
            )


@contextmanager
def crew(asked: EngineOptions, kind: type[Hand], most: int) -> Iterator[Crew]:
    """Starts workers of one kind, at most `most` unless their number was asked for. They end with
    the context, and so does Ray unless it ran before.

    Raises InputError for a cluster that cannot be reached, or with fewer free CPUs than the workers
    need.
    """
    with engine(asked) as ray:
        threads = asked.threads or (1 if asked.ray is not None else _share_of_cores(asked))
        cpus = int(ray.cluster_resources().get("CPU", 1))
        many = asked.workers or max(1, min(most, cpus // threads))
        with Crew.hired(ray, kind, many, threads) as hired:
            yield hired


def _share_of_cores(asked: EngineOptions) -> int:
    """The cores of this machine for each worker, at least one."""
    return max(1, cores() // (asked.workers or 1))


@contextmanager
def engine(asked: EngineOptions) -> Iterator[Any]:
    """Starts Ray, or uses it as it is if this program uses it already. Shuts it down at the end of
    `with` if it was started here.
    """
    ray = _ray(asked.ray is None)
    if ray.is_initialized():
        yield ray
        return
    with _terminated():
        _start(ray, asked) if asked.ray is None else _join(ray, asked.ray)
        try:
            _clean_end()
            yield ray
        finally:
            ray.shutdown()
            os.environ.pop(NO_CLUSTER, None)


@contextmanager
def _terminated() -> Iterator[None]:
    """Restores the handler of SIGTERM at the end."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _clean_end() -> None:
    """Lets SIGTERM end this process in order, with Ray's processes; Ray's own handler aborts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _ray(alone: bool) -> Any:
    """The library. It reads its environment when it is imported; if the program has imported it
    before, there is no token.
    """
    if "ray" not in sys.modules:
        variables = dict(QUIET)
        # Unless the environment says already who may use Ray.
        if alone and not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & {*os.environ}:
            variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        for name, value in variables.items():
            os.environ.setdefault(name, value)
    return importlib.import_module("ray")


def _start(ray: Any, asked: EngineOptions) -> None:
    """Starts Ray for this run alone, on loopback, behind a token that nobody else on the machine
    has. Ignores RAY_ADDRESS.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    # Without clusters Ray listens on loopback alone, and so do its processes.
    constants.ENABLE_RAY_CLUSTER = False
    os.environ[NO_CLUSTER] = "0"
    cpus = (asked.workers or 1) * (asked.threads or _share_of_cores(asked))
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=50,
        )
    # Ray raises an Exception of no class where its processes are slow to start.
    except Exception as cause:
        raise InputError(
            "--workers",
            f"Ray cannot be started here ({one_line(str(cause), 200)})",
            fix="leave it out",
        ) from None


def _join(ray: Any, address: str) -> None:
    """Joins a cluster. Tries it first in a child process that can be ended: without an answer Ray
    waits for minutes and then ends its own process."""
    if "://" in address:
        raise InputError(
            f"--ray {address}",
            "a Ray client address",
            expected="HOST:PORT or auto",
            fix=f"run on the cluster; {START}",
        )
    if address != "auto":
        _knock(address)
    try:
        asked = subprocess.run(
            [sys.executable, "-c", JOINING, address], capture_output=True, text=True, timeout=JOIN
        )
        said = []
        if asked.returncode:
            said = asked.stderr.strip().splitlines()[-1:]
    except subprocess.TimeoutExpired:
        said = [f"no answer as Ray gives it within {JOIN:.0f} s"]
    if said:
        raise InputError(
            f"--ray {address}", f"cannot be joined ({one_line(said[0], 200)})", fix=START
        )
    ray.init(address=address, log_to_driver=False, logging_level=50)


def _knock(address: str) -> None:
    """Refuses an address where nothing takes a connection."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(
            f"--ray {address}", "not an address", expected="HOST:PORT or auto", fix=START
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except OSError as cause:
        raise InputError(
            f"--ray {address}", f"nothing answers there ({cause.strerror or cause})", fix=START
        ) from None
