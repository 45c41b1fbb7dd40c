"""The journal of a round: what the server has taken, written and flushed before it counts, so that a restarted server has lost nothing.

    record: length u32 | crc32 of what follows u32 | kind, one byte | content

A record that was cut off or damaged ends the journal: what is before it is whole, what is after it was never acknowledged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

from ..core.files import sync_folder

RECORD = struct.Struct("<II")
FRAME, MARK = b"F", b"M"  # a frame that was taken; a decision of the server


class JournalRecord(NamedTuple):
    """One entry of a journal. kind: FRAME for an accepted message, MARK for a decision of the server."""

    kind: bytes
    content: bytes


@final
class Journal:
    """A file to which records are appended. A record is safe from a crash of process and machine when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        whole = sum(RECORD.size + 1 + len(record.content) for record in records(path)) if path.exists() else 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._whole = whole
        os.ftruncate(self._file, whole)
        sync_folder(path.parent)

    def append(self, kind: bytes, *contents: bytes) -> None:
        """Write a record of each content, whole, and wait for the disk once. After an OSError (a full disk, say) the journal is as it was
        before."""
        records = b"".join(_record(kind, content) for content in contents)
        rest = memoryview(records)
        try:
            if os.fstat(self._file).st_size != self._whole:  # a failed append that could not be cut off
                os.ftruncate(self._file, self._whole)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as cause:
            with suppress(OSError):
                os.ftruncate(self._file, self._whole)
            raise OSError(cause.errno, cause.strerror, str(self.path)) from None
        self._whole += len(records)

    def close(self) -> None:
        os.close(self._file)


def _record(kind: bytes, content: bytes) -> bytes:
    return b"".join((RECORD.pack(1 + len(content), zlib.crc32(content, zlib.crc32(kind))), kind, content))


def records(path: Path) -> Iterator[JournalRecord]:
    """The complete records of a journal file, in the order in which they were written."""
    content, at = path.read_bytes(), 0
    while at + RECORD.size < len(content):
        length, check = RECORD.unpack_from(content, at)
        said = content[at + RECORD.size : at + RECORD.size + length]
        if len(said) < length or length < 1 or zlib.crc32(said) != check:
            return
        yield JournalRecord(said[:1], said[1:])
        at += RECORD.size + length
