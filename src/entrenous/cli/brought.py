"""Commands that other installed packages add to `entrenous`, by entry points of the group
`entrenous.commands`. Each entry point names a function that returns `Commands`.

[project.entry-points."entrenous.commands"]
my-package = "my_package.my_module:commands"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..core.registry.neighbours import NEIGHBOURS, Neighbour
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


def absent(groups: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Returns, for each command of a neighbour that is not among these, one that names the line
    which installs it.
    """
    known = {name_of(command) for commands in groups.values() for command in commands}
    missing: dict[str, list[Any]] = {}
    for neighbour in NEIGHBOURS:
        for group, names in neighbour.commands.items():
            for name in names:
                if name not in known:
                    missing.setdefault(group, []).append(_missing(neighbour, name))
    return missing


def name_of(command: Any) -> str:
    """Returns the name of a command: a function or a cyclopts.App."""
    name = getattr(command, "name", None) or (command.__name__,)
    return str(name[0])


def _missing(neighbour: Neighbour, name: str) -> Any:
    """Returns a command that raises InputError, whatever its arguments are."""
    from cyclopts import App, Parameter

    def refuse(*words: str) -> None:
        raise neighbour.missing(f"entrenous {name}")

    anything = Parameter(allow_leading_hyphen=True)
    said = f"Not installed: {neighbour.line}"
    app = App(name=name, help=said, help_flags=(), default_parameter=anything)
    app.default(refuse)
    return app
