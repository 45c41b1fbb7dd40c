"""The neighbours of this distribution: what each offers, and the line that installs it.

This table is the one place where the package names them. What is installed is found by entry points
(core/registry/plugins.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import InputError
from .plugins import plugged_in


class Neighbour(NamedTuple):
    """A distribution that is released together with this one, in the same version."""

    extra: str
    """The extra that installs it, as in `pip install "entrenous[ray]"`."""
    engines: tuple[str, ...] = ()
    """Its entry points of the group `entrenous.engines`."""
    algorithms: tuple[str, ...] = ()
    """The names of its algorithms."""
    commands: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Its commands, by the group of `entrenous --help`."""

    @property
    def line(self) -> str:
        """The command that installs it."""
        return f'pip install "entrenous[{self.extra}]"'

    @property
    def offer(self) -> str:
        """Its algorithms and the command that installs them, for a list of algorithms."""
        return f"{', '.join(self.algorithms)} ({self.line})"

    def missing(self, where: str) -> InputError:
        """Returns the error of something that needs it where it is not installed."""
        return InputError(where, f"entrenous-{self.extra} is not installed", fix=self.line)


NEIGHBOURS = (
    Neighbour(
        "audit",
        engines=("audit",),
        commands={"Research": ("audit",), "Privacy": ("receipt", "attack")},
    ),
    Neighbour(
        "field",
        engines=("recipes",),
        algorithms=(
            "colr",
            "colr-printed",
            "fbalf-bayes",
            "fedcold",
            "fedmf",
            "fedmf-printed",
            "fedncf",
            "fedncf-mlp",
            "fedncf-printed",
            "fedrap",
            "fedrap-printed",
            "fedrecon",
            "fedrecon-printed",
            "gpfedrec",
            "gpfedrec-as-run",
            "pepper-evidence-gmf",
            "pfedrec",
            "pfedrec-printed",
        ),
    ),
    Neighbour(
        "network",
        commands={"Network": ("federation", "server", "node")},
    ),
    Neighbour(
        "ray",
        engines=("actors", "simulation"),
    ),
)


def absent(known: Collection[str]) -> list[Neighbour]:
    """Returns the neighbours that offer algorithms, none of which is known here."""
    return [each for each in NEIGHBOURS if each.algorithms and not {*each.algorithms} & {*known}]


def neighbour(extra: str) -> Neighbour:
    """Returns the neighbour that an extra installs."""
    return next(each for each in NEIGHBOURS if each.extra == extra)


def engine(name: str, option: str) -> Any:
    """Returns the engine that a neighbour brings. Raises InputError, which begins with the option
    that asked for it, if the neighbour is not installed.
    """
    found = plugged_in("engines", name)
    if found is not None:
        return found
    raise next(each.missing(option) for each in NEIGHBOURS if name in each.engines)
