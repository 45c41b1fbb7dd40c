"""Names to files: an algorithm, a data set, a split, a metric or an experiment is one file, and adding the file is enough.

Each such file carries a module constant that says what it offers; nothing is registered by import order or by decorators.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any

from .errors import InputError, did_you_mean


@cache
def modules(package: str) -> dict[str, ModuleType]:
    """The public modules of `entrenous.<package>` by file name, in alphabetical order."""
    parent = importlib.import_module(f"entrenous.{package}")
    found = sorted(info.name for info in pkgutil.iter_modules(parent.__path__) if not info.name.startswith("_"))
    return {name: importlib.import_module(f"entrenous.{package}.{name}") for name in found}


def offers(package: str, constant: str) -> dict[str, Any]:
    """Every entry of the dictionaries called `constant` in the modules of a package: {name: thing}."""
    found: dict[str, Any] = {}
    for module in modules(package).values():
        for name, thing in getattr(module, constant, {}).items():
            if name in found:
                raise ValueError(f"two files of entrenous.{package} offer '{name}'")
            found[name] = thing
    return found


def pick(kind: str, name: str, known: dict[str, Any]) -> Any:
    """Look up `known[name]`. Raises InputError that suggests the nearest name."""
    if name not in known:
        raise InputError(kind, f"unknown {kind} '{name}'", fix=did_you_mean(name, known))
    return known[name]


def algorithms() -> dict[str, Any]:
    """{name: callable(**settings) -> algorithm}: the ALGORITHMS of every file in `algorithms/` and `baselines/`."""
    return {**offers("algorithms", "ALGORITHMS"), **offers("baselines", "ALGORITHMS")}
