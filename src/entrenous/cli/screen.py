"""The screen of a command: the package's log is shown on it, and another character in place of one
that it lacks.
"""

from __future__ import annotations

import codecs
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .console import say

# What our own texts have beyond ASCII, and what stands for it.
STAND_INS = {"↑": "^", "↓": "v", "±": "+-", "−": "-", "…": "...", "“": '"', "”": '"'}
HANDLER = "entrenous"


@contextmanager
def any_screen() -> Iterator[None]:
    r"""A context in which stdout and stderr write a character that their encoding lacks as an ASCII
    stand-in, or as `\u` and its number. The latter is said once, on stderr, at the end.
    """
    streams = list(_narrow_streams())
    if not streams:
        yield
        return
    missing: set[str] = set()

    def replaced(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        letters = []
        for letter in error.object[error.start : error.end]:
            if letter not in STAND_INS:
                missing.add(letter)
            letters.append(
                STAND_INS.get(letter) or letter.encode("ascii", "backslashreplace").decode()
            )
        return "".join(letters), error.end

    codecs.register_error(HANDLER, replaced)
    before = [stream.errors for stream in streams]
    for stream in streams:
        stream.reconfigure(errors=HANDLER)
    try:
        yield
    finally:
        for stream, errors in zip(streams, before, strict=True):
            stream.reconfigure(errors=errors)
        if missing:
            say(
                f"note: {streams[0].encoding} cannot show {len(missing)} of the characters above,"
                " which are written as \\u and their number; PYTHONIOENCODING=utf-8 writes them"
            )


class _OnScreen(logging.Handler):
    """Shows each line of a log on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def log_on_screen() -> Iterator[None]:
    """A context in which what the package logs, such as a download, is shown on stderr."""
    log = logging.getLogger("entrenous")
    handler, level = _OnScreen(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _narrow_streams() -> Iterator[io.TextIOWrapper]:
    """Yields stdout and stderr, each if its encoding has fewer characters than Unicode."""
    for stream in (sys.stdout, sys.stderr):
        # A notebook or a test may have put something else in its place.
        if isinstance(stream, io.TextIOWrapper) and not _is_unicode(stream.encoding):
            yield stream


def _is_unicode(encoding: str) -> bool:
    return codecs.lookup(encoding).name.startswith("utf")
