"""The lists in `--help` (algorithms, data sets, protocols, ..): looked up when a page of help is
shown, never written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .brought import brought
from .options import documented

PLACE = re.compile(r"\{([a-z]+)\}")  # in the docstring of a command, such as {protocols}


def algorithms() -> Iterable[str]:
    """The names of all algorithms, and how those that are not installed are."""
    from ..core.registry.neighbours import absent
    from ..systems.named import algorithms

    known = algorithms()
    return [*known, *(each.offer for each in absent(known))]


def datasets() -> Iterable[str]:
    """The names of all data sets."""
    from ..data.dataset import datasets

    return datasets()


def load() -> Iterable[str]:
    """The names that --load takes, each with its meaning, as one text."""
    from ..data.options import LoadOptions

    fields = LoadOptions.model_fields.items()
    # Descriptions have commas, by which `filled` joins the names of other lists.
    return ["; ".join(f"{name}= {field.description}" for name, field in fields)]


def metrics() -> Iterable[str]:
    """The names of all metrics."""
    from ..evaluation.metric_kinds import metrics

    return metrics()


def network() -> Iterable[str]:
    """The settings of a network between peers."""
    from ..federation.network import Network

    return [f"{name}=" for name in Network.model_fields]


def protect() -> Iterable[str]:
    """The settings of a protection."""
    from ..privacy.protection import Protection

    return [f"{name}=" for name in Protection.model_fields]


def protocols() -> Iterable[str]:
    """The names of all protocols."""
    from ..data.split.protocol import protocols

    return protocols()


LISTS: dict[str, Callable[[], Iterable[str]]] = {
    of.__name__: of
    for of in (
        algorithms,
        datasets,
        load,
        metrics,
        network,
        protect,
        protocols,
    )
}


def filled(text: str) -> str:
    """Returns a text with a list in the place of `{protocols}` and other names of lists."""
    lists = {**LISTS, **brought().lists}

    def listed(place: re.Match[str]) -> str:
        name = place[1]
        # Other words in braces are no lists and stay.
        if name in lists:
            return ", ".join(lists[name]())
        return place[0]

    return PLACE.sub(listed, text)


def fill(app: Any, arguments: Sequence[str]) -> None:
    """Completes the docstring of the command whose help is asked for, or of every command if
    completion is being installed. app: a cyclopts.App. arguments: the typed words.
    """
    # Only those that are shown: some lists import half of the package.
    if "--install-completion" in arguments:
        for command in _commands(app):
            _fill_docstring(command)
    elif {"--help", "-h"} & set(arguments):
        words = [word for word in arguments if word not in ("--help", "-h")]
        _, path, *_ = app.parse_commands(words)
        _fill_docstring(path[-1])


def _commands(app: Any) -> list[Any]:
    """Returns the apps of all commands, and of the commands inside them."""
    commands = []
    for name in app:
        # cyclopts lists --help and --version among the commands.
        if not name.startswith("-"):
            commands += [app[name], *_commands(app[name])]
    return commands


def _fill_docstring(command: Any) -> None:
    function = command.default_command
    # A group, such as `entrenous data`, has no function of its own.
    if function is not None:
        function.__doc__ = filled(documented(function))
