"""Temporal hold-out per user (FPL, section 5.1 and 5.3): the newest rows of each user are test, the
newest of the rest validation.

`temporal-80-20` takes int(0.2 n) of a user's n rows, as the authors' program does, and int(0.2 m)
of the remaining m for validation. Newest is `newest_first`. Once settings are chosen,
the final model trains on training and validation rows together.

`fpl-80-20` holds out the same rows. Its catalogue is that of the authors' program, which reads no
other file than its training rows: the items with a training row. No other item is drawn as a
negative, sent or recommended, and a held-out row of another item counts as missed.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.types import BoolArray
from ..interactions import Interactions, Vocabulary
from .types import (
    Held,
    Split,
    assemble,
    hold_out,
    newest_first,
    percents,
    tie_notes,
    without_test,
)


def temporal(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Splits each user's rows by time, the protocol `temporal-A-B`: the latest B percent for test,
    the latest B percent of the rest for validation.

    Nothing is drawn. Raises InputError for data without times, and unless A + B = 100.
    """
    name = percents("temporal", train, test)
    place = newest_first(data)
    validation, tested = hold_out(data, place, test)
    notes = (*without_test(data, tested), *tie_notes(data, place, validation, tested))
    return [assemble(name, data, validation, tested, refit=True, notes=notes)]


def temporal_trained(data: Interactions, train: int, test: int, *, seed: int) -> list[Split]:
    """Splits as `temporal` does, over the items with training or validation rows alone, the
    protocol `fpl-A-B`. Raises InputError as `temporal` does.
    """
    name = percents("fpl", train, test)
    [split] = temporal(data, train, test, seed=seed)
    return [trained_items(split, name)]


def trained_items(split: Split, name: str) -> Split:
    """Returns the split without the items that the final model has no row of."""
    # Judged by the final model, so that both trainings have one catalogue.
    known = split.final_train.popularity > 0
    train = split.train.of_items(known)
    validation = split.validation
    if validation is not None:
        validation = _over(validation, known, train.items)
    kept = f"{known.sum():,} of {len(known):,}"
    note = f"the catalogue: the {kept} items with a training or validation row"
    test = _over(split.test, known, train.items)
    return split._replace(
        name=name, train=train, validation=validation, test=test, notes=(*split.notes, note)
    )


def _over(held: Held, known: BoolArray, items: Vocabulary) -> Held:
    """Returns the held-out rows of the items marked `known`, over the vocabulary `items` of these,
    and counts the other rows as absent.
    """
    # The vocabulary itself, not an equal one: parts of one split share it.
    rows = replace(held.rows.of_items(known), items=items)
    absent = held.rows.counts - rows.counts
    return Held(rows, absent=absent if absent.any() else None)


PROTOCOLS = {"temporal-80-20": temporal, "fpl-80-20": temporal_trained}
