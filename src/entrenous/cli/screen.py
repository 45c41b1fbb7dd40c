"""The screen of a command: the package's log is shown on it, and no character ends the command."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .console import say


@contextmanager
def any_screen() -> Iterator[None]:
    r"""A context in which stdout writes a character that its encoding lacks as `\u` and its number,
    as stderr always does.
    """
    screen = sys.stdout
    # A notebook or a test may have put something else in its place.
    if not isinstance(screen, io.TextIOWrapper):
        yield
        return
    before = screen.errors
    screen.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        screen.reconfigure(errors=before)


class _OnScreen(logging.Handler):
    """Shows each line of a log on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def log_on_screen() -> Iterator[None]:
    """A context in which what the package logs, such as a download, is shown on stderr."""
    log = logging.getLogger("entrenous")
    handler = _OnScreen()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
