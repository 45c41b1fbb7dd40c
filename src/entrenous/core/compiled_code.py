"""numba's part of `compiling`: the compiled form of a function, and its cache on disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from .errors import EntrenousWarning

NO_CACHE = (
    "compiled code cannot be kept, since neither the folder of the package nor the user's cache can"
    " be written to: each process compiles what it uses, which takes seconds; set NUMBA_CACHE_DIR"
    " to a folder that can be written to"
)


class KeptCode(FunctionCache):  # type: ignore[misc]  # numba has no types
    """numba's cache of one function, in which an entry that cannot be read counts as missing."""

    def _load_overload(self, *asked: Any) -> Any:
        """Returns the compiled code of some types; None, so that it is compiled anew, if there is
        none or it cannot be read.
        """
        try:
            return super()._load_overload(*asked)
        except Exception:
            # Entries are pickled: a class that was renamed since, or a damaged byte, may raise
            # anything.
            self._forget()
            return None

    def _forget(self) -> None:
        """Empties the cache of the function; leaves it alone where it cannot be written to."""
        try:
            self.flush()
        except OSError:
            self.disable()


def compiled(function: Callable[..., Any], *, cache: bool, **options: Any) -> Any:
    """Returns the compiled form of a function, as `compiling.njit` describes it."""
    try:
        made = numba.njit(cache=cache, **options)(function)
        # numba can be told to leave functions as they are, in a file of the user's too.
        if cache and isinstance(made, Dispatcher):
            made._cache = KeptCode(function)  # type: ignore[attr-defined]
        return made
    except RuntimeError as refused:
        if not cache or "cannot cache function" not in str(refused):
            raise
        _tell_that_nothing_is_kept()
        return numba.njit(**options)(function)


@once
def _tell_that_nothing_is_kept() -> None:
    """Warns once in a process; warnings of Python come again after each change of its filters."""
    warnings.warn(NO_CACHE, EntrenousWarning, stacklevel=5)


def compiled_functions(module: ModuleType) -> list[Dispatcher]:
    """Returns the compiled functions that a module defines, not those that it imports."""
    values = vars(module).values()
    dispatchers = [value for value in values if isinstance(value, Dispatcher)]
    return [each for each in dispatchers if each.py_func.__module__ == module.__name__]


def is_ready(function: Dispatcher) -> bool:
    """Tells whether numba's cache on disk has a compiled function, for some types."""
    folder = function.stats.cache_path
    if folder is None:
        return False
    # numba writes one index of compiled signatures for each function.
    stem = Path(function.py_func.__code__.co_filename).stem
    return any(Path(folder).glob(f"{stem}.{function.py_func.__qualname__}-*.nbi"))
