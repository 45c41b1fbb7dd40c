"""Tests of contestants that are paired over users and seeds, with Holm's correction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from typing_extensions import TypedDict

from ..core.types import Float64Array
from .chance import difference
from .significance import holm, paired_spread

Pair = TypeVar("Pair", bound="ComparedPair")


class ComparedPair(TypedDict):
    """The reference `a` against `b` on a metric."""

    metric: str
    a: str
    b: str
    difference: float
    users: int
    holds: str
    """The sources of chance that p and the interval hold: users and seeds, or users alone."""
    p: float
    holm_p: float
    """p after Holm's correction."""


class PairedDifference(ComparedPair):
    """A test that is paired over users and seeds."""

    low: float
    """Of the 95 % interval of the difference."""
    high: float


class SpreadTest(ComparedPair):
    """A test of the standard deviations over users."""

    std_a: float
    """The mean over seeds."""
    std_b: float


def paired_tests(
    metric: str,
    values: Mapping[str, Float64Array],
    pairs: Iterable[tuple[str, str]],
    drawn: str = "seeds",
) -> list[PairedDifference]:
    """Tests of pairs of contestants on the values of the same users; Holm's correction over these
    tests.

    values: {label: of each user under each seed, float64 [seeds, users], or of users under one}.
    drawn: what their lines are of.
    """
    tests = []
    for a, b in pairs:
        found = difference(values[a], values[b])
        low, high = found.ends
        test: PairedDifference = {
            "metric": metric,
            "a": a,
            "b": b,
            "difference": found.mean,
            "low": low,
            "high": high,
            "users": found.users,
            "holds": found.holds.replace("seeds", drawn),
            "p": found.p(),
            "holm_p": 1.0,
        }
        tests.append(test)
    return _corrected(tests)


def spread_tests(
    metric: str,
    values: Mapping[str, Float64Array],
    pairs: Iterable[tuple[str, str]],
    drawn: str = "seeds",
) -> list[SpreadTest]:
    """Tests that the standard deviation over users is the same for both of a pair. No tests of
    fewer than three users. Arguments as of `paired_tests`.
    """
    tests: list[SpreadTest] = []
    for a, b in pairs:
        # The test needs three users.
        if values[a].shape[1] < 3:
            break
        spread = paired_spread(values[a], values[b])
        test: SpreadTest = {
            "metric": f"std_{metric}",
            "a": a,
            "b": b,
            "std_a": _std(values[a]),
            "std_b": _std(values[b]),
            "difference": spread.difference,
            "users": spread.users,
            "holds": spread.holds.replace("seeds", drawn),
            "p": spread.p,
            "holm_p": 1.0,
        }
        tests.append(test)
    return _corrected(tests)


def _std(values: Float64Array) -> float:
    """The standard deviation over users, the mean over seeds."""
    return float(np.nanstd(values, axis=1).mean())


def _corrected(tests: list[Pair]) -> list[Pair]:
    """The tests with Holm's correction of their p-values."""
    corrected = holm([test["p"] for test in tests]).tolist()
    for test, holm_p in zip(tests, corrected, strict=True):
        test["holm_p"] = holm_p
    return tests
