"""`Cells`: computes cells, several at a time, and remembers them: tables and figures share them,
and a killed run goes on.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeAlias, final

from entrenous.core.contract.protocols import Progress, silent
from entrenous.runs.store import write_atomically

from .cell import FORMAT, Cell, CellPart, CurvePoint, Outcome, identity
from .compute import compute
from .named import Place

Tick: TypeAlias = Callable[[Cell, int], None]
Pair: TypeAlias = tuple[CellPart, Cell]
Stand: TypeAlias = Callable[[str, Cell, CellPart], Outcome]


@final
class Cells:
    """Remembers each cell as soon as it is finished, in a file of `folder` (None: only as long as
    this object lives).

    threads: cells at once, 0 = one a core; it changes no outcome. computed: how many were trained
    by this object. stand_in: gives the outcome of what is missing in place of a training, and
    nothing is written: to count what is missing. algorithms, pins: what was trained so far, and on
    which rows: {data: sha256}. settings: what of `trained/` and `tuned/` was read for it.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        threads: int = 0,
        progress: Progress = silent,
        stand_in: Stand | None = None,
    ) -> None:
        self.folder, self.computed, self.stand_in = folder, 0, stand_in
        self.algorithms, self.settings, self.pins = set[str](), set[Place](), dict[str, str]()
        self._trained, self._asked = set[str](), set[str]()
        self._progress, self.workers = progress, threads or cores()
        self._memory: dict[str, Outcome] = {}

    def outcomes_of(self, pairs: Sequence[Pair]) -> list[Outcome]:
        """The outcome of each cell, computed if it is not remembered; long ones had better come
        first.
        """
        names = self._named(pairs)
        missing = {
            name: pair
            for name, pair in zip(names, pairs, strict=True)
            if self._recalled(name) is None
        }
        if missing:
            self._compute(missing, self.workers)
        return [self._memory[name] for name in names]

    def timed(self, pairs: Sequence[Pair]) -> list[Outcome]:
        """Outcomes whose seconds can be compared: trained one after another with nothing of ours
        beside them.

        They are remembered together or not at all: if one is missing or was trained in another run,
        all are trained again.
        """
        names = self._named(pairs)
        runs = {found.measured for name in names if (found := self._recalled(name))}
        if len(runs) != 1 or runs == {""} or any(self._recalled(name) is None for name in names):
            machine = f"{platform.node()} {platform.machine()}, {cores()} cores"
            self._compute(
                dict(zip(names, pairs, strict=True)),
                1,
                f"{machine}, {time.strftime('%Y-%m-%dT%H:%M:%S%z')}",
            )
        return [self._memory[name] for name in names]

    def _named(self, pairs: Sequence[Pair]) -> list[str]:
        """The identity of each cell that is asked for."""
        names = [identity(cell, part) for part, cell in pairs]
        self._asked.update(names)
        self.algorithms.update(cell.algorithm for _, cell in pairs)
        return names

    @property
    def seconds(self) -> float:
        """How long the trainings that were asked for took, each on one core, whenever that was."""
        return sum(self._memory[name].seconds for name in self._asked if name in self._memory)

    @property
    def remembered(self) -> int:
        """How many different trainings were asked for and not computed by this object."""
        return len(self._asked - self._trained)

    def _compute(self, missing: Mapping[str, Pair], workers: int, measured: str = "") -> None:
        if self.stand_in is not None:
            self._memory.update(
                {name: self.stand_in(name, cell, part) for name, (part, cell) in missing.items()}
            )
            return
        stop, tick = Event(), self._ticking(sum(len(cell.looks) for _, cell in missing.values()))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="cells")
        warm = bool(measured)
        try:
            futures = {
                pool.submit(compute, cell, part, tick, stop, warm): name
                for name, (part, cell) in missing.items()
            }
            for future in as_completed(futures):
                outcome = future.result()._replace(measured=measured)
                self._remember(futures[future], *missing[futures[future]], outcome)
        finally:
            stop.set()  # without effect unless something failed or the user interrupted
            pool.shutdown(cancel_futures=True)

    def _ticking(self, total: int) -> Tick:
        """Counts looks of all threads for the progress."""
        lock, done = Lock(), [0]

        def tick(cell: Cell, looks: int) -> None:
            with lock:
                done[0] += looks
                self._progress(done[0], total, cell.label)

        return tick

    def _recalled(self, name: str) -> Outcome | None:
        if name not in self._memory and self.folder is not None:
            found = read(self.folder / f"{name}.json", name)
            if found is not None:
                self._memory[name] = found
        return self._memory.get(name)

    def _remember(self, name: str, part: CellPart, cell: Cell, outcome: Outcome) -> None:
        self._memory[name] = outcome
        self.computed += 1
        self._trained.add(name)
        if self.folder is not None:
            write_atomically(
                self.folder / f"{name}.json", written(name, cell, len(part.rows), outcome)
            )


def written(name: str, cell: Cell, rows: int, outcome: Outcome) -> bytes:
    """A cell's file: what it is for people and for estimates, and its outcome. rows: how many it
    was trained on.
    """
    about = {
        "algorithm": cell.algorithm,
        "settings": {name: storable(value) for name, value in cell.settings.items()},
        "part": cell.part,
        "seed": cell.seed,
        "rows": rows,
    }
    looks = [look._asdict() for look in outcome.looks]
    return (
        json.dumps({"format": FORMAT, "cell": name, **about, **outcome._asdict(), "looks": looks})
        + "\n"
    ).encode()


def storable(value: Any) -> Any:
    """A setting as JSON has it; in words where it is an object, such as groups of users."""
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple | dict)
    return value if plain else repr(value)


def read(path: Path, name: str) -> Outcome | None:
    """The outcome in a cell's file; None if there is none, or it is damaged or of another cell: it
    is then computed again.
    """
    try:
        kept = json.loads(path.read_text())
        if kept["format"] != FORMAT or kept["cell"] != name:
            return None
        return Outcome(
            [CurvePoint(**look) for look in kept["looks"]],
            kept["failed"],
            kept["seconds"],
            kept.get("measured", ""),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def trained_once(
    path: Path | None, about: Mapping[str, Any], compute: Callable[[], dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    """Returns what a training gave, and whether it was computed now: a file remembers it.

    path: None = nowhere. about: of the training; a file that says otherwise of its `format` or
    `cell`, or that is damaged, is written anew.
    """
    found = _read(path, about)
    if found is not None:
        return found, False
    found = compute()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**about, "found": found}
        write_atomically(path, (json.dumps(content, default=str) + "\n").encode())
    return found, True


def _read(path: Path | None, about: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a file remembers; None without one, or for one that is damaged or of something else."""
    try:
        kept = None if path is None else json.loads(path.read_text())
        if kept is None or any(kept[name] != about[name] for name in ("format", "cell")):
            return None
        found: dict[str, Any] = kept["found"]
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return None
