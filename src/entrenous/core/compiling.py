"""Compilation of device code by numba, where it is installed. Elsewhere the same functions run as
plain Python, with the same bits: slowly, but fast enough for the device of one person.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache as once
from importlib.util import find_spec
from typing import Any

from .errors import EntrenousWarning

INSTALLED = find_spec("numba") is not None
# False under NUMBA_DISABLE_JIT=1 too; numba is not loaded then.
COMPILES = INSTALLED and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
UNCOMPILED = (
    "numba is not installed: device code runs uncompiled, with the same results, fast enough for"
    " the device of one person; for more, pip install numba"
)


def njit(*, cache: bool, **options: Any) -> Any:
    """Returns numba's decorator `njit`; where nothing is compiled, one that leaves functions as
    they are. Without a place for numba's cache, compiled code is kept in memory, of which an
    EntrenousWarning tells once. What the cache has and cannot be read is compiled anew.

    cache: True keeps compiled code on disk for the next process. options: those of `numba.njit`.
    """

    def decorated(function: Callable[..., Any]) -> Any:
        if not COMPILES:
            return function
        from .compiled_code import compiled

        return compiled(function, cache=cache, **options)

    return decorated


def also_compiled(function: Callable[..., Any]) -> Any:
    """Lets compiled code call a function, which is inlined there, and leaves it plain Python to
    everybody else.
    """
    if not COMPILES:
        return function
    from numba.extending import register_jitable

    return register_jitable(inline="always")(function)


@once
def warn_if_slow() -> None:
    """Warns (EntrenousWarning), once in a process that is to train many devices, if numba is not
    installed.
    """
    if not INSTALLED:
        warnings.warn(UNCOMPILED, EntrenousWarning, stacklevel=3)
