"""Commands that installed packages bring to `entrenous`, by entry points of the group
`entrenous.commands`.

[project.entry-points."entrenous.commands"]
my-package = "my_package.my_module:commands"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from ..core.registry.plugins import plugged


class Commands(NamedTuple):
    """The commands of one package, as the function of its entry point returns them."""

    groups: dict[str, list[Any]]
    """Group of `entrenous --help` -> functions, or cyclopts.Apps with commands of their own."""
    lists: dict[str, Callable[[], Iterable[str]]]
    """Word -> names with which `--help` fills `{word}` in the docstring of a command."""


@cache
def brought() -> Commands:
    """Returns the commands of all installed packages. Raises InputError for a package that cannot
    be loaded.
    """
    groups: dict[str, list[Any]] = {}
    lists: dict[str, Callable[[], Iterable[str]]] = {}
    for commands in plugged("commands").values():
        ours = commands()
        lists.update(ours.lists)
        for group, functions in ours.groups.items():
            groups.setdefault(group, []).extend(functions)
    return Commands(groups, lists)
