"""The health of the disk under the folder of a service, and its trouble in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, final

PROBE = b"\0" * 4096  # a block of most disks: a full disk has not even that


class Trouble(NamedTuple):
    """The reason why a part of a federation cannot do its work."""

    kind: str
    """One word, for anybody who asks."""
    text: str
    """One line for the operator, which may name nodes and files."""


def no_trouble() -> Trouble | None:
    """Returns None, for a caller that knows of no trouble."""
    return None


@final
class DiskHealth:
    """The disk under a folder, as its process finds it. errors: writes that failed since the
    process began. failing: why something could not be written when that was last tried, by what it
    is; a caller that has written it takes it out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.errors = 0
        self.failing: dict[str, str] = {}

    def failed(self, what: str, cause: OSError) -> None:
        """Notes that something could not be written."""
        self.errors += 1
        self.failing[what] = failed(cause)

    def trouble(self) -> Trouble | None:
        """Returns why no write can be relied on now: the last write of something failed, or that of
        a block does. None where all is well. Waits for the disk."""
        for what, why in list(self.failing.items()):
            return Trouble("disk", f"{what} cannot be written ({why})")
        probe = self._folder / f".health-{os.getpid()}.tmp"
        try:
            try:
                probe.write_bytes(PROBE)
            finally:
                probe.unlink(missing_ok=True)
        except OSError as cause:
            return Trouble("disk", f"nothing can be written ({cause.strerror or cause})")
        return None


def failed(cause: OSError) -> str:
    """Returns the message of a disk error in one line."""
    return f"{cause.filename or 'disk'}: {cause.strerror or cause}"
