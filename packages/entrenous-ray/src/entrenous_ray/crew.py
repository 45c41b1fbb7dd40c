"""`Crew`: worker processes, each with one object that lives there, and the calls to the objects."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from entrenous import __version__
from entrenous.core.errors import EntrenousError, InputError, one_line

# Tries of the same work when workers die at it.
TRIES = 4
# Seconds for a worker to start.
READY = 60.0


class Hand(Protocol):
    """An object that lives in a worker process and does its work."""

    def about(self) -> About: ...


class About(NamedTuple):
    """A worker's process, and the versions that must be the same everywhere: the same model needs
    the same code.
    """

    process: int
    machine: str
    versions: dict[str, str]


def about_here() -> About:
    """The process id, the machine's name and the library versions of this process."""
    versions = {
        "entrenous": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    return About(os.getpid(), platform.node(), versions)


class WorkerDied(EntrenousError):
    """Raised when a worker's process or its machine has died."""


@final
class Crew:
    """`many` worker processes of `threads` threads each. Workers are numbered from 0, and results
    come in that order.
    """

    def __init__(self, ray: Any, kind: type[Hand], many: int, threads: int) -> None:
        self.many = many
        self.threads = threads
        self._ray = ray
        self._actor = ray.remote(kind)
        self._hands: list[Any] = []
        self.about: dict[int, About] = {}
        # The training whose state the workers hold.
        self.owner: object = None

    @staticmethod
    @contextmanager
    def hired(ray: Any, kind: type[Hand], many: int, threads: int) -> Iterator[Crew]:
        """Starts a crew, which ends with the context. Raises InputError if there are too few CPUs,
        or if workers have other versions of the software.
        """
        crew = Crew(ray, kind, many, threads)
        try:
            # All start at once, and are waited for together: a start takes seconds.
            crew._hands = [crew._new() for _ in range(many)]
            try:
                crew._wait(range(many))
            except WorkerDied as died:
                fix = "the same entrenous must be installed on every machine"
                raise InputError("--workers", f"{died} at the start", fix=fix) from None
            yield crew
        finally:
            # Also after an error: a worker holds memory until it is ended.
            for hand in crew._hands:
                ray.kill(hand)

    def put(self, thing: Any) -> Any:
        """Stores an object once on each machine. Returns a reference that later calls take in its
        place.
        """
        return self._ray.put(thing)

    def call(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Calls one method of several workers at once, and yields the results in the order of their
        numbers. Arrays in results are read-only. arguments: {number of a worker: arguments}.

        Raises WorkerDied, and the EntrenousError that the method raised.
        """
        refs = {
            number: self.begin(number, method, *arguments[number]) for number in sorted(arguments)
        }
        return (self.result(number, ref) for number, ref in refs.items())

    def begin(self, number: int, method: str, *arguments: Any) -> Any:
        """Starts a method on one worker, after its earlier calls. Returns a reference for
        `result`.
        """
        return getattr(self._hands[number], method).remote(*arguments)

    def result(self, number: int, ref: Any) -> Any:
        """Waits for a worker's result. Raises WorkerDied, or the error that the worker raised."""
        # Ray is imported by whoever asks for workers, so its errors are reached through it.
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError as failed:
            if isinstance(failed.cause, EntrenousError):
                raise failed.cause from None
            raise
        except errors.RayError as lost:
            raise WorkerDied(f"{self._who(number)} died ({type(lost).__name__})") from None

    def renew(self, dead: Sequence[int] | None = None) -> Sequence[int]:
        """Starts a new worker, without data, in place of each dead one. dead: their numbers, None =
        find them. Returns their numbers.
        """
        if dead is None:
            dead = [number for number in range(self.many) if not self._lives(number)]
        for number in dead:
            self._hands[number] = self._new()
        self._wait(dead)
        return dead

    def _new(self) -> Any:
        return self._actor.options(
            num_cpus=self.threads, scheduling_strategy="SPREAD", max_restarts=0
        ).remote()

    def _wait(self, numbers: Sequence[int]) -> None:
        """Waits until some workers have started."""
        refs = [self.begin(number, "about") for number in numbers]
        missing = []
        if refs:
            missing = self._ray.wait(refs, num_returns=len(refs), timeout=READY)[1]
        if missing:
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
            raise InputError(
                "--workers",
                f"{len(missing)} of {self.many} did not start within {READY:.0f} s; the cluster has"
                f" {cpus} CPUs",
                expected=f"{self.threads} free for each",
                fix="ask for fewer, or for fewer --threads",
            )
        for number, ref in zip(numbers, refs, strict=True):
            self.about[number] = self.result(number, ref)
        self._check()

    def _check(self) -> None:
        """Refuses workers with other versions than this process."""
        here = about_here().versions
        for about in self.about.values():
            # Other versions of NumPy or Python may round otherwise, and models would differ.
            for name, version in about.versions.items():
                if version != here[name]:
                    raise InputError(
                        "--ray",
                        f"{about.machine} has {name} {version}",
                        expected=here[name],
                        fix="every machine needs the same, or models would differ",
                    )

    def _lives(self, number: int) -> bool:
        try:
            self._ray.get(self.begin(number, "about"), timeout=READY)
        # A worker that does not answer in time is busy.
        except self._ray.exceptions.GetTimeoutError:
            return True
        except self._ray.exceptions.RayError:
            return False
        return True

    def _who(self, number: int) -> str:
        about = self.about.get(number)
        known = ""
        if about:
            known = f" (process {about.process} on {one_line(about.machine)})"
        return f"worker {number + 1} of {self.many}{known}"
