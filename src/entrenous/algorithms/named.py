"""Algorithms by name: those of this folder and of `central/`, those of installed packages, and
those named by their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..core.registry.discover import offered, offers, pick, with_plugins
from ..core.registry.own import is_place, load_place

PACKAGES = ("entrenous.algorithms", "entrenous.algorithms.central")


def algorithms() -> dict[str, Any]:
    """{name: callable(**settings) -> algorithm}: the ALGORITHMS of every file in `algorithms/` and
    `algorithms/central/`, and of packages.
    """
    return with_plugins(
        "algorithms", {**offers(PACKAGES[0], "ALGORITHMS"), **offers(PACKAGES[1], "ALGORITHMS")}
    )


def maker_of(algorithm: str) -> Any:
    """The callable(**settings) of an algorithm by its name or its place . Raises InputError for one
    that is not there.
    """
    if is_place(algorithm):
        return load_place(algorithm)
    own = (offered(package, "ALGORITHMS", algorithm) for package in PACKAGES)
    return next((maker for maker in own if maker is not None), None) or pick(
        "algorithm", algorithm, algorithms()
    )


def kind_of(algorithm: str) -> tuple[Any, Mapping[str, Any]]:
    """The settings class of an algorithm, and the settings that its name presets. Raises InputError
    for a name that is not known.
    """
    maker = maker_of(algorithm)
    return (maker.func, maker.keywords) if isinstance(maker, partial) else (maker, {})
