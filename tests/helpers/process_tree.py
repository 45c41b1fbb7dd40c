"""The processes below one, as /proc has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 180.0  # seconds that anything may take on a busy machine


def descendants(process: int) -> list[int]:
    """Its children, theirs, and so on."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
            except OSError:
                continue
    found, new = [], [process]
    while new:
        new = [one for one, parent in parents.items() if parent in new]
        found += new
    return found


def until(true: Callable[[], Any]) -> Any:
    """What `true` returns as soon as that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("it took too long")


def there(process: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def command_of(process: int) -> bytes:
    """The command line of a process, b"" if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
