"""The part of a peer's store that training changes: the state of its node, its events, and the
records of peers that it has met.

The state is written before every push leaves. So a peer that dies continues from a state that
explains everything that others have received from it. The models that it has accepted since are
lost, but no other peer's state depends on them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from sqlite3 import Error
from typing import Any, final

import msgspec

from entrenous.core.errors import EntrenousError
from entrenous.core.types import Array

from ..node.node_store import NodeStore
from ..wire.tensors import Malformed, Schema, read, write
from .events import MESSAGE, PeerEvent
from .messages import AddressRecord

SEEN = 4096  # newest accepted models of which a peer refuses a copy after a restart


@final
class StateStore:
    """The part of a store that a peer's training changes. Use it from one thread at a time; other
    processes may read while one writes.
    """

    def __init__(self, store: NodeStore) -> None:
        self.path = store.path
        self._file = store.connection

    def save(
        self,
        arrays: Mapping[str, Array],
        first: int,
        events: Sequence[PeerEvent],
        about: Mapping[str, Any],
        met: Sequence[AddressRecord],
    ) -> None:
        """Stores a state, and the events that led to it since the last one, in one transaction.
        first: the number of the first event."""
        body = write(arrays)
        rows = [(number, *event) for number, event in enumerate(events, first)]
        records = [(record.number, msgspec.msgpack.encode(record)) for record in met]
        with self._file as file:
            file.executemany("insert into event values (?, ?, ?, ?, ?)", rows)
            # The digest finds a damaged file out before a peer goes on from made-up numbers.
            state = (body, hashlib.sha256(body).digest(), json.dumps(about))
            file.execute("insert or replace into peer values (1, ?, ?, ?)", state)
            # The peers that it knows now replace those that it had met before.
            file.execute("delete from met")
            file.executemany("insert into met values (?, ?)", records)

    def load(self, schema: Schema) -> dict[str, Array] | None:
        """Returns the arrays of the stored state; None if none was stored. Raises EntrenousError if
        it is damaged or has other arrays than `schema`.
        """
        row = self._one("select arrays, sha256 from peer")
        if row is None:
            return None
        body, sha256 = row
        try:
            if hashlib.sha256(body).digest() != sha256:
                raise Malformed("size", "its content does not match its sha256")
            return read(body, schema)
        except Malformed as cause:
            fix = "restore the folder from a backup, or join anew"
            raise EntrenousError(
                f"{self.path}: the state cannot be read ({cause}); {fix}"
            ) from None

    def about(self) -> dict[str, Any]:
        """Returns the stored summary for people (counts, hit rate), without reading the arrays."""
        row = self._one("select about from peer")
        if row is None:
            return {}
        return dict(json.loads(row[0]))

    def events(self) -> list[PeerEvent]:
        """Returns all stored events in the order in which they happened."""
        rows = self._all("select kind, sender, push, digest from event order by number")
        return [PeerEvent(*row) for row in rows]

    def taken(self) -> list[tuple[int, int, bytes]]:
        """Returns the newest models that were accepted, as (sender, push, digest), oldest
        first."""
        rows = self._all(
            f"select sender, push, digest from event where kind = {MESSAGE} order by number desc"
            f" limit {SEEN}"
        )
        return [(int(sender), int(push), bytes(sha)) for sender, push, sha in reversed(rows)]

    def met(self) -> list[AddressRecord]:
        """Returns the stored records of other peers, by which to reach them after a restart."""
        rows = self._all("select record from met")
        return [msgspec.msgpack.decode(record, type=AddressRecord) for (record,) in rows]

    def _one(self, query: str) -> Any:
        rows = self._all(query)
        return rows[0] if rows else None

    def _all(self, query: str) -> list[Any]:
        try:
            return self._file.execute(query).fetchall()
        except Error as cause:
            raise EntrenousError(
                f"{self.path}: cannot be read ({cause}); restore the folder from a backup"
            ) from None
