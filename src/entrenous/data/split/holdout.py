"""Random hold-out per user: `random-80-20` draws int(0.2 n) of a user's n rows for test and int(0.2
m) of the remaining m for validation.

The draw is keyed by (seed, user, item), so it does not depend on the order of the source. Needs no
times. The final model trains on training and validation rows.
"""

from __future__ import annotations

from ...core.keys import key
from ..interactions import Interactions
from .types import Split, assemble, hold_out, percents, shuffled, without_test


def random(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Holds out each user's rows at random, the protocol `random-A-B`: B percent for test, B
    percent of the rest for validation. Raises InputError unless A + B = 100.
    """
    name = percents("random", train, test)
    place = shuffled(data, key(seed, "split", "random"))
    validation, tested = hold_out(data, place, test)
    notes = without_test(data, tested)
    return [assemble(name, data, validation, tested, refit=True, notes=notes)]


PROTOCOLS = {"random-80-20": random}
