"""Tests of new rows, and what a secure sum says of them: a device ranks each new row by the model
that it has, before it learns the row, and adds three numbers to its masked answers.

The numbers of a device are the share of its new rows that its list of `LISTED` items would have
had, the mean of 1 / rank, and 1 for itself: a person with many rows counts as one with few. Each
device adds a share of noise to each of them. So a server learns how good lists are for all who
answered together, and of nobody's row, rank or hit.
"""

from __future__ import annotations

import json
import math
from typing import NamedTuple, Self

import numpy as np

from entrenous.core.contract.declarations import SentArray, dense
from entrenous.core.contract.update import STEP, Total, fixed, real
from entrenous.core.types import BoolArray, Float32Array, Float64Array, Int64Array
from entrenous.privacy.discrete_gaussian import SEEDED, gaussian_table, integers, system_words

LISTED = 10
"""The items of a list."""
TESTS = "row tests"
NUMBERS = 3
SENT: SentArray = dense(
    TESTS,
    NUMBERS,
    when="each round",
    reveals="nothing of one device: people, hits and reciprocal ranks of all, with noise",
)
"""The array that joins the dense ones of a sum."""
FAR = 6.0  # standard deviations of noise, beyond which a sum is nobody's


class RowTests(NamedTuple):
    """Tests of one user's new rows that no answer has carried yet."""

    rows: int = 0
    hits: int = 0
    """Rows whose item was among the first `LISTED`."""
    ranks: float = 0.0
    """The sum of 1 / rank, 0 for an item that no list would have had."""

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Returns stored tests; none for None."""
        return cls() if text is None else cls(*json.loads(text))

    def text(self) -> str:
        """Returns the text that `parse` reads."""
        return json.dumps(self)

    def plus(self, other: RowTests, times: int = 1) -> RowTests:
        """Returns the tests of both; with times = -1 those without the others."""
        return RowTests(
            self.rows + times * other.rows,
            self.hits + times * other.hits,
            self.ranks + times * other.ranks,
        )


def ranked(scores: Float32Array, candidates: BoolArray, items: Int64Array) -> RowTests:
    """Ranks new rows of one user. scores: float32 [items of the catalogue]. candidates: bool, of
    the same shape, the items that a list may have. items: the numbers of the new rows' items.

    An item that no list may have is no hit. Of equal scores the item is the last.

    >>> scores = np.array([0.9, 0.8, 0.1], np.float32)
    >>> ranked(scores, np.array([True, True, False]), np.array([1, 2]))
    RowTests(rows=2, hits=1, ranks=0.5)
    """
    hits = 0
    ranks = 0.0
    for item in items.tolist():
        if not candidates[item]:
            continue
        rank = int(np.count_nonzero(scores[candidates] >= scores[item]))
        hits += rank <= LISTED
        ranks += 1 / rank
    return RowTests(len(items), hits, ranks)


def with_tests(
    total: Total, tests: RowTests, sigma: float, key: np.uint64, *, secret: bool
) -> Total:
    """Returns a device's message with its tests, to go under masks.

    sigma: the standard deviation of its noise. secret: draws the noise from the operating system's
    generator in place of `key`.
    """
    shares = np.zeros(NUMBERS)
    if tests.rows:
        shares[:] = (1.0, tests.hits / tests.rows, tests.ranks / tests.rows)
    noise = _noise(sigma, key, secret)
    numbers = np.zeros((len(total.weight), NUMBERS), np.int64)
    numbers[0] = fixed(shares) + noise
    return total._replace(dense={**total.dense, TESTS: numbers})


def _noise(sigma: float, key: np.uint64, secret: bool) -> Int64Array:
    """Draws noise for each number, in steps of the fixed point."""
    table = gaussian_table(sigma / STEP)
    words = system_words(table.words * NUMBERS) if secret else SEEDED
    return integers(table, NUMBERS, key, words)


class SummedTests(NamedTuple):
    """The tests in one sum, each with noise."""

    round: int
    people: float
    """The people who had new rows."""
    hits: float
    ranks: float
    noise: float
    """The standard deviation of the noise of each number."""
    devices: int
    """The devices of the sum, with new rows or without."""

    @property
    def believable(self) -> bool:
        """False for numbers that these devices can hardly have: one of them lies."""
        room = FAR * self.noise
        least = min(self.people, self.hits, self.ranks)
        most = max(self.people, self.hits, self.ranks)
        if least < -room or most > self.devices + room:
            return False
        # Nobody has more hits than rows, and no rank is better than the first. The difference of
        # two numbers has the noise of both.
        above = most - self.people
        return above <= math.sqrt(2) * room


def without_tests(total: Total) -> tuple[Total, Float64Array]:
    """Returns a sum without its tests, which no algorithm knows, and their numbers: 0 for a sum
    that has none.
    """
    if TESTS not in total.dense:
        return total, np.zeros(NUMBERS)
    rest = {name: array for name, array in total.dense.items() if name != TESTS}
    return total._replace(dense=rest), real(total.dense[TESTS].sum(axis=0))


class Accuracy(NamedTuple):
    """The accuracy over some rounds."""

    first: int
    """The number of the first of these rounds."""
    last: int
    people: float
    """The people who had new rows, as often as they answered."""
    hit_rate: float | None
    """The mean over people of the share of new rows that their list would have had, HR@10; None
    where too few had new rows."""
    low: float | None
    """With `high` the interval that has the hit rate of all people in 95 % of cases."""
    high: float | None
    reciprocal_rank: float | None


def accuracy_of(sums: list[SummedTests]) -> Accuracy:
    """Returns the accuracy in the sums of some rounds, at least one."""
    people = math.fsum(one.people for one in sums)
    hits = math.fsum(one.hits for one in sums)
    ranks = math.fsum(one.ranks for one in sums)
    variance = math.fsum(one.noise**2 for one in sums)
    first, last = sums[0].round, sums[-1].round
    # A ratio whose denominator is mostly noise says nothing.
    if people <= 4 * math.sqrt(variance):
        return Accuracy(first, last, people, None, None, None, None)
    rate = min(1.0, max(0.0, hits / people))
    # Of the noise of both sums, and of who happened to answer: a share varies at most like a coin.
    of_noise = variance * (1 + rate**2)
    of_people = people * rate * (1 - rate)
    reach = 1.96 * math.sqrt(of_noise + of_people) / people
    # Noise may carry a ratio beyond what there can be.
    low = max(0.0, rate - reach)
    high = min(1.0, rate + reach)
    mean_rank = min(1.0, max(0.0, ranks / people))
    return Accuracy(first, last, people, rate, low, high, mean_rank)
