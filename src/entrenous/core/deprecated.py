"""Names that go: docs/install.md says how long they stay."""

from __future__ import annotations

import warnings

from .errors import EntrenousDeprecation


def deprecated(old: str, new: str, *, gone: str, stacklevel: int = 2) -> None:
    """Warns that something still works and goes.

    old: what the user wrote. new: what to write instead, with the same result. gone: the version
    that no longer has it; a test fails once that version is reached. stacklevel: frames from this
    function to the caller of the user.

    >>> warnings.simplefilter("error")
    >>> deprecated("old=4", "new=4", gone="0.4.0")
    Traceback (most recent call last):
    entrenous.core.errors.EntrenousDeprecation: old=4 goes with version 0.4.0; use new=4
    """
    words = f"{old} goes with version {gone}; use {new}"
    warnings.warn(words, EntrenousDeprecation, stacklevel=stacklevel + 1)
