"""The difference of two systems, with an interval and a test that take users and seeds as drawn by
chance.

Every interval and p of a difference in this project comes from here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.types import Array, Float64Array
from .distributions import t_above, t_tail

# Of each interval.
CONFIDENCE = 0.95


class Source(NamedTuple):
    """A source of chance: users, or seeds."""

    error: float
    """The standard error of the mean over them."""
    size: int
    """How many there are; a single one tells of no error."""


class Difference(NamedTuple):
    """The mean difference a - b of two systems."""

    mean: float
    error: float
    """Its standard error."""
    freedom: float
    """Degrees of freedom of Student's t."""
    users: int
    seeds: int

    @property
    def holds(self) -> str:
        """The sources of chance that are in the interval, in words."""
        if self.seeds == 1:
            return "users alone, one seed"
        return "users and seeds" if self.users > 1 else "seeds alone"

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        half = t_above((1 - CONFIDENCE) / 2, self.freedom) * self.error
        return self.mean - half, self.mean + half

    def t(self, at: float = 0.0) -> float:
        """The distance from a true difference `at` in standard errors, infinite without error."""
        beyond = self.mean - at
        if self.error == 0:
            return math.copysign(math.inf, beyond) if beyond else 0.0
        return beyond / self.error

    def p(self, at: float = 0.0) -> float:
        """The two-sided p-value of a true difference `at`."""
        return 2 * t_tail(abs(self.t(at)), self.freedom)


def difference(a: Array, b: Array) -> Difference:
    """The difference of two systems on the same users and seeds.

    a, b: [seeds, users], NaN where a user is not in a seed; [users] of one seed; [seeds, 1] of
    seeds alone. A fold stands like a seed. Raises InputError for what is not finite, and for a
    single pair.

    >>> found = difference([[1, 2, 3], [3, 4, 5]], np.zeros((2, 3)))
    >>> # users 2 3 4: 1 / sqrt 3; seeds 2 4: 1; freedom (1/3 + 1)^2 / (1/9 / 2 + 1 / 1)
    >>> found.mean, round(found.error**2, 4), round(found.freedom, 4), found.holds
    (3.0, 1.3333, 1.6842, 'users and seeds')
    """
    d = np.atleast_2d(np.asarray(a, np.float64) - np.asarray(b, np.float64))
    absent = np.isnan(d)
    same = np.shape(a) == np.shape(b)
    if not same or np.isinf(d).any() or absent.all(axis=0).any() or absent.all(axis=1).any():
        raise InputError(
            "significance test",
            "the values are not two finite tables of the same users and seeds",
            expected="one finite value per pair",
        )
    if d.size < 2:
        raise InputError("significance test", f"{d.size} pair", expected="at least two pairs")
    of_user = np.nanmean(d, axis=0)
    of_seed = np.nanmean(d, axis=1)
    return combined(float(of_user.mean()), source(of_user), source(of_seed))


def source(means: Float64Array) -> Source:
    """The standard error of the mean of some means, float64 [users] or [seeds]; 0 of one."""
    size = len(means)
    error = means.std(ddof=1) / math.sqrt(size) if size > 1 else 0.0
    return Source(float(error), size)


def combined(mean: float, users: Source, seeds: Source) -> Difference:
    """A difference with the errors over users and over seeds, of which each is crossed with each.

    The squares of both are added, with the degrees of freedom of Satterthwaite (1946). What is of
    one user under one seed counts in both, so that an interval is too wide by 41 % at most.
    """
    square = users.error**2 + seeds.error**2
    parts = 0.0
    for each in (users, seeds):
        if each.size > 1:
            parts += each.error**4 / (each.size - 1)
    # Without any error there is nothing to share out.
    freedom = square**2 / parts if parts else float(max(users.size, seeds.size) - 1)
    return Difference(mean, math.sqrt(square), freedom, users.size, seeds.size)
