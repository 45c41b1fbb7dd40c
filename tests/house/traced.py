"""Which files of the package run on a way through it: traced while the program does it, not listed.

Start-up, such as the import of modules, reading of options and founding of a federation, is told
apart from the way itself. Metrics are no part of it: every run computes all that are there, however
many files they are in.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from .source import NETWORK, PACKAGE

METRICS = PACKAGE / "evaluation" / "metrics"


class Trace:
    """The files whose functions were called, by phase of the program."""

    def __init__(self) -> None:
        self.phase = "start-up"
        self.called: dict[str, set[str]] = {}

    def files(self, phase: str) -> list[str]:
        """The files of the package and of the network in a phase, sorted, such as
        `runs/pipeline.py`.
        """
        paths = [Path(file) for file in self.called.get(phase, set())]
        found = []
        for folder in (PACKAGE, NETWORK):
            ours = [path for path in paths if path.is_relative_to(folder)]
            found += [
                path.relative_to(folder).as_posix()
                for path in ours
                if not path.is_relative_to(METRICS)
            ]
        return sorted(found)

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        """Notes a call; a profile function as `sys.setprofile` takes it."""
        code = frame.f_code
        # Bodies of modules and classes run when they are imported: that is start-up, whenever it is.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:
            self.called.setdefault(self.phase, set()).add(code.co_filename)


@contextmanager
def tracing() -> Iterator[Trace]:
    """Traces this thread and those that it starts."""
    trace = Trace()
    before = sys.getprofile()
    sys.setprofile(trace.look)
    threading.setprofile(trace.look)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def from_csv_to_recommendation(folder: Path) -> list[str]:
    """The files that `entrenous.run(...)` and `.recommend(...)` open for a CSV file.

    They run twice, on two files: first to import what is needed, which calls functions too, and
    then to be traced.
    """
    _recommended(_ratings(folder / "first.csv"))
    with tracing() as trace:
        trace.phase = "way"
        _recommended(_ratings(folder / "second.csv"))
    return trace.files("way")


def _ratings(file: Path) -> Path:
    """Writes a CSV file of 20 users and 131 items."""
    rows = [f"u{u},i{7 * u * k % 131},{k}" for u in range(1, 21) for k in range(1, 8)]
    file.write_text("\n".join(["user_id,item_id,timestamp", *rows]) + "\n")
    return file


def _recommended(file: Path) -> None:
    import entrenous

    settings = {"cohort": 4}
    run = entrenous.run("fpl", str(file), protocol="loo-20", rounds=2, threads=1, settings=settings)
    run.recommend("u1")


def from_device_to_model(folder: Path) -> list[str]:
    """The files that one HTTPS round opens, from the device's training to the server's model.

    A federation of two nodes on this machine runs three rounds over real sockets. The trace counts
    from the moment when the server asks for round 1, the second, to the moment when its model is
    committed; so founding, joining and the end are start-up.
    """
    from .one_round import trained

    with tracing() as trace:

        def begin() -> None:
            trace.phase = "way"

        def end() -> None:
            trace.phase = "after"

        trained(folder, begin, end)
    return trace.files("way")
