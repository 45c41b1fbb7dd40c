"""Shared helpers of the baselines: the error for a missing library, and linear algebra in one
thread.
"""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from ...core.errors import InputError


def need(module: str, name: str) -> ModuleType:
    """Returns the optional library `module`. Raises InputError, which says how to install it for
    baseline `name`, if it is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.split(".")[0]
        raise InputError(
            name, f"{library} is not installed", fix=f'pip install "entrenous[{library}]"'
        ) from None


def one_blas_thread() -> Any:
    """Returns a context with one BLAS thread: the same bits on any machine setting, and threads do
    not wait for each other. Without threadpoolctl, on which `implicit` and others depend, BLAS
    takes its default number of threads.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(1, "blas")
