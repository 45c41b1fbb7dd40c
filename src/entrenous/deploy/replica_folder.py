"""`ReplicaFolder`: what a replica has of its federation, and its journals, on the machine where it
runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..core.errors import InputError
from ..core.lock import is_held, locked
from .coordinator import ReplicaPlan
from .links.metrics import DiskHealth
from .server.journal import Journal, JournalRecord, read
from .server.log_line import LogLine, written

MOST = 1000  # replicas whose journals are in one folder


@final
class ReplicaFolder:
    """What a replica has of its federation, and its journals: in a folder of its own among those of
    its machine, of which it also takes over each one whose process has died. Raises InputError
    where nothing can be written.
    """

    def __init__(self, plan: ReplicaPlan) -> None:
        self.terms, self.members = plan.agreement()
        self.key, self.start = Ed25519PrivateKey.from_private_bytes(plan.key), plan.start
        self._log_format, self._root = plan.log_format, Path(plan.journal) / self.terms.run
        self.disk = DiskHealth(self._root)
        self._held: dict[Path, int] = {}  # folders, and the locks on them
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._adopt()
            self._own = next(iter(self._held), None) or self._new()
        except OSError as cause:
            raise InputError(
                plan.journal,
                f"cannot be written ({cause.strerror})",
                fix="name another with --journal",
            ) from None

    def log(self, text: str) -> None:
        """Append a line to the replica's own log. Where the disk is full it is lost."""
        with suppress(OSError), open(self._own / "replica.log", "ab") as log:
            log.write(written(text, self._log_format))

    def journal(self, number: int, attempt: int = 0) -> Journal:
        """Open the journal of a round. Those of other rounds go: what is asked for next was
        committed before.
        """
        self.clear(_name(number))
        journal = Journal(self._own / _name(number))
        self._tell(number, journal.damaged)
        return journal

    def clear(self, but: str = "") -> None:
        """Remove the journals of all rounds, but those of one name."""
        for path in [path for folder in self._held for path in folder.glob("round-*.journal")]:
            if path.name != but:
                path.unlink(missing_ok=True)

    def recorded_of(self, number: int, part: int, of: int) -> list[JournalRecord]:
        """The records of a round in all folders that are this replica's now."""
        self._adopt()
        paths = [folder / _name(number) for folder in self._held]
        found = [read(path) for path in paths if path.exists()]
        self._tell(number, [line for one in found for line in one.damaged])
        return [record for one in found for record in one.records]

    def _tell(self, number: int, damaged: Sequence[str]) -> None:
        """Logs what is damaged in journals."""
        for line in damaged:
            self.log(LogLine(line, "damaged", level="error", round=number))

    def close(self) -> None:
        """Give the folders back."""
        for lock in self._held.values():
            os.close(lock)
        self._held = {}

    def _adopt(self) -> None:
        """Takes the folders that nobody holds."""
        for folder in sorted(self._root.iterdir()):
            if folder not in self._held and not is_held(folder / "lock"):
                with suppress(InputError):  # another was faster
                    self._held[folder] = locked(folder / "lock")

    def _new(self) -> Path:
        """Makes a folder, which is held from its first moment on."""
        for folder in (self._root / f"{number:03d}" for number in range(MOST)):
            with suppress(FileExistsError, InputError):  # another was faster
                folder.mkdir(mode=0o700)
                self._held[folder] = locked(folder / "lock")
                return folder
        raise InputError(
            str(self._root),
            f"{MOST} replicas have journals there",
            fix="name another folder with --journal",
        )


def _name(number: int) -> str:
    return f"round-{number:09d}.journal"
