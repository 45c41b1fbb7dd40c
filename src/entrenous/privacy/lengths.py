"""Limits of `private` for each algorithm: the clip of a message, the noise as a multiple of it, and
the step of the model. The file lengths.json, written by `python -m entrenous_lab.lengths`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from .evidence import SAME_AS

FILE: Final = "lengths.json"
LIMITS: Final = ("clip", "multiple", "step")
ANY: Final = 1e6
"""A clip that is longer than any message."""


@cache
def entries() -> Sequence[Mapping[str, Any]]:
    """All measurements, in the order of the file: smaller federations first."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return tuple(json.loads(text))


def usual_limits(algorithm: str, users: int) -> dict[str, float]:
    """Returns the `clip`, the `multiple` and, if it has one, the `step` of an algorithm in
    federations of about so many users; {} if they were never measured.
    """
    name = SAME_AS.get(algorithm, algorithm)
    own = [entry for entry in entries() if entry["algorithm"] == name]
    # 0 stands for any number of people.
    enough = [entry for entry in own if users < (entry["below"] or users + 1)]
    # What was measured of fewer people costs more people less accuracy.
    for entry in enough or own[-1:]:
        return {limit: float(entry[limit]) for limit in LIMITS if entry.get(limit)}
    return {}
