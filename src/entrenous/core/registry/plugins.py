"""Extensions from installed packages: entry points of the groups `entrenous.algorithms`,
`.datasets`, `.formats`, `.recipes` (paths of TOML files), `.metrics`, `.splits`, `.experiments`,
`.commands`, `.engines`.

[project.entry-points."entrenous.algorithms"]
my-algorithm = "my_package.my_module:MyAlgorithm"

A package in the place of an object, such as `mine = "my_package"`, brings all that the dictionaries
in its files offer, as the package of the library does (core/registry/discover.py).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..errors import InputError, one_line


@cache
def plugged(group: str) -> dict[str, Any]:
    """Returns {name: thing} of the entry points in the group `entrenous.GROUP`.

    Raises InputError, with the package's name, for one that cannot be loaded, and for two that
    offer one name.
    """
    return {name: _loaded(point) for name, point in _points(group).items()}


@cache
def plugged_in(group: str, name: str) -> Any | None:
    """Returns one thing of `plugged`, or None. Loads no other."""
    point = _points(group).get(name)
    return None if point is None else _loaded(point)


def _points(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name. Raises InputError for two of one name."""
    found: dict[str, EntryPoint] = {}
    points = entry_points(group=f"entrenous.{group}")
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        if point.name in found:
            raise InputError(
                f"package {_package(point)}",
                f"offers '{point.name}' in entrenous.{group}, as another package does",
                fix="remove one",
            )
        found[point.name] = point
    return found


def _loaded(point: EntryPoint) -> Any:
    """Returns what an entry point names. Raises InputError if it cannot be loaded."""
    try:
        return point.load()
    except Exception as wrong:
        raise InputError(
            f"package {_package(point)}",
            f"'{point.name} = {point.value}' cannot be loaded: {type(wrong).__name__}:"
            f" {one_line(str(wrong), 160)}",
            expected=f"what {point.group} takes",
            fix="repair or remove it",
        ) from None


def _package(point: EntryPoint) -> str:
    """Returns the name of the package that has an entry point."""
    return point.value if point.dist is None else point.dist.name
