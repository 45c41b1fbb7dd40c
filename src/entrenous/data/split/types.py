"""`Split`: what is trained on, what chooses, and what is opened once, by evaluation."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np

from ...core.types import Array, Int32Array, Int64Array
from ...core.visits import joined_visits, some_visits
from ...core.vocabulary import Vocabulary
from ..interactions import Interactions


class Held(NamedTuple):
    """Held-out rows over the same users and items as the training rows.

    candidates: int32 [len(rows), k], the negatives each held-out row is ranked against, in the
    order of `rows` (-1 where a row has fewer); None = full ranking only. cold: whether items
    without a training row compete like all others. Not where a server knows which these are, and
    never recommends them; between peers nobody does. absent: int64 [users], how many more rows of
    each user are held out, of items that are not in the catalogue; they count as missed. None =
    none.
    """

    rows: Interactions
    candidates: Int32Array | None = None
    cold: bool = False
    absent: Int64Array | None = None


class Split(NamedTuple):
    """One division of a data set into training, validation and test rows.

    train: what models see while settings are chosen. validation: what chooses. test: read by
    `evaluate` alone. refit: whether, once settings are chosen, the final model trains on train +
    validation (FPL section 5.3; NCF) or on train alone. notes: what the split did and what it could
    not hold, one sentence each. weighting: whether the validation rows are the devices' own
    weighting sets (PEPPER, algorithm 2, lines 2-5), which their devices may use in training too.
    """

    name: str
    train: Interactions
    validation: Held | None
    test: Held
    refit: bool
    notes: tuple[str, ...] = ()
    weighting: bool = False

    @property
    def weighting_sets(self) -> Held | None:
        """The rows that devices keep from training to judge received models by, where the protocol
        defines them; else None.
        """
        return self.validation if self.weighting else None

    @property
    def left_out(self) -> Interactions | None:
        """Validation rows that the final model does not train on, which do not compete with test
        rows; None if it trains on them.
        """
        return None if self.refit or self.validation is None else self.validation.rows

    @property
    def all_rows(self) -> Interactions:
        """Every row, held-out ones too: what the data is, not what a model may see."""
        held = [held.rows for held in (self.validation, self.test) if held is not None]
        return reduce(union, held, self.train)

    @property
    def final_train(self) -> Interactions:
        """The rows that the finally evaluated model trains on: train, with validation if
        `refit`.
        """
        if not self.refit or self.validation is None:
            return self.train
        return union(self.train, self.validation.rows)


def union(left: Interactions, right: Interactions) -> Interactions:
    """The rows of two Interactions that share no row, over the same users and items."""
    from dataclasses import replace

    user = np.concatenate([left.user, right.user])
    item = np.concatenate([left.item, right.item])
    order = np.lexsort((item, user))
    counts, visits = left.counts + right.counts, joined_visits([left.moments, right.moments])
    return replace(
        left,
        ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        item=item[order],
        value=np.concatenate([left.value, right.value])[order],
        time=(
            None
            if left.time is None or right.time is None
            else np.concatenate([left.time, right.time])[order]
        ),
        row=(
            None
            if left.row is None or right.row is None
            else np.concatenate([left.row, right.row])[order]
        ),
        visits=some_visits(visits, order),
    )


def between_peers(split: Split) -> Split:
    """The split for devices without a server: its validation rows are their weighting sets, and
    every item competes.
    """
    validation = None if split.validation is None else split.validation._replace(cold=True)
    return split._replace(
        validation=validation, test=split.test._replace(cold=True), weighting=True
    )


def describe_cold(train: Interactions, held: Interactions, what: str) -> tuple[str, ...]:
    """Counts and names (up to three) the users and items of `held` that `train` has never seen."""
    notes = []
    for label, seen, wanted, names in (
        ("user", train.counts > 0, held.counts > 0, train.users),
        ("item", train.popularity > 0, held.popularity > 0, train.items),
    ):
        cold = np.flatnonzero(wanted & ~seen)
        if len(cold):
            notes.append(
                f"{label}s of the {what} rows that never occur in training: {len(cold)}"
                f" {named(cold, names)}"
            )
    return tuple(notes)


def named(indices: Array, names: Vocabulary) -> str:
    """Up to three external ids in brackets.

    >>> named(np.array([0, 2]), Vocabulary(["ann", "bob", "eve"]))
    '(ann, eve)'
    """
    some = ", ".join(names[int(index)] for index in indices[:3])
    return f"({some}{', ...' if len(indices) > 3 else ''})"
