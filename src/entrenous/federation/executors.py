"""Who runs the devices of a round: threads over blocks, or one device at a time when something must
be found.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar, final

from ..core.errors import EntrenousError, at_least
from ..core.types import Int64Array

T = TypeVar("T")
B = TypeVar("B")


class Executor(Protocol):
    """Applies a function to blocks of users. `workers` functions run at once; results come in the
    order of the blocks. strict: what devices receive and send is held against the algorithm's
    declaration in every round, not in the first alone.
    """

    workers: int
    strict: bool

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]: ...
    def stage(self, number: int, name: str) -> AbstractContextManager[None]: ...


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class DeviceError(EntrenousError):
    """Raised when a device function fails; names the round, the stage and the device."""


@final
class Threads:
    """Runs blocks in `workers` threads. Compiled device code releases the interpreter lock; with
    one worker no thread is started."""

    def __init__(self, workers: int = 0, *, strict: bool = False) -> None:
        at_least("--threads", workers, 0)
        self.workers, self.strict = workers or _cores(), strict
        self._pool = (
            ThreadPoolExecutor(self.workers, thread_name_prefix="devices")
            if self.workers > 1
            else None
        )

    def map(self, function: Callable[[B], T], blocks: Sequence[B]) -> list[T]:
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
        self._name_of, self._round = name_of, 0

    def map(self, function: Callable[[Int64Array], T], blocks: Sequence[Int64Array]) -> list[T]:
        return [
            self._one(function, block[d : d + 1]) for block in blocks for d in range(len(block))
        ]

    def _one(self, function: Callable[[Int64Array], T], device: Int64Array) -> T:
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
        except DeviceError:
            raise
        except Exception as cause:
            raise DeviceError(
                f"round {number}, stage {name}: {type(cause).__name__}: {cause}"
            ) from cause

    def close(self) -> None:
        pass
