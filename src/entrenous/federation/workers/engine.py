"""Ray itself: started on this machine alone, or joined where somebody else has started it; asked
for once, ended afterwards.
"""

from __future__ import annotations

import importlib
import importlib.util
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

from ...core.errors import InputError, at_least, one_line
from .crew import Crew, Hand

ANSWER = 5.0  # seconds for a machine to take a connection
JOIN = 30.0  # seconds to join a cluster
START = (
    "start one with `ray start --head` and name HOST:PORT as it prints it, or `auto` on a machine"
    " of the cluster"
)
JOINING = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=50)"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # what workers and Ray's own processes say is not for the person's terminal
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}
NO_CLUSTER = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class EngineOptions(NamedTuple):
    """What --workers, --ray and --threads ask for.

    workers: None = as many as the cluster has CPUs. ray: None = this machine alone, else a
    cluster's address. threads: of each worker, 0 = this machine's cores shared out, or one in a
    cluster."""

    workers: int | None
    ray: str | None
    threads: int

    def __bool__(self) -> bool:
        return self.workers is not None or self.ray is not None

    def check(self) -> None:
        """Check the options before anything is loaded or started. Raises InputError for values that
        make no sense, and where Ray is not installed."""
        at_least("--workers", self.workers, 1)
        at_least("--threads", self.threads, 0)
        if self:
            _installed()

    def check_users(self, users: int) -> None:
        """Raise InputError if there are more workers than users, since every worker needs some."""
        if self.workers is not None and self.workers > users:
            raise InputError(
                "--workers",
                f"got {self.workers} for {users} users",
                expected="no more workers than users",
            )


@contextmanager
def crew(asked: EngineOptions, kind: type[Hand], most: int) -> Iterator[Crew]:
    """Start workers of one kind, at most `most` unless their number was asked for. They end with
    the context, and so does Ray unless it ran before.

    Raises InputError for a cluster that cannot be reached, or that has fewer CPUs free than the
    workers want."""
    with engine(asked) as ray:
        threads = asked.threads or (
            1 if asked.ray is not None else max(1, _cores() // (asked.workers or 1))
        )
        many = asked.workers or max(
            1, min(most, int(ray.cluster_resources().get("CPU", 1)) // threads)
        )
        with Crew.hired(ray, kind, many, threads) as hired:
            yield hired


@contextmanager
def engine(asked: EngineOptions) -> Iterator[Any]:
    """Ray, started as `asked` says, or connected to if this program already uses it; shut down at
    the end of `with` if it was started here."""
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
    """SIGTERM as it was, afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _clean_end() -> None:
    """SIGTERM ends this process by way of what is to be cleaned up, Ray's processes above all;
    Ray's own way is an abort.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _installed() -> None:
    if importlib.util.find_spec("ray") is None:
        raise InputError(
            "--workers", "Ray is not installed", fix="pip install 'entrenous[cluster]'"
        )


def _ray(alone: bool) -> Any:
    """The library. It reads its environment when it is imported; where a program has done that
    before, there is no token.
    """
    _installed()
    if "ray" not in sys.modules:
        token = (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
            if alone and not _secured()
            else {}
        )
        for name, value in {**QUIET, **token}.items():
            os.environ.setdefault(name, value)
    return importlib.import_module("ray")


def _secured() -> bool:
    """Whether the environment says already who may use Ray, or that anybody may."""
    return any(
        name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    )


def _start(ray: Any, asked: EngineOptions) -> None:
    """Ray for this run alone, on loopback, behind a token that nobody else on the machine has.
    RAY_ADDRESS is not looked at.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    constants.ENABLE_RAY_CLUSTER = False  # where Ray has no clusters it listens on loopback
    os.environ[NO_CLUSTER] = "0"  # for its processes too
    cpus = (asked.workers or 1) * max(1, asked.threads or _cores() // (asked.workers or 1))
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=50,
        )
    except (RuntimeError, ConnectionError, OSError, ValueError, TimeoutError) as cause:
        raise InputError(
            "--workers",
            f"Ray cannot be started here ({one_line(str(cause), 200)})",
            fix="leave it out",
        ) from None


def _join(ray: Any, address: str) -> None:
    """Joins a cluster. First in a process of its own, which may be ended: Ray waits for minutes
    where it gets no answer, and then ends its process itself."""
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
        said = asked.stderr.strip().splitlines()[-1:] if asked.returncode else []
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
