"""No `Any` in what a user calls or gets: a walk through the types of all public names."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Iterator
from typing import Any

from typing_extensions import is_typeddict

import entrenous

SPECIAL = ("__init__", "__call__", "__iter__")
# The state of a model has a type of its algorithm's own; these hold it, or pass it on.
STATES = (
    *("FederatedRecommender", "GossipRecommender", "CentralRecommender", "Contract"),
    *("FederatedAlgorithm", "GossipAlgorithm", "CentralAlgorithm", "Declaration"),
)


def is_ours(thing: object) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("entrenous")


def members(kind: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties of a class and of our own bases of it, and `__init__`."""
    for base in kind.__mro__:
        if not is_ours(base):
            continue
        # The fields of a dataclass are walked, and so its `__init__` is.
        special = ("__call__", "__iter__") if dataclasses.is_dataclass(base) else SPECIAL
        for name, member in vars(base).items():
            if not name.startswith("_") or name in special:
                yield f"{base.__name__}.{name}", member


def functions_of(member: object) -> Iterator[Any]:
    """The functions of a member of a class: that of a property, of a method."""
    if isinstance(member, property | functools.cached_property):
        member = member.fget if isinstance(member, property) else member.func
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if inspect.isfunction(member):
        yield inspect.unwrap(member)


class Walk:
    """A walk through types. `found`: the places of `Any`."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.kept: list[object] = []
        self.found: list[str] = []

    def walk(self, thing: Any, place: str) -> None:
        """Follows a type, a class of ours, or a function."""
        if thing is Any:
            self.found.append(place)
            return
        if id(thing) in self.seen or getattr(thing, "__name__", "") in STATES:
            return
        # An object that is gone would give its number to another.
        self.seen.add(id(thing))
        self.kept.append(thing)
        if typing.get_origin(thing) is not None or typing.get_args(thing):
            self.walk_generic(thing, place)
        elif inspect.isclass(thing) and is_ours(thing):
            self.walk_class(thing, place)
        elif inspect.isfunction(thing):
            self.walk_hints(inspect.unwrap(thing), place)
        elif isinstance(thing, typing.TypeVar):
            self.walk(thing.__bound__, f"{place} {thing}")

    def walk_generic(self, thing: Any, place: str) -> None:
        origin = typing.get_origin(thing)
        name = getattr(origin, "__name__", "")
        # An array of any kind of numbers is still an array.
        for argument in () if name == "ndarray" else typing.get_args(thing):
            for part in argument if isinstance(argument, list) else [argument]:
                self.walk(part, f"{place}: {name}")
        if inspect.isclass(origin) and is_ours(origin):
            self.walk(origin, place)

    def walk_class(self, kind: type, place: str) -> None:
        if is_typeddict(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
            self.walk_hints(kind, f"{place} > {kind.__name__}")
        for name, member in members(kind):
            for function in functions_of(member):
                self.walk_hints(function, f"{place} > {name}")

    def walk_hints(self, thing: Any, place: str) -> None:
        names: dict[str, object] = {}
        for kind in getattr(thing, "__mro__", (thing,)):
            names |= names_for_checkers(kind.__module__)
        for name, hint in typing.get_type_hints(thing, None, names).items():
            self.walk(hint, f"{place} > {name}")


@functools.cache
def names_for_checkers(module: str) -> dict[str, object]:
    """What a module imports under `if TYPE_CHECKING`, for type checkers alone."""
    names: dict[str, object] = {}
    if module.startswith("entrenous."):
        tree = ast.parse(inspect.getsource(sys.modules[module]))
        for node in tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                package = sys.modules[module].__package__
                exec(ast.unparse(node.body), {"__package__": package}, names)
    return names


def test_a_user_meets_no_any() -> None:
    walk = Walk()
    for name in dir(entrenous):
        walk.walk(getattr(entrenous, name), name)
    assert not walk.found, "\n".join(["", *walk.found])
