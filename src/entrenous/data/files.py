"""A path to a table, by the format that recognises the file. Each file of `formats/` offers one or
more in its FORMATS.

Only a regular file of bounded size is read, and a file whose name does not fit its content is
refused.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, NoReturn, cast, final

from ..core.errors import InputError
from ..core.registry.discover import offered, pick, with_plugins
from .options import LoadOptions
from .table import ColumnTable, NoRows

# Bytes in a file, also after decompression.
LIMIT = 4 << 30
# A file that grows more than this when it is decompressed, beyond FLOOR bytes, is a bomb.
RATIO = 100
FLOOR = 64 << 20
# Further endings of types that have a usual one.
ALSO = {".parquet": (".pq",)}
JSON = (".json", ".jsonl", ".ndjson")
# Types that people try, refused by name.
OTHERS = (
    ".xlsx",
    ".xls",
    ".ods",
    ".pkl",
    ".pickle",
    ".feather",
    ".arrow",
    ".avro",
    ".orc",
    ".npy",
    ".npz",
    ".h5",
    ".hdf5",
    ".hdf",
    ".mat",
    ".db",
    ".sqlite",
    ".tar",
    ".tgz",
    ".7z",
    ".rar",
    ".zst",
    ".pdf",
)
READABLE = (
    "CSV, TSV, Parquet, JSON lines, RecBole .inter, MovieLens :: and others (see entrenous data"
    " formats), plain or as .gz, .bz2, .xz, .zip"
)
# How the bytes of a type begin, its name, and its ending; "" for a type that is not read.
MAGIC = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"BZh", "bzip2", ".bz2"),
    (b"\xfd7zXZ\x00", "xz", ".xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ""),
    (b"PK\x03\x04", "zip", ".zip"),
    (b"PAR1", "Parquet", ".parquet"),
    (b"SQLite format 3\x00", "SQLite", ""),
    (b"\x89HDF", "HDF5", ""),
    (b"%PDF", "PDF", ""),
)
# Bytes by which a format is recognised.
HEAD = 1 << 16
# The package of the formats, and the one of a file that no other recognises.
FORMATS = "entrenous.data.formats"
TEXT = "text"


@final
class RawFile(NamedTuple):
    """The content of a file after decompression."""

    content: bytes
    """All bytes."""
    source: str
    """The path, for errors."""
    name: str
    """The name of the file in lower case, without the ending of a compression."""

    @property
    def ending(self) -> str:
        """The last ending of the name, such as ".csv"; "" without one."""
        stem, dot, ending = self.name.rpartition(".")
        return dot + ending if stem else ""


@final
class Format(NamedTuple):
    """A format of files."""

    summary: str
    """The form of the file, one line."""
    recognises: Callable[[bytes, str], bool]
    """Tells from the first bytes of a file, in UTF-8, and its name whether it has this format."""
    read: Callable[[RawFile, LoadOptions], ColumnTable]
    """Returns the table in the file. Raises InputError with the line of the first defect."""


def first_lines(head: bytes, most: int) -> list[bytes]:
    """Returns up to `most` whole lines of the first bytes of a file, without their line ends. A
    last line that has no line end counts only if it is the only one.
    """
    lines = head.split(b"\n", most)
    whole = lines[:-1] or lines
    return [line.rstrip(b"\r") for line in whole[:most]]


def read_table(path: Path, options: LoadOptions) -> ColumnTable:
    """Returns the table in a file. Raises InputError with the file, the line if it has one, and a
    fix.
    """
    file = unpacked(path)
    return _format(file, options).read(file, options)


def _refuse_others(path: Path, ending: str) -> None:
    if ending in OTHERS:
        raise InputError(
            str(path),
            f"files of type {ending} are not read",
            expected=READABLE,
            fix="convert it",
        )


def read_without_options(path: Path, expected: str) -> ColumnTable:
    """Returns the table in a file that is read in one way, so that an error names no option.
    expected: the form of the file, for errors.
    """
    try:
        return read_table(path, LoadOptions())
    except InputError as wrong:
        raise InputError(wrong.where, wrong.problem, expected=expected) from None


def unpacked(path: Path) -> RawFile:
    """Returns the content of a file, decompressed if its ending says so. `ratings.csv.gz` holds a
    .csv. Raises InputError as `read_table` does.
    """
    kind = path.suffix.lower()
    _refuse_others(path, kind)
    raw = read_bytes(path)
    if not raw:
        raise NoRows(
            str(path),
            "the file is empty",
            expected="a header and rows of user, item, value, time",
            fix="check the path, or get it again",
        )
    _check_magic(raw, path, kind)
    name = path.name.lower()
    if kind == ".zip":
        file = _unzip(raw, path)
    elif kind in OPENERS:
        file = RawFile(_unpack(raw, path), str(path), name.removesuffix(kind))
    else:
        return RawFile(raw, str(path), name)
    _refuse_others(path, file.ending)
    return file


def formats() -> dict[str, Format]:
    """Returns every format of files by name: those of data/formats and those of installed packages
    (`entrenous.formats`).
    """
    return with_plugins("formats", "FORMATS", FORMATS)


def _format(file: RawFile, options: LoadOptions) -> Format:
    """Returns the format that the user named, or that recognises the content. Raises InputError if
    the name of the file says JSON and the content is something else.
    """
    if options.format is not None:
        return pick("format", options.format, formats())
    # Without the byte order mark, which some encodings leave in place.
    decoded = file.content[:HEAD].decode(options.encoding, "replace").removeprefix("\ufeff")
    head = decoded.encode("utf-8", "replace")
    # Asked first, since most files are text with a header, which needs no other format.
    text: Format = offered(FORMATS, "FORMATS", TEXT)
    if file.ending not in JSON and text.recognises(head, file.name):
        return text
    for name, form in formats().items():
        if name != TEXT and form.recognises(head, file.name):
            return form
    if file.ending in JSON:
        raise InputError(
            f"{file.source}:1",
            f"the name says JSON ({file.ending}), the content is not",
            expected="one object in each line",
            fix="rename it, or get it again",
        )
    return text


def read_bytes(path: Path) -> bytes:
    """Returns the bytes of a regular file of at most LIMIT bytes. Raises InputError for anything
    else, before reading it could block.
    """
    try:
        # Asked before opening: to open a pipe waits for its writer.
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            kind = "a folder" if stat.S_ISDIR(about.st_mode) else "a pipe, socket or device"
            raise InputError(str(path), f"it is {kind}", expected="a regular file")
        if about.st_size > LIMIT:
            _refuse_size(str(path), LIMIT)
        with open(path, "rb") as file:
            # Files of /proc have a size of 0 and content all the same.
            if about.st_size:
                return file.read()
            return _bounded(file, LIMIT, str(path))
    except OSError as wrong:
        _refuse_os(path, wrong)
    except (ValueError, MemoryError) as wrong:
        raise InputError(
            str(path), f"cannot be read: {wrong}", expected="a file that fits in memory"
        ) from None


def _refuse_os(path: Path, wrong: OSError) -> NoReturn:
    if isinstance(wrong, FileNotFoundError):
        raise InputError(
            str(path),
            "no such file",
            expected="a path to a file",
            fix="check the path (entrenous data list names the data sets)",
        ) from None
    fix = "check the permissions" if isinstance(wrong, PermissionError) else "check the path"
    raise InputError(
        str(path),
        f"cannot be read: {(wrong.strerror or str(wrong)).lower()}",
        expected="a file you may read",
        fix=fix,
    ) from None


def _bounded(file: IO[bytes], limit: int, where: str) -> bytes:
    """Returns the content of a file whose size is not known. Raises InputError beyond `limit`
    bytes.
    """
    pieces = []
    size = 0
    # In pieces, so that a bomb is noticed before it fills the memory.
    while piece := file.read(1 << 24):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            _refuse_size(where, limit)
    return b"".join(pieces)


def _refuse_size(where: str, limit: int) -> NoReturn:
    raise InputError(
        where,
        f"it holds more than {limit:,} bytes",
        expected="a smaller file",
        fix="check what it is, or split it",
    )


def _check_magic(raw: bytes, path: Path, suffix: str) -> None:
    """Raises InputError if the first bytes of a file and its ending name different types."""
    for magic, name, usual in MAGIC:
        if raw.startswith(magic):
            if suffix == usual or suffix in ALSO.get(usual, ()):
                return
            # `ratings.csv` that is gzip becomes `ratings.csv.gz`; a wrong ending is replaced.
            if usual == ".zip" or usual in OPENERS:
                fix = f"rename it to {path.name}{usual}"
            elif usual:
                fix = f"rename it to {path.stem}{usual}"
            else:
                fix = "convert it"
            raise InputError(
                str(path),
                f"the content is {name}, the name says {suffix or 'nothing'}",
                expected=READABLE,
                fix=fix,
            )
        if suffix and (suffix == usual or suffix in ALSO.get(usual, ())):
            raise InputError(
                str(path),
                f"the name says {name}, the content is not",
                expected=f"a {name} file",
                fix="rename it or get it again",
            )


def _unpack(raw: bytes, path: Path) -> bytes:
    """Returns the content of a compressed file, of which the ending tells the kind."""
    try:
        with OPENERS[path.suffix.lower()](io.BytesIO(raw)) as file:
            return _bounded(file, _limit(raw), str(path))
    except InputError:
        raise
    # A damaged stream raises EOFError, OSError, zlib.error, LZMAError, ...
    except Exception as wrong:
        problem = f"the compressed file is damaged ({wrong})"
        if isinstance(wrong, EOFError):
            problem = "the compressed file is cut off"
        raise InputError(str(path), problem, expected="a whole file", fix="get it again") from None


def _limit(raw: bytes) -> int:
    """Returns the most bytes that a compressed file may hold."""
    return min(LIMIT, max(FLOOR, RATIO * len(raw)))


def _unzip(raw: bytes, path: Path) -> RawFile:
    """Returns the only file in a zip archive. Nothing is unpacked to disk, and an archive with a
    member that points outside is refused.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            member = _only_member(archive, path)
            with archive.open(member) as file:
                content = _bounded(file, _limit(raw), f"{path}/{member}")
        return RawFile(content, str(path), PurePosixPath(member).name.lower())
    except InputError:
        raise
    # zipfile raises a dozen kinds for damaged archives.
    except Exception as wrong:
        raise InputError(
            str(path),
            f"the zip file is damaged ({wrong})",
            expected="a whole zip file",
            fix="get it again",
        ) from None


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    names = [
        info.filename
        for info in archive.infolist()
        # A Mac adds files about the files.
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    # Nobody meant well with such a name, whichever member has it.
    for name in archive.namelist():
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in name:
            raise InputError(
                str(path),
                f"member '{name}' points outside the archive",
                expected="plain file names",
                fix="do not trust this file",
            )
    if len(names) != 1:
        raise InputError(
            str(path),
            f"the archive holds {len(names)} files",
            expected="one file",
            fix="unpack it and name the file you mean",
        )
    return names[0]


# What opens a stream of each ending.
OPENERS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda file: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}
