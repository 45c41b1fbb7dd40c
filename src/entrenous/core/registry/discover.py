"""Names to files: an algorithm, a data set, a split, a metric or an attack is one file, and adding
the file is enough.

Each such file carries a module constant that says what it offers; nothing is registered by import
order or by decorators. Installed packages add theirs by entry points (core/registry/plugins.py),
and an algorithm may be named by its place (core/registry/own.py).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, did_you_mean
from .plugins import plugged


@cache
def modules(package: str) -> dict[str, ModuleType]:
    """Returns the public modules of a package, such as `entrenous.evaluate.metrics`, by file name
    and in alphabetical order.
    """
    parent = importlib.import_module(package)
    infos = pkgutil.iter_modules(parent.__path__)
    names = sorted(info.name for info in infos if not info.ispkg and not info.name.startswith("_"))
    return {name: importlib.import_module(f"{package}.{name}") for name in names}


def offers(package: str, constant: str) -> dict[str, Any]:
    """Every entry of the dictionaries called `constant` in the modules of a package: {name:
    thing}.
    """
    found: dict[str, Any] = {}
    for module in modules(package).values():
        for name, thing in getattr(module, constant, {}).items():
            if name in found:
                raise ValueError(f"two files of {package} offer '{name}'")
            found[name] = thing
    return found


def offered(package: str, constant: str, name: str) -> Any:
    """What the modules of a package offer under a name, as `offers` has it, or None; without
    importing the modules that do not speak of it."""
    parent = importlib.import_module(package)
    for path in sorted(Path(parent.__path__[0]).glob("[!_]*.py")):
        if f'"{name}"' in path.read_text(encoding="utf-8"):
            found = getattr(importlib.import_module(f"{package}.{path.stem}"), constant, {})
            if name in found:
                return found[name]
    return None


def pick(kind: str, name: str, known: dict[str, Any]) -> Any:
    """Look up `known[name]`. Raises InputError that suggests the nearest name."""
    if name not in known:
        raise InputError(kind, f"unknown {kind} '{name}'", fix=did_you_mean(name, known))
    return known[name]


def with_plugins(group: str, own: dict[str, Any]) -> dict[str, Any]:
    """What files of this package offer, and what installed packages bring to `entrenous.GROUP`.
    Raises InputError for a name that is taken."""
    brought = plugged(group)
    if taken := own.keys() & brought.keys():
        raise InputError(
            f"entrenous.{group}",
            f"a package offers '{min(taken)}', which is taken",
            fix="rename it or remove the package",
        )
    return {**own, **brought}
