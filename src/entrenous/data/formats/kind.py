"""`Format`: a format of files as a declaration. Each file beside this one offers one or more in its
FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from ..options import LoadOptions
from ..table import ColumnTable


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
