"""Names to files: an algorithm, a data set, a split, a metric or an attack is one file, and adding
the file is enough.

Each such file has a module constant, a dictionary of what it offers; nothing is registered by
import order or by decorators. Installed packages add theirs by entry points
(core/registry/plugins.py), and an algorithm may be named by its place (core/registry/own.py).
"""

from __future__ import annotations

import ast
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
    """Returns the entries of all dictionaries called `constant` in the modules of a package.

    Raises ValueError if two modules offer one name.
    """
    things: dict[str, Any] = {}
    for module in modules(package).values():
        for name, thing in getattr(module, constant, {}).items():
            if name in things:
                raise ValueError(f"two files of {package} offer '{name}'")
            things[name] = thing
    return things


@cache
def offered(package: str, constant: str, name: str) -> Any:
    """Returns the one entry `name` of `offers`, or None. Imports only the module that has it."""
    # Kept, since each node of a federation asks for its algorithm, in threads too: CPython 3.11 may
    # fail to parse in several threads at once ("AST constructor recursion depth mismatch").
    parent = importlib.import_module(package)
    for path in sorted(Path(parent.__path__[0]).glob("[!_]*.py")):
        if name in names_offered(path, constant):
            module = importlib.import_module(f"{package}.{path.stem}")
            return getattr(module, constant)[name]
    return None


def names_offered(path: Path, constant: str) -> list[str]:
    """Returns the keys of the dictionary that a module assigns to `constant`, read from its source.

    The module is not imported, and only its last part is parsed: a module lists what it offers in
    one literal dictionary, behind everything that it defines.
    """
    _, assigned, rest = path.read_text(encoding="utf-8").partition(f"\n{constant} = ")
    if not assigned:
        return []
    table = ast.parse(rest).body[0]
    if not isinstance(table, ast.Expr) or not isinstance(table.value, ast.Dict):
        raise ValueError(f"{path}: {constant} is no literal dictionary")
    return [ast.literal_eval(key) for key in table.value.keys if key is not None]


def pick(kind: str, name: str, known: dict[str, Any]) -> Any:
    """Returns `known[name]`. Raises InputError that suggests the nearest name."""
    if name not in known:
        raise InputError(kind, f"unknown {kind} '{name}'", fix=did_you_mean(name, known))
    return known[name]


def with_plugins(group: str, own: dict[str, Any]) -> dict[str, Any]:
    """Returns `own`, which this package offers, and what installed packages add to
    `entrenous.GROUP`. Raises InputError for a name that is taken.
    """
    brought = plugged(group)
    taken = own.keys() & brought.keys()
    if taken:
        raise InputError(
            f"entrenous.{group}",
            f"a package offers '{min(taken)}', which is taken",
            fix="rename it or remove the package",
        )
    return {**own, **brought}
