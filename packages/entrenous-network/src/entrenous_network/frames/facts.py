"""`AnswerFacts`: all that an answer says besides its numbers.

A node fills it in `FederatedNode.facts`, and each of its answers carries it in the head of the
frame, plain and under masks. The server takes it whole, and `status` shows what the answers of the
newest round said. So a further fact is a field here and a value there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from .frames import Head


class AnswerFacts(msgspec.Struct, frozen=True):
    """The facts of one answer."""

    users: int = 0
    """The users whose devices are in the answer."""

    @classmethod
    def of(cls, head: Head) -> AnswerFacts:
        """Returns the facts that a frame says; a fact that it does not say has its default."""
        known = cls.__struct_fields__
        return cls(**{name: value for name, value in head.about.items() if name in known})

    def said(self) -> dict[str, int]:
        """Returns the facts as the small numbers of a head."""
        return msgspec.structs.asdict(self)


def shown(answers: Iterable[AnswerFacts]) -> dict[str, Mapping[str, float]]:
    """Returns the least, median and most of each fact over some answers; {} without answers."""
    every = list(answers)
    if not every:
        return {}
    found: dict[str, Mapping[str, float]] = {}
    for name in AnswerFacts.__struct_fields__:
        values = [getattr(one, name) for one in every]
        found[name] = {
            "least": min(values),
            "median": float(np.median(values)),
            "most": max(values),
        }
    return found
