"""Algorithms by name: those of this folder and of `central/`, those of installed packages, and the
user's own, named by their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..core.registry.discover import is_place, offered, packages_of, with_plugins
from ..core.registry.own import load_place
from .unknown import unknown

PACKAGES = ("entrenous.systems", "entrenous.systems.central")


def algorithms() -> dict[str, Any]:
    """Returns {name: callable(**settings) -> algorithm}: the ALGORITHMS of every file in
    `systems/` and `systems/central/`, and those of installed packages.
    """
    return with_plugins("algorithms", "ALGORITHMS", *PACKAGES)


def maker_of(algorithm: str) -> Any:
    """Returns the callable(**settings) of an algorithm by its name or its place. Raises InputError
    for an unknown one.
    """
    if is_place(algorithm):
        return load_place(algorithm)
    # Only the module that has the name is imported, unless no file has it.
    for package in packages_of("algorithms", *PACKAGES):
        maker = offered(package, "ALGORITHMS", algorithm)
        if maker is not None:
            return maker
    known = algorithms()
    if algorithm not in known:
        raise unknown(algorithm, known)
    return known[algorithm]


def kind_of(algorithm: str) -> tuple[Any, Mapping[str, Any]]:
    """Returns the settings class of an algorithm, and the settings that its name presets. Raises
    InputError for an unknown name.
    """
    maker = maker_of(algorithm)
    if isinstance(maker, partial):
        return maker.func, maker.keywords
    return maker, {}
