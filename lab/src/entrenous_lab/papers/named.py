"""Which parts of the TOML files beside this one stand behind a table: the settings that its
trainings read.

A path is a folder, a file without `.toml`, and names inside it: ("tuned", "ncf", "tuned", "ml-1m")
are the entries of `tuned/ncf.toml` about MovieLens-1M. Another data set's entry may then change
without making a result stale.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .values import stored

Place = tuple[str, ...]


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
