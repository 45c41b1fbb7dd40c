"""Commands that other installed packages add to `entrenous`, by entry points of the group
`entrenous.commands`. Each entry point names a function that returns `Commands`.

[project.entry-points."entrenous.commands"]
my-package = "my_package.my_module:commands"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from ..core.registry.plugins import plugged


class Commands(NamedTuple):
    """The commands of one package, or of all packages together."""

    groups: dict[str, list[Any]]
    """The commands of each group of `entrenous --help`: functions, or cyclopts.Apps that have
    commands of their own."""
    lists: dict[str, Callable[[], Iterable[str]]]
    """Functions that return names, by word: `--help` puts the names in the place of `{word}` in the
    docstring of a command."""


@cache
def brought() -> Commands:
    """Returns the commands of all installed packages. Raises InputError for a package that cannot
    be loaded.
    """
    groups: dict[str, list[Any]] = {}
    lists: dict[str, Callable[[], Iterable[str]]] = {}
    for entry_point in plugged("commands").values():
        commands = entry_point()
        lists.update(commands.lists)
        # Several packages may add to one group, also to a group of our own.
        for group, functions in commands.groups.items():
            groups.setdefault(group, []).extend(functions)
    return Commands(groups, lists)
