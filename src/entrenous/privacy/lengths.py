"""The usual length of an honest message of each algorithm, by which `private` clips: the file
lengths.json, written by `python -m entrenous_lab.lengths`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from .evidence import SAME_AS

FILE: Final = "lengths.json"
ANY: Final = 1e6
"""A clip that is longer than any message."""


@cache
def entries() -> Sequence[Mapping[str, Any]]:
    """All measurements, in the order of the file: smaller federations first."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(json.loads(text))


def usual_length(algorithm: str, users: int) -> float:
    """Returns the median length of an algorithm's messages in federations of about so many users;
    0 if it was never measured.
    """
    name = SAME_AS.get(algorithm, algorithm)
    own = [entry for entry in entries() if entry["algorithm"] == name]
    for entry in own:
        # 0 stands for any number of people.
        if users < (entry["below"] or users + 1):
            return float(entry["clip"])
    # Larger federations than any that was measured send what the largest one sends.
    return float(own[-1]["clip"]) if own else 0.0
