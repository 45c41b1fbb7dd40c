"""What a peer keeps on its disk, in one SQLite file: the state of its node, whole or not at all; its events; whom it has met.

The state is written before every push leaves. So a peer that dies goes on from a state that explains all that others have of it; models
that it took since are lost, and nobody else's state depends on them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import msgspec

from ...core.errors import EntrenousError
from ...core.types import Array
from ...federation.replay import MESSAGE, PeerEvent
from ...wire.tensors import Malformed, Schema, read, write
from .frames import AddressRecord

TABLES = """
CREATE TABLE IF NOT EXISTS node (id INTEGER PRIMARY KEY CHECK (id = 0), arrays BLOB NOT NULL, sha256 BLOB NOT NULL, about TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY, kind INTEGER, sender INTEGER, push INTEGER, digest BLOB);
CREATE TABLE IF NOT EXISTS record (number INTEGER PRIMARY KEY, record BLOB NOT NULL);
"""
SEEN = 4096  # events, the newest, by which a peer knows what it has taken already


class SavedPeerState(NamedTuple):
    """A state read from the disk. about: the summary shown to people."""

    arrays: dict[str, Array]
    about: dict[str, Any]


@final
class Keeping:
    """The open SQLite file of one peer's state. Use it from one thread at a time; other processes may read while one writes."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self.path = path
        try:
            if reading:
                self._file = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5, check_same_thread=False)
                return
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # before SQLite does: what it puts beside it has its mode
            path.chmod(0o600)
            self._file = sqlite3.connect(path, timeout=5, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(TABLES)
        except (sqlite3.Error, OSError) as cause:
            raise EntrenousError(f"{path}: cannot be opened ({cause}); expected the state of a peer") from None

    def close(self) -> None:
        """Close the file. Everything saved is on the disk already."""
        self._file.close()

    def save(
        self,
        arrays: Mapping[str, Array],
        first: int,
        events: Sequence[PeerEvent],
        about: Mapping[str, Any],
        met: Sequence[AddressRecord],
    ) -> None:
        """Store a state, and the events that led to it since the last one, in one transaction. first: the number of the first
        event."""
        body = write(arrays)
        with self._file as file:
            rows = [(first + n, e.kind, e.sender, e.push, e.digest) for n, e in enumerate(events)]
            file.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)
            state = (body, hashlib.sha256(body).digest(), json.dumps(about))
            file.execute("INSERT OR REPLACE INTO node VALUES (0, ?, ?, ?)", state)
            file.execute("DELETE FROM record")
            file.executemany("INSERT INTO record VALUES (?, ?)", [(r.number, msgspec.msgpack.encode(r)) for r in met])

    def load(self, schema: Schema) -> SavedPeerState | None:
        """The stored state; None if none was stored. Raises EntrenousError if it is damaged or has other arrays than `schema`."""
        row = self._one("SELECT arrays, sha256, about FROM node")
        if row is None:
            return None
        body, sha256, about = row
        try:
            if hashlib.sha256(body).digest() != sha256:
                raise Malformed("size", "its content does not match its sha256")
            return SavedPeerState(read(body, schema), json.loads(about))
        except (Malformed, ValueError) as cause:
            fix = "restore the folder from a backup, or delete state.sqlite to begin anew"
            raise EntrenousError(f"{self.path}: the state cannot be read ({cause}); {fix}") from None

    def about(self) -> dict[str, Any]:
        """The stored summary for people (counts, hit rate), without reading the arrays."""
        row = self._one("SELECT about FROM node")
        return {} if row is None else dict(json.loads(row[0]))

    def events(self) -> list[PeerEvent]:
        """All stored events in the order in which they happened."""
        return [PeerEvent(*row) for row in self._all("SELECT kind, sender, push, digest FROM event ORDER BY number")]

    def taken(self) -> list[tuple[int, int, bytes]]:
        """The newest models that were accepted, as (sender, push, digest), oldest first."""
        found = self._all(f"SELECT sender, push, digest FROM event WHERE kind = {MESSAGE} ORDER BY number DESC LIMIT {SEEN}")
        return [(int(sender), int(push), bytes(sha)) for sender, push, sha in reversed(found)]

    def met(self) -> list[AddressRecord]:
        """The stored records of other peers, by which to reach them after a restart."""
        return [msgspec.msgpack.decode(row[0], type=AddressRecord) for row in self._all("SELECT record FROM record")]

    def _one(self, query: str) -> Any:
        found = self._all(query)
        return found[0] if found else None

    def _all(self, query: str) -> list[Any]:
        try:
            return self._file.execute(query).fetchall()
        except sqlite3.Error as cause:
            if "no such table" in str(cause):
                return []
            raise EntrenousError(f"{self.path}: cannot be read ({cause}); restore the folder from a backup") from None
