"""Numbers spread over nodes or messages: `constant:1`, `uniform:0:5`, `exponential:2`,
`loguniform:1e5:1e7`, `trace:FILE`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, PlainSerializer

from ..core.keys import uniforms
from ..core.types import Float64Array, UInt64Array

KINDS = {
    "constant": 1,
    "uniform": 2,
    "exponential": 1,
    "loguniform": 2,
}  # how many numbers each takes
FORMS = (
    "constant:VALUE, uniform:LOW:HIGH, exponential:MEAN, loguniform:LOW:HIGH or trace:FILE (a"
    " number >= 0 on each line)"
)


class Spread(NamedTuple):
    """A distribution of nonnegative numbers. numbers: its parameters, or the values of a trace, of
    which one is drawn.
    """

    text: str
    kind: str
    numbers: tuple[float, ...]

    @property
    def least(self) -> float:
        """A lower bound of all draws."""
        return {"constant": self.numbers[0], "exponential": 0.0}.get(self.kind, min(self.numbers))

    def draw(self, keys: UInt64Array) -> Float64Array:
        """Draw one number from each key, float64 [len(keys)]."""
        at, (low, high) = uniforms(keys), (self.numbers[0], self.numbers[-1])
        match self.kind:
            case "constant":
                return np.full(len(keys), low)
            case "uniform":
                return low + (high - low) * at
            case "exponential":
                return -low * np.log1p(-at)
            case "loguniform":
                return low * (high / low) ** at
            case _:
                return np.asarray(self.numbers)[(at * len(self.numbers)).astype(np.int64)]


def spread(text: Any) -> Spread:
    """A Spread from its text; a number alone is a constant. Raises ValueError, which says what was
    expected.

    >>> spread("uniform:0:5").least, spread(2).numbers
    (0.0, (2.0,))
    """
    if isinstance(text, Spread):
        return text
    kind, _, rest = str(text).partition(":")
    if kind == "trace":
        return Spread(str(text), kind, _traced(Path(rest)))
    if not rest:
        kind, rest = "constant", kind
    try:
        numbers = tuple(map(float, rest.split(":")))
    except ValueError:
        numbers = ()
    if (
        len(numbers) != KINDS.get(kind)
        or not all(math.isfinite(one) and one >= 0 for one in numbers)
        or numbers[-1] < numbers[0]
    ):
        raise ValueError(FORMS)
    if kind == "loguniform" and not numbers[0]:
        raise ValueError("a lower end above 0 for loguniform")
    return Spread(str(text), kind, numbers)


def _traced(path: Path) -> tuple[float, ...]:
    """The numbers of a trace file. Raises ValueError naming the line that is none."""
    try:
        lines = path.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as cause:
        raise ValueError(f"a readable file of numbers ({path}: {cause})") from None
    numbers = []
    for number, line in enumerate(lines, 1):
        try:
            value = float(line) if line.strip() else None
        except ValueError:
            value = math.nan
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"a number >= 0 on each line ({path}:{number}: {line[:40]!r})")
        numbers += [] if value is None else [value]
    if not numbers:
        raise ValueError(f"a file with at least one number ({path} has none)")
    return tuple(numbers)


Spreading = Annotated[
    Spread, BeforeValidator(spread), PlainSerializer(lambda one: one.text, return_type=str)
]
