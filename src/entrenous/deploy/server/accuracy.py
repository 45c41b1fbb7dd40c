"""A server's record of how good its nodes' lists are: what each secure sum said of tests of new
rows.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..agreement.files import read_json, write_json
from ..frames.row_tests import Accuracy, SummedTests, accuracy_of

TESTS = "accuracy.json"
KEPT = 10_000  # rounds, the newest
WINDOWS = 20  # of rounds, in a curve
NEWEST = 20  # rounds of the rate that a status tells


def note_tests(folder: Path, tests: SummedTests) -> list[SummedTests]:
    """Stores the tests of a round, and returns those of all that are stored. A round that is summed
    again after a restart is stored once.
    """
    before = [one for one in noted_tests(folder) if one.round != tests.round]
    newest = [*before, tests][-KEPT:]
    write_json(folder / TESTS, {"fields": SummedTests._fields, "rounds": newest})
    return newest


def noted_tests(folder: Path) -> list[SummedTests]:
    """Returns the tests of all rounds that are stored, in their order."""
    path = folder / TESTS
    if not path.exists():
        return []
    return [SummedTests(*numbers) for numbers in read_json(path)["rounds"]]


def newest_rate(tests: list[SummedTests]) -> float | None:
    """Returns HR@10 in the tests of the newest rounds; None where too few people had new rows."""
    newest = tests[-NEWEST:]
    return accuracy_of(newest).hit_rate if newest else None


def curve(tests: list[SummedTests], windows: int = WINDOWS) -> list[Accuracy]:
    """Returns the accuracy over time, of at most so many windows of rounds that follow each
    other.
    """
    size = -(-len(tests) // windows)
    starts = range(0, len(tests), max(1, size))
    return [accuracy_of(tests[start : start + size]) for start in starts]


class Arm(NamedTuple):
    """The tests of one of two federations that are compared, and how often one person may be in
    them.
    """

    sums: list[SummedTests]
    people: int
    """All who are or ever were members."""
    share: float
    """The probability with which a device answers in a round."""
    answers: int
    """The most answers of one device."""


class Difference(NamedTuple):
    """The difference of HR@10 between two arms, the second less the first."""

    last: int | None = None
    """The number of the last round that is compared; None where an arm has brought no tests."""
    first: float | None = None
    """HR@10 of the first arm in these rounds; None, as all that follow, where too few tested."""
    second: float | None = None
    difference: float | None = None
    low: float | None = None
    """With `high` the interval that has the difference in 95 % of cases, or more."""
    high: float | None = None

    @property
    def verdict(self) -> str:
        """Of the second arm: better, worse, or none where no difference is seen; "too few" where
        nothing is known.
        """
        if self.low is None or self.high is None:
            return "too few"
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "none"


def difference_of(first: Arm, second: Arm) -> Difference:
    """Returns the difference of HR@10 between two arms, up to the last round that both have done.

    One person answers in several rounds, and sums do not tell how alike these answers are. So the
    interval takes them for wholly alike, as of people whose lists have all their new rows, or none:
    it is too long where they are not.
    """
    if not first.sums or not second.sums:
        return Difference()
    last = min(first.sums[-1].round, second.sums[-1].round)
    one = _estimated(first, last)
    two = _estimated(second, last)
    if one is None or two is None:
        return Difference(last)
    rate, variance = one
    other_rate, other_variance = two
    difference = other_rate - rate
    reach = 1.96 * math.sqrt(variance + other_variance)
    low = max(-1.0, difference - reach)
    high = min(1.0, difference + reach)
    return Difference(
        last,
        rate,
        other_rate,
        difference,
        low,
        high,
    )


def _estimated(arm: Arm, last: int) -> tuple[float, float] | None:
    """Returns the hit rate of an arm up to a round, and the largest variance that it may have; None
    where too few people tested.
    """
    sums = [one for one in arm.sums if one.round <= last]
    if not sums:
        return None
    found = accuracy_of(sums)
    rate = found.hit_rate
    if rate is None:
        return None
    tests = found.people
    # So many answers of one person stand behind each that is counted.
    alike = min(_alike(sums, arm.share) / tests, arm.answers)
    people = max(1.0, min(tests / alike, arm.people))
    # One more hit and one more miss: a rate of 0 among few is not certain.
    careful = (rate * people + 1) / (people + 2)
    noise = math.fsum(one.noise**2 for one in sums)
    of_noise = noise * (1 + rate**2) / tests**2
    of_people = careful * (1 - careful) / people
    return rate, of_noise + of_people


def _alike(sums: list[SummedTests], share: float) -> float:
    """Returns the largest sum over people of the square of how often each is in some sums, as it is
    expected. share: as in `Arm`.
    """
    people = np.maximum([one.people for one in sums], 0.0)
    # Of those in one sum the lot draws that share into a later one, which has no more people than
    # it has.
    pairs = 0.0
    for place, there in enumerate(people):
        pairs += np.minimum(share * there, people[place + 1 :]).sum()
    return float(people.sum() + 2 * pairs)
