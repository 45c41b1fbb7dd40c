"""Shared helpers of the baselines: the type of vectors of items, the error for a missing library,
and linear algebra in one thread.
"""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from types import ModuleType
from typing import Annotated, Any, TypeAlias

from ...core.contract.declarations import axes
from ...core.errors import InputError
from ...core.types import Float32Array

# By its shape, `similar_items` finds the array.
ItemVectors: TypeAlias = Annotated[Float32Array, axes("items", "width")]


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
