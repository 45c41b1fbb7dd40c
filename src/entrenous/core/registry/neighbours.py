"""The neighbours of this distribution: what each offers, and the line that installs it.

This table is the one place where the package names them. What is installed is found by entry points
(core/registry/plugins.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import InputError
from .plugins import plugged_in


class Neighbour(NamedTuple):
    """A distribution that is released together with this one, in the same version."""

    extra: str
    """The extra that installs it, as in `pip install "entrenous[ray]"`."""
    engines: tuple[str, ...] = ()
    """Its entry points of the group `entrenous.engines`."""

    @property
    def line(self) -> str:
        """The command that installs it."""
        return f'pip install "entrenous[{self.extra}]"'


NEIGHBOURS = (
    Neighbour(
        "ray",
        engines=("actors", "simulation"),
    ),
)


def engine(name: str, option: str) -> Any:
    """Returns the engine that a neighbour brings. Raises InputError, which begins with the option
    that asked for it, if the neighbour is not installed.
    """
    found = plugged_in("engines", name)
    if found is not None:
        return found
    (neighbour,) = (each for each in NEIGHBOURS if name in each.engines)
    raise InputError(option, f"entrenous-{neighbour.extra} is not installed", fix=neighbour.line)
