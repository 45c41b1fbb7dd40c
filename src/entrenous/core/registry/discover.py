"""Names to files: an algorithm, a data set, a split, a metric or an attack is one file, and adding
the file is enough.

Each such file has a module constant, a dictionary of what it offers; nothing is registered by
import order or by decorators. Installed packages add theirs by entry points
(core/registry/plugins.py). The user's own algorithm is named by its place, such as
`./my_algo.py:MyAlgorithm` or `my_module:MyAlgorithm`, from which core/registry/own.py loads it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, did_you_mean
from .plugins import plugged


@cache
def modules(package: str) -> dict[str, ModuleType]:
    """Returns the public modules of a package, such as `entrenous.evaluation.metrics`, by file name
    and in alphabetical order.
    """
    parent = importlib.import_module(package)
    found = {}
    # In alphabetical order, as `iter_modules` lists them.
    for info in pkgutil.iter_modules(parent.__path__):
        if not info.ispkg and not info.name.startswith("_"):
            found[info.name] = importlib.import_module(f"{package}.{info.name}")
    return found


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
    source = path.read_text(encoding="utf-8")
    # To parse a whole file would take much longer than its last lines.
    assigned = re.search(rf"^{constant}(: .+?)? = ", source, re.MULTILINE)
    if assigned is None:
        return []
    table = ast.parse(source[assigned.end() :]).body[0]
    if not isinstance(table, ast.Expr) or not isinstance(table.value, ast.Dict):
        raise ValueError(f"{path}: {constant} is no literal dictionary")
    return [ast.literal_eval(key) for key in table.value.keys if key is not None]


def pick(kind: str, name: str, known: dict[str, Any]) -> Any:
    """Returns `known[name]`. Raises InputError that suggests the nearest name."""
    if name not in known:
        raise InputError(kind, f"unknown {kind} '{name}'", fix=did_you_mean(name, known))
    return known[name]


def packages_of(group: str, *own: str) -> Iterator[str]:
    """Yields packages whose files are read: `own`, and those that installed packages add to
    `entrenous.GROUP`.
    """
    yield from own
    for thing in plugged(group).values():
        if isinstance(thing, ModuleType):
            yield thing.__name__


def with_plugins(group: str, constant: str, *packages: str) -> dict[str, Any]:
    """Returns the entries of all dictionaries called `constant` in some packages of ours, and what
    installed packages add to `entrenous.GROUP`. Raises InputError for a name that is taken.
    """
    own: dict[str, Any] = {}
    for package in packages:
        own |= offers(package, constant)
    brought: dict[str, Any] = {}
    for name, thing in plugged(group).items():
        if isinstance(thing, ModuleType):
            brought |= offers(thing.__name__, constant)
        else:
            brought[name] = thing
    # A package that took over a name of ours would change old commands silently.
    taken = own.keys() & brought.keys()
    if taken:
        raise InputError(
            f"entrenous.{group}",
            f"a package offers '{min(taken)}', which is taken",
            fix="rename it or remove the package",
        )
    return {**own, **brought}


# ---- the place of the user's own algorithm -------------------------------------------------------


def is_place(name: str) -> bool:
    """Tells whether the name of an algorithm is a place rather than a name that a package offers.

    >>> is_place("./my_algo.py"), is_place("my_module:MyAlgorithm"), is_place("pfpl+")
    (True, True, False)
    """
    return ":" in name or name.endswith(".py")


def lasting(place: str) -> str:
    """Returns a place that means the same in another folder: the path of a file made absolute."""
    where, class_name = place_parts(place)
    if not where.endswith(".py"):
        return place
    return _joined(str(Path(where).resolve()), class_name)


def in_folder(name: str) -> str:
    """Returns a place as it is typed in the folder of its file; any other name as it is.

    >>> in_folder("/home/me/my_algo.py:MyAlgorithm"), in_folder("fpl")
    ('./my_algo.py:MyAlgorithm', 'fpl')
    """
    where, class_name = place_parts(name)
    if not where.endswith(".py"):
        return name
    return _joined(f"./{Path(where).name}", class_name)


def short(name: str) -> str:
    """Returns a name for a table: of a place the class, or the file without its folder; any other
    name as it is.

    >>> short("/home/me/my_algo.py:MyAlgorithm"), short("/home/me/my_algo.py"), short("fpl")
    ('MyAlgorithm', 'my_algo', 'fpl')
    """
    where, class_name = place_parts(name)
    if class_name:
        return class_name
    if where.endswith(".py"):
        return Path(where).stem
    return where


def place_parts(name: str) -> tuple[str, str]:
    """Returns the file or module of a place, and its class, "" if it names none.

    >>> place_parts("./my_algo.py:MyAlgorithm"), place_parts("./my_algo.py"), place_parts("fpl")
    (('./my_algo.py', 'MyAlgorithm'), ('./my_algo.py', ''), ('fpl', ''))
    """
    if name.endswith(".py") or ":" not in name:
        return name, ""
    where, _, class_name = name.rpartition(":")
    return where, class_name


def _joined(where: str, class_name: str) -> str:
    """Returns the place that `place_parts` takes apart."""
    if class_name:
        return f"{where}:{class_name}"
    return where
