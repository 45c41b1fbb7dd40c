"""Servers and nodes as whoever runs them does: `entrenous server` and `entrenous node` as processes
of their own, over TLS on loopback. They are forked: see forked.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from entrenous_network.operate.founding import FoundedFederation, Place, free_ports
from federation_links import federation
from forked import Forked


def at_a_port(folder: Path, **terms: Any) -> tuple[FoundedFederation, int]:
    """A federation with TLS on a free port of this machine."""
    port = free_ports()[0]
    return federation(folder, place=Place(port=port), **terms), port


@contextmanager
def process(
    *words: object, code: str = "from entrenous.cli import main; main()", **more: Any
) -> Iterator[subprocess.Popen[str]]:
    """`entrenous WORDS` as a process of its own, which is stopped at the end if it still runs."""
    command = [sys.executable, "-c", code, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    started = Forked(command, text=True, **pipes)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.communicate(timeout=60)
        except (subprocess.TimeoutExpired, ValueError):
            started.kill()
            started.wait()
