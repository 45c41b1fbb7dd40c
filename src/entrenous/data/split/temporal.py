"""Temporal hold-out per user (FPL, section 5.1 and 5.3): the newest rows of each user are test, the
newest of the rest validation.

`temporal-80-20` takes int(0.2 n) of a user's n rows, as the authors' program does, and int(0.2 m)
of the remaining m for validation. Newest is `Interactions.time_order`. Once settings are chosen,
the final model trains on training and validation rows together.

`fpl-80-20` holds out the same rows, and its catalogue is that of the authors' program, which reads
no other file than its training rows: the items that have one. No others are drawn as negatives,
sent or recommended; held-out rows of others count as missed."""

from __future__ import annotations

from dataclasses import replace

from ...core.types import BoolArray
from ...core.vocabulary import Vocabulary
from ..interactions import Interactions
from .types import Held, Split, assemble, hold_out, newest_first, percents, without_test


def temporal(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Split each user's rows by time, the protocol `temporal-A-B`: the latest B percent for test,
    the latest B percent of the rest for validation. A + B = 100.

    Nothing is drawn, so the seed has no effect. Raises InputError without times.
    """
    name = percents("temporal", train, test)
    validation, tested = hold_out(data, newest_first(data), test)
    return [assemble(name, data, validation, tested, refit=True, notes=without_test(data, tested))]


def temporal_trained(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Split as `temporal` does, over the items with training or validation rows alone, the protocol
    `fpl-A-B`.

    Raises InputError without times.
    """
    name = percents("fpl", train, test)
    return [_trained_items(temporal(data, train, test, seed=seed)[0], name)]


def _trained_items(split: Split, name: str) -> Split:
    """The split without the items that the final model has no row of."""
    known = split.final_train.popularity > 0
    train = split.train.of_items(known)
    validation = None if split.validation is None else _over(split.validation, known, train.items)
    note = (
        f"the catalogue: the {known.sum():,} of {len(known):,} items with a training or"
        " validation row"
    )
    test = _over(split.test, known, train.items)
    return split._replace(
        name=name, train=train, validation=validation, test=test, notes=(*split.notes, note)
    )


def _over(held: Held, known: BoolArray, items: Vocabulary) -> Held:
    """Held-out rows of the items `known` alone, which are called `items`, with the number of the
    others.
    """
    rows = replace(held.rows.of_items(known), items=items)
    absent = held.rows.counts - rows.counts
    return Held(rows, absent=absent if absent.any() else None)


PROTOCOLS = {"temporal-80-20": temporal, "fpl-80-20": temporal_trained}
