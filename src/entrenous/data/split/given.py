"""`given`: a split made elsewhere, such as the files that an author published, as a `Split` like
any other.

    train, test = entrenous.from_frame(...), entrenous.from_frame(...)
    split = given(train, test, candidates={"user": [...], "item": [...], "candidate": [...]})

The parts share external ids. Their vocabularies are united in order of appearance: training,
validation, test, candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ...core.contract.protocols import some_visits
from ...core.errors import InputError
from ...core.types import Array, BoolArray, Int32Array, Int64Array
from ..interactions import (
    Interactions,
    Vocabulary,
    build,
    find_rows,
    pair_name,
    pair_numbers,
    pairs_of,
)
from .candidates import only_negatives
from .types import Held, Split, cold_notes

Repeats = Literal["drop", "keep"]
"""The choices for a held-out row that is a training row too, as where people come back to a place:
drop: leave the held-out row out and count it, as published splits have it; keep: it counts, and the
items that a user has may be recommended.
"""


class CandidateColumns(NamedTuple):
    """Candidates as three parallel columns of external ids, text [n]."""

    user: Array
    """The user of a held-out row."""
    item: Array
    """The item of that row."""
    candidate: Array
    """An item that the row is ranked against."""


def given(
    train: Interactions,
    test: Interactions,
    validation: Interactions | None = None,
    candidates: Any = None,
    *,
    validation_candidates: Any = None,
    name: str = "given",
    refit: bool = False,
    repeats: Repeats = "drop",
    notes: tuple[str, ...] = (),
) -> Split:
    """Returns the Split with these parts.

    candidates, validation_candidates: a frame or a mapping with the columns user, item, candidate,
    one line for each item that the held-out (user, item) is ranked against; rows may have different
    numbers of them. None stands for full ranking only. refit: True if the final model trains on
    training and validation rows, False if it trains on training rows alone. repeats: see `Repeats`;
    a row of two parts is dropped from the later one.

    Raises InputError for an empty part, a candidate of no held-out row, and a held-out row without
    candidates.
    """
    parts = {"train": train, "test": test}
    if validation is not None:
        # The order of the parts is the order in which they number users and items.
        parts = {"train": train, "validation": validation, "test": test}
    for label, part in parts.items():
        _refuse_empty(label, part)
    tables = {"validation": _table(validation_candidates), "test": _table(candidates)}
    candidate_ids = [table.candidate for table in tables.values() if table is not None]
    parts = _share_ids(parts, candidate_ids)
    again = _again(parts)
    notes += _repeated(again, repeats)
    positives = np.concatenate([pairs_of(part) for part in parts.values()])
    # Held-out rows with their candidates, over the united vocabularies.
    held = {}
    for label, rows in parts.items():
        if label == "train":
            continue
        dropped = np.empty(0, np.int64)
        if repeats == "drop" and label in again:
            dropped = pairs_of(rows)[again[label]]
            rows = rows.select(~again[label])
            _refuse_empty(label, rows, " left without repeats")
        held[label] = Held(rows, repeats=repeats == "keep")
        table = tables[label]
        if table is not None:
            listed = _rows(rows, table, label, dropped)
            left = only_negatives(label, listed, rows.user, rows.item, positives, rows)
            held[label] = held[label]._replace(candidates=left.table)
            notes += left.notes
    split = Split(name, parts["train"], held.get("validation"), held["test"], refit)
    return split._replace(notes=notes + cold_notes(split, split.final_train))


def _table(columns: Any) -> CandidateColumns | None:
    """Returns the candidates of a frame or mapping. Raises InputError for a missing column."""
    if columns is None or isinstance(columns, CandidateColumns):
        return columns
    # A frame has `columns`; a mapping yields its names.
    present = list(getattr(columns, "columns", columns))
    for name in CandidateColumns._fields:
        if name not in present:
            names = ", ".join(map(str, present))[:200]
            raise InputError(
                "candidates",
                f"no column {name} among {names}",
                expected="columns user, item, candidate",
            )
    arrays = [np.asarray(columns[name]) for name in CandidateColumns._fields]
    return CandidateColumns(*(column.astype(np.str_) for column in arrays))


def _share_ids(parts: dict[str, Interactions], candidates: list[Array]) -> dict[str, Interactions]:
    """Returns the parts over united vocabularies, features and scale, with rows whose places in the
    source differ across the parts.
    """
    # The order of the parts decides the numbers of users and items.
    listed = list(parts.values())
    users = _united([part.users for part in listed], [], "user")
    items = _united([part.items for part in listed], candidates, "item")
    labels = dict.fromkeys(label for part in listed for label in part.features)
    features = {label: _feature(label, listed, items) for label in labels}
    scale = _scale(listed)
    moved = {}
    for label, part in parts.items():
        united = _over(part, users, items)
        moved[label] = replace(united, features=features, scale=scale)
    # Parts of one file have its places; parts that were read apart each count from 0.
    places = [part.row for part in moved.values() if part.row is not None]
    taken = np.concatenate(places) if places else np.empty(0, np.int64)
    if len(np.unique(taken)) == len(taken):
        return moved
    start = 0
    ordered = {}
    for label, part in moved.items():
        ordered[label] = _behind(part, start)
        start += _last_place(part) + 1
    return ordered


def _last_place(part: Interactions) -> int:
    """Returns the last place in the source of a row or a visit; -1 for a part without places."""
    last = -1
    if part.row is not None:
        last = int(part.row.max(initial=last))
    if part.visits is not None:
        last = int(part.visits.row.max(initial=last))
    return last


def _behind(part: Interactions, start: int) -> Interactions:
    """Returns the part with every place in the source moved on by `start`."""
    if part.row is None:
        return part
    visits = part.visits
    if visits is not None:
        visits = visits._replace(row=visits.row + start)
    return replace(part, row=part.row + start, visits=visits)


def _scale(parts: Sequence[Interactions]) -> tuple[float, float]:
    """Returns the scale that holds the ratings of all parts."""
    lowest, highest = zip(*(part.rating_scale for part in parts), strict=True)
    return min(lowest), max(highest)


def _united(vocabularies: Sequence[Vocabulary], further: Sequence[Array], kind: str) -> Vocabulary:
    """Returns the ids of all vocabularies and then the `further` ones, each once. The first
    vocabulary itself is returned if it has them all.
    """
    # Kept if it has every id, so that the parts of one file go on to share it.
    kinds = {vocabulary.whole for vocabulary in vocabularies}
    whole = _widest(kinds) if all(kinds) else ""
    first = vocabularies[0]
    kept = first
    if first.whole != whole:
        kept = Vocabulary(first.ids, kind=kind, whole=whole)
    # Parts of one data set share a vocabulary, which need not be walked id by id.
    others = [other for other in vocabularies if other is not first]
    if not further and all(first.same(other) for other in others):
        return kept
    ids = dict.fromkeys(first.ids.tolist())
    for names in [*(other.ids for other in others), *further]:
        ids.update(dict.fromkeys(names.tolist()))
    if len(ids) == len(first):
        return kept
    return Vocabulary(list(ids), kind=kind, whole=whole)


def _widest(kinds: Collection[str]) -> str:
    """Returns the type that holds whole numbers of several types; "" if only floats would."""
    widest = np.result_type(*map(np.dtype, kinds))
    return widest.name if widest.kind in "iu" else ""


def _over(part: Interactions, users: Vocabulary, items: Vocabulary) -> Interactions:
    """Returns `part` with the numbers of other vocabularies; its places in the source are kept."""
    if part.users is users and part.items is items:
        return part
    new_user = users.indices(list(part.users.ids))
    new_item = items.indices(list(part.items.ids))
    moved = build(
        new_user[part.user],
        new_item[part.item],
        value=part.value,
        time=part.time,
        users=users,
        items=items,
        name=part.name,
        reading=part.reading,
    )
    # `build` sets `row` to the position of each row in `part`.
    position = moved.row
    assert position is not None
    row = None
    if part.row is not None:
        row = part.row[position]
    visits = some_visits(part.visits, position)
    return replace(moved, row=row, visits=visits, frames=part.frames)


def _feature(label: str, parts: Sequence[Interactions], items: Vocabulary) -> Array:
    """Returns an item column over the united vocabulary. Of several parts that know an item, the
    first decides.
    """
    column = np.full(len(items), "", dtype=object)
    # An earlier part overwrites the later ones.
    for part in reversed(parts):
        if label in part.features:
            texts = np.asarray(part.features[label])
            place = items.indices(list(part.items.ids))
            # "" stands for not known, and -1 for an item that the united catalogue lacks.
            known = (texts != "") & (place >= 0)
            column[place[known]] = texts[known]
    return column


def with_features(split: Split, data: Interactions) -> Split:
    """Returns the split with the item features of `data`, except those of a name that the split
    has itself.
    """
    train = split.train
    features = {
        label: _feature(label, [data], train.items)
        for label in data.features
        if label not in train.features
    }
    features |= train.features

    def described(held: Held) -> Held:
        return held._replace(rows=replace(held.rows, features=features))

    return split._replace(
        train=replace(train, features=features),
        validation=None if split.validation is None else described(split.validation),
        test=described(split.test),
    )


def _refuse_empty(label: str, part: Interactions, but: str = "") -> None:
    if not len(part):
        raise InputError(
            "protocol given",
            f"the {label} part has no rows{but}",
            expected="rows to train on and rows to test",
        )


def _again(parts: dict[str, Interactions]) -> dict[str, BoolArray]:
    """Returns for each held-out part with repeats its rows that an earlier part has too, bool
    [rows].
    """
    again = {}
    earlier = np.empty(0, np.int64)
    for label, part in parts.items():
        pairs = pairs_of(part)
        is_again = np.isin(pairs, earlier)
        if is_again.any():
            again[label] = is_again
        earlier = np.concatenate([earlier, pairs])
    return again


def _repeated(again: dict[str, BoolArray], repeats: Repeats) -> tuple[str, ...]:
    """Returns a note on the repeats of each part."""
    what = "left out" if repeats == "drop" else "kept, so that the items of a user compete"
    return tuple(
        f"{label} rows that are rows of an earlier part too, {what} (repeats={repeats}):"
        f" {is_again.sum()}"
        for label, is_again in again.items()
    )


def _rows(
    rows: Interactions, table: CandidateColumns, label: str, dropped: Int64Array
) -> Int32Array:
    """Returns the candidates of each held-out row, int32 [rows, k], in the order of the table; -1
    where a row has fewer. Raises InputError for a line of no row, and for a row without a line.

    dropped: the pairs of rows that were left out, whose lines are left out too.
    """
    user = rows.users.indices(list(table.user))
    item = rows.items.indices(list(table.item))
    # The held-out row of each line.
    row = find_rows(rows, user, item)
    is_dropped = np.isin(pair_numbers(user, item, len(rows.items)), dropped)
    strange = np.flatnonzero((row < 0) & ~is_dropped)
    if len(strange):
        line = strange[0]
        pair = f"user '{table.user[line]}', item '{table.item[line]}'"
        raise InputError(
            f"{label} candidates",
            f"line {line + 1} is for {pair}, which is not a {label} row",
            fix="remove the line",
        )
    row = row[~is_dropped]
    # The number of lines of each held-out row.
    counts = np.bincount(row, minlength=len(rows))
    without = np.flatnonzero(counts == 0)
    if len(without):
        row = without[0]
        first = pair_name(rows, rows.user[row], rows.item[row])
        raise InputError(
            f"{label} candidates",
            f"{label} rows without any: {len(without)}; the first is {first}",
            fix="add candidates",
        )
    # The lines row by row, and the number of each line among those of its row.
    order = np.argsort(row, kind="stable")
    first_line = np.cumsum(counts) - counts
    column = np.arange(len(row)) - np.repeat(first_line, counts)
    candidate = rows.items.indices(list(table.candidate[~is_dropped]))
    most = int(counts.max())
    candidates = np.full((len(rows), most), -1, np.int32)
    candidates[row[order], column] = candidate[order]
    return candidates
