"""The journal of a round: each answer that the server takes is written and flushed before it
counts, so that a restarted server has lost nothing.

    file:    record | record | ...
    record:  length of the content, u32 | crc32 of it, u32 | content | crc32 of all before it, u32

A journal is read up to the first record that is damaged. Whatever follows is asked for again, and
nodes answer with the same bytes; a secure sum is lost instead. An append that a crash has cut short
was never acknowledged: it is no damage, and the next append writes over it.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

from entrenous.core.files import sync_folder

NUMBER = struct.Struct("<I")  # a length, or a checksum
BEFORE = 2 * NUMBER.size  # bytes of a record before its content
AROUND = BEFORE + NUMBER.size  # bytes of a record beside its content
DAMAGED = ".damaged"  # ends the name of a journal of which a part cannot be read


class JournalContent(NamedTuple):
    """The content of a journal."""

    records: list[bytes]
    """The contents of records in the order in which they were written."""
    whole: int
    """The bytes of these records."""
    damaged: bool
    """True if what follows is no append that was cut short."""


@final
class Journal:
    """A file to which records are appended. A record is safe from a crash of process and machine
    when `append` returns.

    A damaged journal is put aside under another name, and its whole records are written anew.
    damaged: True if that has happened, now or before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read(path)
        aside = path.with_name(f"{path.name}{DAMAGED}")
        self._whole = content.whole
        if content.damaged:
            os.replace(path, aside)
            self._whole = 0
        self.damaged = aside.exists()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._file, self._whole)
        sync_folder(path.parent)
        if content.damaged:
            self.append(*content.records)

    def append(self, *contents: bytes) -> None:
        """Writes a record of each content, whole, and waits for the disk once. After an OSError,
        such as that of a full disk, the journal is as it was before.
        """
        if not contents:
            return
        records = b"".join(_record(content) for content in contents)
        rest = memoryview(records)
        try:
            # A failed append may be there that could not be cut off.
            if os.fstat(self._file).st_size != self._whole:
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


def read(path: Path) -> JournalContent:
    """Reads a journal up to the first record that is not whole. One that is not there is empty."""
    content = path.read_bytes() if path.exists() else b""
    records: list[bytes] = []
    at = 0
    while len(content) - at >= BEFORE:
        start = content[at : at + NUMBER.size]
        # By its own checksum a wrong length is told from an append that was cut short.
        if _check(start) != content[at + NUMBER.size : at + BEFORE]:
            return JournalContent(records, at, True)
        (length,) = NUMBER.unpack(start)
        end = at + AROUND + length
        if end > len(content):
            break
        last = end - NUMBER.size
        if _check(memoryview(content)[at:last]) != content[last:end]:
            return JournalContent(records, at, True)
        records.append(content[at + BEFORE : last])
        at = end
    return JournalContent(records, at, False)


def _record(content: bytes) -> bytes:
    start = NUMBER.pack(len(content))
    record = b"".join((start, _check(start), content))
    return record + _check(record)


def _check(content: bytes | memoryview) -> bytes:
    """Returns the checksum of some bytes, as it stands behind them."""
    return NUMBER.pack(zlib.crc32(content))
