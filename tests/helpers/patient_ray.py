"""A Ray of this machine, which may start slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from entrenous.core.errors import InputError

T = TypeVar("T")
TRIES = 5


@contextmanager
def patiently(begun: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """Enters a context that starts Ray, and tries again where that took longer than Ray's own limit
    of 30 seconds, which nothing changes.
    """
    with ExitStack() as stack:
        for tried in range(1, TRIES + 1):
            try:
                started = stack.enter_context(begun())
                break
            except InputError:
                if tried == TRIES:
                    raise
        yield started
