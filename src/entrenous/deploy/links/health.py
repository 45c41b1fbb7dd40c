"""Whether a part of a federation can do its work: `Trouble`, and `DiskHealth`, what the disk of a
folder has refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, final

PROBE = b"\0" * 4096  # a block of most disks: a full one has not even that


class Trouble(NamedTuple):
    """Why a part of a federation cannot do its work. kind: one word, for anybody who asks; text:
    one line for its operator, which may name nodes and files."""

    kind: str
    text: str


def no_trouble() -> Trouble | None:
    """None: for who knows of no trouble."""
    return None


@final
class DiskHealth:
    """The disk under a folder, as its process finds it. errors: writes that failed since the
    process began.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.errors = 0
        self._failing: dict[
            str, str
        ] = {}  # what could not be written when it was last tried -> why

    def failed(self, what: str, cause: OSError) -> None:
        """Note that something could not be written."""
        self.errors += 1
        self._failing[what] = failed(cause)

    def wrote(self, what: str) -> None:
        """Note that something was written."""
        self._failing.pop(what, None)

    def trouble(self) -> Trouble | None:
        """Why nothing can be relied on to be written now: the last write of something failed, or
        that of a block does. None where all is well. It waits for the disk."""
        for what, why in list(self._failing.items()):
            return Trouble("disk", f"{what} cannot be written ({why})")
        try:
            self._probe()
        except OSError as cause:
            return Trouble("disk", f"nothing can be written ({cause.strerror or cause})")
        return None

    def _probe(self) -> None:
        """Writes a block and removes it. Raises OSError."""
        probe = self._folder / f".health-{os.getpid()}.tmp"
        try:
            probe.write_bytes(PROBE)
        finally:
            probe.unlink(missing_ok=True)


def failed(cause: OSError) -> str:
    """The message of a disk error in one line."""
    return f"{cause.filename or 'disk'}: {cause.strerror or cause}"
