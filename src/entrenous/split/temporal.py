"""Temporal hold-out per user (FPL, section 5.1 and 5.3): the newest rows of each user are test, the newest of the rest
validation.

`temporal-80-20` takes int(0.2 n) of a user's n rows, as the authors' program does, and int(0.2 m) of the remaining m for
validation. Newest is `Interactions.time_order`. Once settings are chosen, the final model trains on training and validation rows
together.
"""

from __future__ import annotations

from ..data.interactions import Interactions
from .cut import assemble, hold_out, newest_first, percents, without_test
from .types import Split


def temporal(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Split each user's rows by time, the protocol `temporal-A-B`: the latest B percent for test, the latest B percent of the
    rest for validation. A + B = 100.

    Nothing is drawn, so the seed has no effect. Raises InputError without times.
    """
    name = percents("temporal", train, test)
    validation, tested = hold_out(data, newest_first(data), test)
    return [assemble(name, data, validation, tested, refit=True, notes=without_test(data, tested))]


PROTOCOLS = {"temporal-80-20": temporal}
