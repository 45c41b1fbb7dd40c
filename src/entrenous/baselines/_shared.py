"""Helpers that the baselines share: which rows count as consumed, and the error for a missing library."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..core.errors import InputError
from ..data.interactions import Interactions


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
        raise InputError(name, f"{library} is not installed", fix=f'pip install "entrenous[{library}]"') from None
