"""The journal of a round: each answer that the server takes is written and flushed before it
counts, so that a restarted server has lost nothing.

    file:    head | record | record | ...
    head:    MAGIC, 4 bytes | mark, 16 bytes | crc32 of both, u32
    record:  mark | length of the content, u32 | kind, one byte | crc32 of those three, u32
             | content | crc32 of all before it, u32

The mark is drawn at random for each journal. Nobody who sends a frame knows the mark, so no frame
can contain bytes that look like a record. A damaged record is skipped up to the next mark: the
records after it are read all the same, and `read` tells what is missing. An append that a crash has
cut short was never acknowledged: it is no damage, and the next append writes over it.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

from entrenous.core.files import sync_folder

MAGIC = b"ejl2"
MARK_BYTES = 16
CRC = struct.Struct("<I")
HEAD_BYTES = len(MAGIC) + MARK_BYTES + CRC.size
ABOUT = struct.Struct(f"<{MARK_BYTES}sIc")  # mark, length, kind
BEFORE = ABOUT.size + CRC.size  # bytes of a record before its content
AROUND = BEFORE + CRC.size  # bytes of a record beside its content
DAMAGED = ".damaged"  # ends the name of a journal in which nothing can be read
# A frame that was taken; a decision of the server.
FRAME = b"F"
MARK = b"M"


class JournalRecord(NamedTuple):
    """One entry of a journal."""

    kind: bytes
    """FRAME for an accepted message, MARK for a decision of the server."""
    content: bytes


class JournalContent(NamedTuple):
    """The content of a journal."""

    records: list[JournalRecord]
    """Records in the order in which they were written."""
    damaged: list[str]
    """A line for each place that could not be read."""
    mark: bytes
    """The mark; b"" where it cannot be read."""
    whole: int
    """Bytes without an append that was cut short."""


@final
class Journal:
    """A file to which records are appended. A record is safe from a crash of process and machine
    when `append` or `flush` returns.

    A journal in which nothing can be read is put aside under another name, and begun anew. damaged:
    as in `JournalContent`, at the moment when the journal was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        content = read(path) if path.exists() else JournalContent([], [], b"", 0)
        self.damaged = content.damaged
        if content.damaged and not content.mark:
            os.replace(path, path.with_name(f"{path.name}{DAMAGED}"))
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._mark = content.mark or secrets.token_bytes(MARK_BYTES)
        self._whole = content.whole
        self._waiting: list[bytes] = []  # records that are not on the disk
        os.ftruncate(self._file, self._whole)
        sync_folder(path.parent)

    def append(self, kind: bytes, *contents: bytes) -> None:
        """Writes a record of each content, whole, and waits for the disk once, as `flush` does.
        After an OSError, such as that of a full disk, the journal is as it was before.
        """
        before = len(self._waiting)
        self.add(kind, *contents)
        try:
            self.flush()
        except OSError:
            del self._waiting[before:]
            raise

    def add(self, kind: bytes, *contents: bytes) -> None:
        """Has a record of each content wait for the next `flush` or `append`."""
        for content in contents:
            self._waiting.append(_record(self._mark, kind, content))

    def flush(self) -> None:
        """Writes the records that wait, and waits for the disk once. After an OSError they wait
        on.
        """
        if not self._waiting:
            return
        head = b"" if self._whole else _head(self._mark)
        records = head + b"".join(self._waiting)
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
        self._waiting.clear()

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> JournalContent:
    """Reads a journal file: all records that are whole, and the places that are damaged."""
    content = path.read_bytes()
    # The first append was cut short.
    if len(content) < HEAD_BYTES:
        return JournalContent([], [], b"", 0)
    mark = content[len(MAGIC) : HEAD_BYTES - CRC.size]
    damaged: list[str] = []
    if content[:HEAD_BYTES] != _head(mark):
        mark = _mark_by_records(content)
        damaged.append(f"{path.name}: its head is damaged")
    if not mark:
        return JournalContent([], [f"{path.name}: nothing in it can be read"], b"", 0)
    records: list[JournalRecord] = []
    whole = HEAD_BYTES
    for piece in _pieces(content, mark):
        whole = piece.end
        if piece.record is not None:
            records.append(piece.record)
            continue
        size = piece.end - piece.begin
        where = f"{size} bytes from byte {piece.begin} on, behind record {len(records)}"
        damaged.append(f"{path.name}: {where}, are damaged")
    return JournalContent(records, damaged, mark, whole)


def _head(mark: bytes) -> bytes:
    return MAGIC + mark + CRC.pack(zlib.crc32(MAGIC + mark))


def _record(mark: bytes, kind: bytes, content: bytes) -> bytes:
    about = ABOUT.pack(mark, len(content), kind)
    check = CRC.pack(zlib.crc32(about))
    last = CRC.pack(zlib.crc32(content, zlib.crc32(about + check)))
    return b"".join((about, check, content, last))


def _mark_by_records(content: bytes) -> bytes:
    """Returns the mark of a journal whose head is damaged: that of the head or that of the first
    record, if a record can be read by it; else b"".
    """
    candidates = [
        content[len(MAGIC) : HEAD_BYTES - CRC.size],
        content[HEAD_BYTES : HEAD_BYTES + MARK_BYTES],
    ]
    for mark in candidates:
        if any(piece.record is not None for piece in _pieces(content, mark)):
            return mark
    return b""


class _Piece(NamedTuple):
    """A part of a journal."""

    begin: int
    """The first byte."""
    end: int
    """The byte behind the last one."""
    record: JournalRecord | None
    """None where the part is damaged."""


def _pieces(content: bytes, mark: bytes) -> Iterator[_Piece]:
    """Yields the parts of a journal behind its head, without an append at its end that was cut
    short.
    """
    at = HEAD_BYTES
    while at < len(content):
        length = _length(content, at, mark)
        end = at + AROUND + length
        # Cut short in the content.
        if length >= 0 and end > len(content):
            return
        record = None
        if length >= 0:
            record = _whole(content, at, end)
        if record is None:
            after = content.find(mark, at + 1)
            end = after if after >= 0 else len(content)
            is_short = end == len(content) and end - at < BEFORE
            # Cut short in the midst of a mark, or just behind it.
            if length < 0 and is_short and mark.startswith(content[at : at + MARK_BYTES]):
                return
        yield _Piece(at, end, record)
        at = end


def _length(content: bytes, at: int, mark: bytes) -> int:
    """Returns the length of the content of the record that begins at a byte; -1 where no record
    begins that can be read.
    """
    about = content[at : at + ABOUT.size]
    check = content[at + ABOUT.size : at + BEFORE]
    if len(check) < CRC.size or not about.startswith(mark):
        return -1
    if CRC.unpack(check)[0] != zlib.crc32(about):
        return -1
    _, length, _ = ABOUT.unpack(about)
    return int(length)


def _whole(content: bytes, at: int, end: int) -> JournalRecord | None:
    """Returns the record between two bytes; None where it is damaged."""
    checked = memoryview(content)[at : end - CRC.size]
    if zlib.crc32(checked) != CRC.unpack_from(content, end - CRC.size)[0]:
        return None
    kind = bytes(checked[ABOUT.size - 1 : ABOUT.size])
    return JournalRecord(kind, bytes(checked[BEFORE:]))
