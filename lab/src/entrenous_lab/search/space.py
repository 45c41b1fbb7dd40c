"""The space of a search: `learning_rate=0.01..1:log`, `factors=8..64`, `optimiser=adam,sgd`,
held against the algorithm's settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from entrenous.core.errors import InputError, did_you_mean
from entrenous.runs.options import RunPlan
from entrenous.runs.plan import check
from entrenous.systems.named import kind_of

# Significant digits of a drawn number, so that a table shows exactly the numbers that were tried.
DIGITS = 4


class Range(NamedTuple):
    """A numeric setting from low to high, both included."""

    low: float
    high: float
    log: bool
    """True for a setting that is drawn uniformly on a logarithmic scale."""
    whole: bool
    """True for a setting of whole numbers."""

    @property
    def ends(self) -> tuple[int | float, int | float]:
        """The lowest and highest value, int for a setting of whole numbers and else float."""
        if self.whole:
            return (int(self.low), int(self.high))
        return (self.low, self.high)

    def rounded(self, value: float) -> int | float:
        """A drawn value rounded to DIGITS significant digits, unless that leaves the range."""
        short = int(value) if self.whole else float(f"{value:.{DIGITS}g}")
        if self.low <= short <= self.high:
            return short
        return value


class Choices(NamedTuple):
    """A setting whose values are texts without an order."""

    values: tuple[str, ...]

    def rounded(self, value: str) -> str:
        """The value unchanged, since texts are not rounded."""
        return value


def read_space(
    algorithm: str, asked: Mapping[str, str], fixed: Mapping[str, Any]
) -> dict[str, Range | Choices]:
    """Reads the ranges and choices of a search, by name of setting. Raises InputError for settings
    that the algorithm does not have or does not allow, and for bad `fixed` settings.

    Each end of a range and each value is checked against its own setting; values that do not go
    together are found when they are tried.
    """
    if not asked:
        raise InputError(
            "--search",
            "there is nothing to choose from",
            expected="name=a..b or name=value,value,...",
        )
    fields = kind_of(algorithm)[0].model_fields
    for name, value in fixed.items():
        _check_value(algorithm, name, value, "--set")
    space = {}
    for name, text in asked.items():
        if name not in fields:
            raise InputError(f"--search {name}", "unknown setting", fix=did_you_mean(name, fields))
        choice = read_choice(name, text, fields[name].annotation)
        space[name] = choice
        values = choice.values if isinstance(choice, Choices) else choice.ends
        for value in values:
            _check_value(algorithm, name, value, "--search")
    return space


def read_choice(name: str, text: str, annotation: Any) -> Range | Choices:
    """`a..b`, `a..b:log` or `value,value,...` for a setting of type `annotation`. Raises
    InputError.

    >>> read_choice("learning_rate", "0.01..1:log", float)
    Range(low=0.01, high=1.0, log=True, whole=False)
    """
    # The path of a file of settings, as in @../pi.csv, is a value, though it may have two dots.
    if ".." not in text or text.startswith("@"):
        values = [value.strip() for value in text.split(",")]
        return Choices(tuple(dict.fromkeys(values)))
    where = f"--search {name}"
    types = _types(annotation)
    if not types & {int, float}:
        raise InputError(
            where,
            f"got {text!r}",
            expected="values, as it is not a number",
            fix=f"list them: {name}=value,value",
        )
    ends, colon, scale = text.partition(":")
    first, _, last = ends.partition("..")
    low = _number(where, first)
    high = _number(where, last)
    whole = float not in types
    if colon and scale != "log":
        raise InputError(where, f"got {text!r}", expected="a..b or a..b:log")
    if whole and not (low.is_integer() and high.is_integer()):
        raise InputError(where, f"got {text!r}", expected="whole numbers")
    if low >= high:
        raise InputError(where, f"got {text!r}", expected="a range a..b with a below b")
    if colon and low <= 0:
        raise InputError(
            where,
            f"got {text!r}",
            expected="a range above 0, for its logarithm is searched",
            fix="leave :log out",
        )
    return Range(low, high, bool(colon), whole)


def _number(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(where, f"got {text.strip()!r}", expected="a number at each end of a..b")
    return value


def _types(annotation: Any) -> set[Any]:
    """The types that a setting may have: {float, NoneType} of `float | None`."""
    inner = get_args(annotation)
    if inner:
        return set().union(*map(_types, inner))
    # A value of a Literal is no type.
    if isinstance(annotation, type):
        return {annotation}
    return set()


def _check_value(algorithm: str, name: str, value: Any, where: str) -> None:
    """Refuses a value that its own setting refuses. The other settings have their defaults, and
    their errors do not count.
    """
    try:
        check(RunPlan(algorithm=algorithm, settings={name: value}))
    except InputError as bad:
        # An error of another setting is one of its default with this value.
        if bad.where == f"--set {name}":
            raise InputError(
                f"{where} {name}", bad.problem, expected=bad.expected, fix=bad.fix
            ) from None
