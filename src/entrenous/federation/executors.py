"""Executors run the devices of a round: `Threads` over blocks, or `Debug` one device at a time.
`EngineOptions` asks for worker processes instead (see `workers`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol, TypeVar, final

from ..core.errors import EntrenousError, InputError
from ..core.keywords import at_least
from ..core.types import Int64Array

T = TypeVar("T")
B = TypeVar("B")


class Executor(Protocol):
    """Applies a function to blocks of users; results come in the order of the blocks."""

    workers: int
    """The number of functions that run at once."""
    strict: bool
    """True if the messages of devices are compared with the algorithm's declaration in every round,
    not in the first alone.
    """

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]: ...
    def stage(self, number: int, name: str) -> AbstractContextManager[None]: ...


def cores() -> int:
    """The number of cores that this process may use."""
    # A container or a batch system may allow fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DeviceError(EntrenousError):
    """Raised when a device function fails; names the round, the stage and the device."""


@final
class Threads:
    """Runs blocks in `workers` threads; 0 = one for each core. Compiled device code releases the
    interpreter lock. With one worker no thread is started.
    """

    def __init__(self, workers: int = 0, *, strict: bool = False) -> None:
        at_least("--threads", workers, 0)
        self.workers = workers or cores()
        self.strict = strict
        self._pool = None
        if self.workers > 1:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="devices")

    def map(self, function: Callable[[B], T], blocks: Sequence[B]) -> list[T]:
        # To hand a single block to a thread would only cost time.
        if self._pool is None or len(blocks) == 1:
            return [function(block) for block in blocks]
        return list(self._pool.map(function, blocks))

    @contextmanager
    def stage(self, number: int, name: str) -> Iterator[None]:
        yield

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@final
class Debug:
    """Runs one device at a time, in order, and raises a DeviceError with the device, round and
    stage of an exception.
    """

    workers = 1
    strict = True

    def __init__(self, name_of: Callable[[int], str] = str) -> None:
        self._name_of = name_of
        self._round = 0

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]:
        devices = [block[d : d + 1] for block in blocks for d in range(len(block))]
        return [self._named(function, device) for device in devices]

    def _named(self, function: Callable[[Int64Array], T], device: Int64Array) -> T:
        try:
            return function(device)
        except Exception as cause:
            who = self._name_of(int(device[0]))
            raise DeviceError(
                f"round {self._round}, stage local, device of user '{who}': {type(cause).__name__}:"
                f" {cause}"
            ) from cause

    @contextmanager
    def stage(self, number: int, name: str) -> Iterator[None]:
        self._round = number
        try:
            yield
        # It names the device already.
        except DeviceError:
            raise
        except Exception as cause:
            raise DeviceError(
                f"round {number}, stage {name}: {type(cause).__name__}: {cause}"
            ) from cause

    def close(self) -> None:
        pass


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

    def __bool__(self) -> bool:
        return self.workers is not None or self.ray is not None

    def check(self) -> None:
        """Checks the options before anything is loaded or started. Raises InputError for impossible
        values, and if Ray is needed and not installed.
        """
        at_least("--workers", self.workers, 1)
        at_least("--threads", self.threads, 0)
        if self:
            check_installed()

    def check_users(self, users: int) -> None:
        """Raises InputError if there are more workers than users, since every worker needs some."""
        if self.workers is not None and self.workers > users:
            raise InputError(
                "--workers",
                f"got {self.workers} for {users} users",
                expected="no more workers than users",
            )


def check_installed() -> None:
    """Raises InputError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise InputError(
            "--workers", "Ray is not installed", fix="pip install 'entrenous[cluster]'"
        )
