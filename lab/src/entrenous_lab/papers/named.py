"""Which parts of the TOML files beside this one stand behind a table: the settings that its
trainings read, and what its code names.

A path is a folder, a file without `.toml`, and names inside it: ("tuned", "ncf", "tuned", "ml-1m")
are the entries of `tuned/ncf.toml` about MovieLens-1M. Another data set's entry, or another table's
printed figures, may then change without making a result stale.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from entrenous.core.registry.program import path_of, source_of

from .values import stored

Place = tuple[str, ...]
READERS = {
    "printed": "printed",
    "worded": "words",
}  # {function of values.py: the folder that it reads}


def text_of(places: Iterable[Place]) -> str:
    """What stands at some places, for an identity: a line each, "null" where there is nothing."""
    return "".join(
        f"{'/'.join(place)}: {json.dumps(_at(place), sort_keys=True)}\n"
        for place in sorted(set(places))
    )


def _at(place: Place) -> Any:
    """What stands at a place; of a list the entries that have its next name as their `data`."""
    folder, file, *inside = place
    found: Any = stored(folder, file)
    for name in inside:
        if isinstance(found, list):
            found = [entry for entry in found if entry.get("data") == name]
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def named_by(modules: Iterable[str]) -> set[Place]:
    """What of `printed/` and `words/` is named in the source of some modules: every call of
    `printed` and `worded`.
    """
    return {place for module in modules for place in _named_in(module)}


@cache
def _named_in(module: str) -> frozenset[Place]:
    calls = [
        node
        for node in ast.walk(ast.parse(source_of(path_of(module))))
        if isinstance(node, ast.Call)
    ]
    return frozenset(
        place
        for call in calls
        if isinstance(call.func, ast.Name)
        for place in _places(call.func.id, call.args)
    )


def _places(function: str, said: list[ast.expr]) -> Iterator[Place]:
    """The places of one call. The whole file, where a section is made up while it runs."""
    file = _words(said[0]) if said and function in READERS else None
    if not file:
        return
    sections = [_words(one) for one in (said[1:] if function == "printed" else said[1:2])]
    names = [name for some in sections if some for name in some]
    whole = None in sections or not names
    for each in file:
        yield from (
            [(READERS[function], each)]
            if whole
            else [(READERS[function], each, name) for name in names]
        )


def _words(said: ast.expr) -> list[str] | None:
    """The strings that an argument may be: one, or one of two under a condition; None where that is
    not known before it runs.
    """
    if isinstance(said, ast.Constant):
        return [said.value] if isinstance(said.value, str) else None
    if isinstance(said, ast.IfExp):
        either = _words(said.body), _words(said.orelse)
        return None if None in either else [name for some in either for name in some or ()]
    return None
