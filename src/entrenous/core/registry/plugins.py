"""Extensions from installed packages: entry points of the groups `entrenous.algorithms`,
`.datasets`, `.recipes` (paths of TOML files), `.metrics`, `.splits`, `.experiments`.

[project.entry-points."entrenous.algorithms"]
my-algorithm = "my_package.my_module:MyAlgorithm"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from ..errors import InputError, one_line


@cache
def plugged(group: str) -> dict[str, Any]:
    """Returns {name: thing} of the entry points in the group `entrenous.GROUP`.

    Raises InputError, with the package's name, for one that cannot be loaded, and for two that
    offer one name.
    """
    things: dict[str, Any] = {}
    points = entry_points(group=f"entrenous.{group}")
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        package = point.dist.name if point.dist is not None else point.value
        if point.name in things:
            raise InputError(
                f"package {package}",
                f"offers '{point.name}' in entrenous.{group}, as another package does",
                fix="remove one",
            )
        try:
            things[point.name] = point.load()
        except Exception as wrong:
            raise InputError(
                f"package {package}",
                f"'{point.name} = {point.value}' cannot be loaded: {type(wrong).__name__}:"
                f" {one_line(str(wrong), 160)}",
                expected=f"what entrenous.{group} takes",
                fix="repair or remove it",
            ) from None
    return things
