"""Helpers that the baselines share: which rows count as consumed, the error for a missing library,
and linear algebra in one thread.
"""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from ...core.errors import InputError
from ...data.interactions import Interactions


def consumed(data: Interactions) -> Interactions:
    """The rows with a value above 0, which implicit feedback counts as consumed."""
    keep = data.value > 0
    return data if bool(keep.all()) else data.select(keep)


def need(module: str, name: str) -> ModuleType:
    """The optional library `module`, or an InputError that says how baseline `name` gets it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.split(".")[0]
        raise InputError(
            name, f"{library} is not installed", fix=f'pip install "entrenous[{library}]"'
        ) from None


def one_blas_thread() -> Any:
    """A context with one BLAS thread: the same bits on any machine setting, and threads do not wait
    for each other. Without threadpoolctl, on which `implicit` and others depend, as many threads as
    BLAS takes by itself.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(1, "blas")
