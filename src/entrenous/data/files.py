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
import re
import stat
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
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
ALSO = {".pq": ".parquet"}
JSON = (".json", ".jsonl", ".ndjson")
READABLE = (
    "CSV, TSV, Parquet, JSON lines, RecBole .inter, MovieLens :: and others (see entrenous data"
    " formats), plain or packed by gzip, bzip2, xz or zip"
)
# What else a file may hold than the text of a table.
CONTENTS = Path(__file__).with_name("contents.toml")
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


def read_table(path: Path, options: LoadOptions) -> ColumnTable:
    """Returns the table in a file. Raises InputError with the file, the line if it has one, and a
    fix.
    """
    file = unpacked(path)
    return _format(file, options).read(file, options)


def read_without_options(path: Path, expected: str) -> ColumnTable:
    """Returns the table in a file that is read in one way, so that an error names no option.
    expected: the form of the file, for errors.
    """
    try:
        return read_table(path, LoadOptions())
    except InputError as wrong:
        raise InputError(wrong.where, wrong.problem, expected=expected) from None


def unpacked(path: Path) -> RawFile:
    """Returns the content of a file, decompressed if it is packed. `ratings.csv.gz` holds a .csv.
    Raises InputError as `read_table` does, and for content of another type than the name says.
    """
    raw = read_bytes(path)
    if not raw:
        raise NoRows(
            str(path),
            "the file is empty",
            expected="a header and rows of user, item, value, time",
            fix="check the path, or get it again",
        )
    ending = _type_of(raw, path)
    file = RawFile(raw, str(path), path.name.lower())
    if ending not in PACKED:
        _check_name(file.ending, ending, path)
        return file
    if ending == ".zip":
        file = _unzip(raw, path)
    else:
        file = RawFile(_unpack(raw, path, ending), str(path), file.name.removesuffix(ending))
    inside = _type_of(file.content, path)
    if inside in PACKED:
        raise InputError(
            str(path),
            f"the content is packed twice, {inside} inside {ending}",
            expected=READABLE,
            fix="unpack it once",
        )
    _check_name(path.suffix.lower(), ending, path)
    _check_name(file.ending, inside, path)
    return file


def _type_of(raw: bytes, path: Path) -> str:
    """Returns the ending of the type of a content; "" for text. Raises InputError for content that
    no table can be read from.
    """
    for content in _contents():
        if re.match(content["begins"].encode(), raw[:HEAD], re.DOTALL) is None:
            continue
        if "ending" in content:
            return content["ending"]
        raise InputError(
            str(path),
            f"the content is {content['is']}",
            expected=READABLE,
            fix=content["fix"],
        )
    return ""


@cache
def _contents() -> list[dict[str, str]]:
    """Returns the entries of CONTENTS."""
    entries: list[dict[str, str]] = tomllib.loads(CONTENTS.read_text())["content"]
    return entries


def _check_name(said: str, ending: str, path: Path) -> None:
    """Raises InputError if a name says another type than the content has. said, ending: of both;
    a name without an ending says nothing.
    """
    said = ALSO.get(said, said)
    if said in ("", ending) or not (ending or said in (*PACKED, ".parquet")):
        return
    raise InputError(
        str(path),
        f"the name says {said}, the content is {ending or 'something else'}",
        expected=READABLE,
        fix=f"rename it to {path.name}{ending}" if ending else "rename it or get it again",
    )


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
        # What a shell gives a command: standard input as a pipe, or <(...).
        piped = stat.S_ISFIFO(about.st_mode) and re.match("/dev/(stdin|fd/)", str(path))
        if not stat.S_ISREG(about.st_mode) and not piped:
            kind = "a folder" if stat.S_ISDIR(about.st_mode) else "a pipe, socket or device"
            fix = "write the rows into a file, or check them with: ... | entrenous data check -"
            raise InputError(str(path), f"it is {kind}", expected="a regular file", fix=fix)
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
    # `Path` leaves one slash of two.
    if re.match(r"\w{2,}:/", str(path)):
        raise InputError(
            str(path).replace(":/", "://", 1),
            "it is an address, and addresses are not read",
            expected="a path to a file",
            fix="download the file first; of file://, give the path alone",
        ) from None
    if isinstance(wrong, FileNotFoundError):
        raise InputError(
            str(path),
            "no such file",
            expected="a path to a file",
            fix="check the path, or get what it links to (entrenous data list names the data sets)",
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


def _unpack(raw: bytes, path: Path, ending: str) -> bytes:
    """Returns the content of a compressed file. ending: that of its type."""
    try:
        with OPENERS[ending](io.BytesIO(raw)) as file:
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
PACKED = (*OPENERS, ".zip")
