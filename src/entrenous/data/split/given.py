"""`given`: a split made elsewhere, such as the files that an author published. It is a `Split` like
any other.

    train, test = entrenous.from_frame(...), entrenous.from_frame(...)
    split = given(train, test, candidates={"user": [...], "item": [...], "candidate": [...]})

The parts share external ids. Their vocabularies are united in order of appearance: training,
validation, test, candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ...core.contract.protocols import some_visits
from ...core.errors import InputError
from ...core.types import Array, Int32Array
from ...core.vocabulary import Vocabulary
from ..interactions import Interactions, build, pairs_of
from .types import Held, Split, cold_notes


class CandidateColumns(NamedTuple):
    """Candidates as three parallel columns of external ids: `user`'s held-out `item` is ranked
    against `candidate`.
    """

    user: Array
    item: Array
    candidate: Array


def given(
    train: Interactions,
    test: Interactions,
    validation: Interactions | None = None,
    candidates: Any = None,
    *,
    validation_candidates: Any = None,
    name: str = "given",
    refit: bool = False,
    notes: tuple[str, ...] = (),
) -> Split:
    """The Split with these parts.

    candidates, validation_candidates: a frame or a mapping with the columns user, item, candidate,
    one line for each item that the held-out (user, item) is ranked against; the numbers may differ
    from row to row. None = full ranking only. refit: whether the final model trains on training and
    validation rows (else on training rows alone).

    Raises InputError if a part is empty, a (user, item) pair in two parts, a candidate of no
    held-out row, or a held-out row without candidates."""
    parts = (
        {"train": train, "test": test}
        if validation is None
        else {"train": train, "validation": validation, "test": test}
    )
    empty = [label for label, part in parts.items() if not len(part)]
    if empty:
        raise InputError(
            "protocol given",
            f"the {empty[0]} part has no rows",
            expected="rows to train on and rows to test",
        )
    tables = {"validation": _table(validation_candidates), "test": _table(candidates)}
    parts = _share_ids(parts, [table.candidate for table in tables.values() if table is not None])
    _refuse_overlap(parts)
    held = {
        label: Held(parts[label], _rows(parts[label], tables[label], label))
        for label in parts
        if label != "train"
    }
    notes += tuple(note for label in held for note in _consumed(parts, held[label], label))
    split = Split(name, parts["train"], held.get("validation"), held["test"], refit, notes)
    return split._replace(notes=notes + cold_notes(split, split.final_train))


def _table(columns: Any) -> CandidateColumns | None:
    if columns is None or isinstance(columns, CandidateColumns):
        return columns
    present = list(getattr(columns, "columns", columns))
    missing = [name for name in CandidateColumns._fields if name not in present]
    if missing:
        problem = f"no column {missing[0]} among {', '.join(map(str, present))[:200]}"
        raise InputError("candidates", problem, expected="columns user, item, candidate")
    return CandidateColumns(
        *(np.asarray(columns[name]).astype(np.str_) for name in CandidateColumns._fields)
    )


def _share_ids(parts: dict[str, Interactions], candidates: list[Array]) -> dict[str, Interactions]:
    """The parts over united vocabularies and features, with rows that are in one order across the
    parts.
    """
    users = _united([part.users for part in parts.values()], [], "user")
    items = _united([part.items for part in parts.values()], candidates, "item")
    labels = dict.fromkeys(label for part in parts.values() for label in part.features)
    features = {label: _feature(label, list(parts.values()), items) for label in labels}
    scale = _scale(list(parts.values()))
    moved = {
        label: replace(_over(part, users, items), features=features, scale=scale)
        for label, part in parts.items()
    }
    # Places in the source must differ across the parts.
    rows = [part.row for part in moved.values() if part.row is not None]
    taken = np.concatenate(rows) if rows else np.empty(0, np.int64)
    if len(np.unique(taken)) == len(taken):
        return moved
    start = 0
    ordered = {}
    for label, part in moved.items():
        ordered[label] = _behind(part, start)
        start += _last_place(part) + 1
    return ordered


def _last_place(part: Interactions) -> int:
    """The last place in the source of a row or a visit; -1 without any."""
    columns = [part.row, None if part.visits is None else part.visits.row]
    return max([-1, *(int(column.max(initial=-1)) for column in columns if column is not None)])


def _behind(part: Interactions, start: int) -> Interactions:
    """The part with every place in the source moved on by `start`."""
    visits = None if part.visits is None else part.visits._replace(row=part.visits.row + start)
    return part if part.row is None else replace(part, row=part.row + start, visits=visits)


def _scale(parts: Sequence[Interactions]) -> tuple[float, float]:
    """The scale that all parts are rated on."""
    scales = [part.rating_scale for part in parts if len(part)] or [(1.0, 1.0)]
    return min(low for low, _ in scales), max(high for _, high in scales)


def _united(vocabularies: Sequence[Vocabulary], more: Sequence[Array], kind: str) -> Vocabulary:
    first = vocabularies[0]
    if not more and all(
        other is first or np.array_equal(other.ids, first.ids) for other in vocabularies[1:]
    ):
        return first
    ids = dict.fromkeys(
        str(name) for group in [*(v.ids for v in vocabularies), *more] for name in group
    )
    return first if len(ids) == len(first) else Vocabulary(list(ids), kind=kind)


def _over(part: Interactions, users: Vocabulary, items: Vocabulary) -> Interactions:
    """`part` with the indices of other vocabularies, its source positions kept."""
    if part.users is users and part.items is items:
        return part
    moved = build(
        users.indices(list(part.users.ids))[part.user],
        items.indices(list(part.items.ids))[part.item],
        value=part.value,
        time=part.time,
        users=users,
        items=items,
        name=part.name,
        notes=part.notes,
    )
    # `build` sets `row` to the position of each row in `part`.
    assert moved.row is not None
    visits = some_visits(part.visits, moved.row)
    return replace(moved, row=None if part.row is None else part.row[moved.row], visits=visits)


def _feature(label: str, parts: Sequence[Interactions], items: Vocabulary) -> Array:
    """One item column over the united vocabulary; the first part that knows an item decides."""
    column = np.full(len(items), "", dtype=object)
    for part in reversed(parts):
        if label in part.features:
            values, at = np.asarray(part.features[label]), items.indices(list(part.items.ids))
            known = (values != "") & (at >= 0)
            column[at[known]] = values[known]
    return column.astype(np.str_)


def with_features(split: Split, data: Interactions) -> Split:
    """The split with the features of `data` for its items, unless it has a feature of that name."""
    items, own = split.train.items, split.train.features
    features = {
        label: _feature(label, [data], items) for label in data.features if label not in own
    }
    features |= own

    def described(held: Held) -> Held:
        return held._replace(rows=replace(held.rows, features=features))

    return split._replace(
        train=replace(split.train, features=features),
        validation=None if split.validation is None else described(split.validation),
        test=described(split.test),
    )


def _refuse_overlap(parts: dict[str, Interactions]) -> None:
    for a, b in combinations(parts, 2):
        both = np.intersect1d(pairs_of(parts[a]), pairs_of(parts[b]))
        if len(both):
            user, item = divmod(int(both[0]), len(parts[a].items))
            first = f"the first is user '{parts[a].users[user]}', item '{parts[a].items[item]}'"
            problem = f"rows in both {a} and {b}: {len(both)}; {first}"
            raise InputError(
                "protocol given",
                problem,
                expected="disjoint parts",
                fix=f"remove them from {a} or {b}",
            )


def _rows(rows: Interactions, table: CandidateColumns | None, label: str) -> Int32Array | None:
    """The candidates of each held-out row, int32 [rows, k], in the table's order, -1 where a row
    has fewer.
    """
    if table is None:
        return None
    user, item = rows.users.indices(list(table.user)), rows.items.indices(list(table.item))
    pair, pairs = user.astype(np.int64) * len(rows.items) + item, pairs_of(rows)
    at = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
    strange = np.flatnonzero((user < 0) | (item < 0) | (pairs[at] != pair))
    if len(strange):
        who = f"user '{table.user[strange[0]]}', item '{table.item[strange[0]]}'"
        raise InputError(
            f"{label} candidates",
            f"line {strange[0] + 1} is for {who}, which is not a {label} row",
            fix="remove the line",
        )
    counts = np.bincount(at, minlength=len(rows))
    if counts.min() == 0:
        none = int(np.argmin(counts))
        who = (
            f"user '{rows.users[int(rows.user[none])]}', item '{rows.items[int(rows.item[none])]}'"
        )
        raise InputError(
            f"{label} candidates",
            f"{label} rows without any: {int((counts == 0).sum())}; the first is {who}",
            fix="add candidates",
        )
    order = np.argsort(at, kind="stable")
    column = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.full((len(rows), int(counts.max())), -1, np.int32)
    out[at[order], column] = rows.items.indices(list(table.candidate[order]))
    return out


def _consumed(parts: dict[str, Interactions], held: Held, label: str) -> tuple[str, ...]:
    """The note on candidates that their user did interact with: they are not negatives."""
    if held.candidates is None:
        return ()
    pairs = held.rows.user.astype(np.int64)[:, None] * len(held.rows.items) + held.candidates
    consumed = np.concatenate([pairs_of(part) for part in parts.values()])
    known = np.isin(pairs, consumed) & (held.candidates >= 0)
    if not known.any():
        return ()
    return (f"{label} candidates that their user interacted with: {int(known.sum())}",)
