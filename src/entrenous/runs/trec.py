"""A run for other evaluators: lists and held-out rows in the formats of TREC, which trec_eval and
ir-measures read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.files import write_all
from ..core.types import Int32Array
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..evaluation.recommend import Allowed, recommend

# The name of a held-out item that is not in the catalogue begins so.
NOT_LISTED = "absent"


class TrecFiles(NamedTuple):
    """The files of a run."""

    run: Path
    """Lines of `user Q0 item rank score tag`."""
    qrels: Path
    """Lines of `user 0 item 1`."""


def write_trec(folder: Path, contents: dict[str, bytes]) -> TrecFiles:
    """Writes what `trec_files` returns into a folder, both files or none. Raises InputError for a
    folder that cannot be written to.
    """
    try:
        return TrecFiles(*write_all(folder, contents))
    except OSError as cause:
        raise InputError(
            str(folder),
            f"cannot be written ({cause.strerror})",
            expected="a folder you may write to",
        ) from None


def trec_files(
    recommender: Any,
    split: Split,
    *,
    n: int = 100,
    label: str = "entrenous",
    seed: int = 0,
) -> dict[str, bytes]:
    """The n best items of every user with held-out rows, and these rows, as the contents of files
    by name.

    A user's training rows are left out of their list, and validation rows where the evaluation
    leaves them out too; neither if the held-out rows may be training rows (`Held.repeats`).
    Held-out rows of items that are not in the catalogue are in no list; in the qrels their items
    are called absent-0, absent-1, ...

    label: the tag of the run. seed: orders equal scores, as in the run. Raises InputError for an id
    with a blank in it, which the format cannot hold.
    """
    train = split.final_train
    held = split.test.rows
    refuse_blanks(train)
    absent = split.test.absent
    if absent is None:
        absent = np.zeros(len(held.users), np.int64)
    users = np.flatnonzero(held.counts + absent)
    seen = _seen(split)
    # The lists are longer by as many items as are taken out of them.
    most_seen = int(seen.counts.max(initial=0))
    length = min(n + most_seen, len(train.items))
    allowed = Allowed(train.popularity > 0, split.test.repeats)
    best = recommend(recommender, train, users, length, allowed=allowed, label=label, seed=seed)
    # Fields of the format are separated by blanks.
    tag = re.sub(r"\s", "_", label)
    lists = []
    for row, user in enumerate(users.tolist()):
        name = held.users[user]
        seen_by_user = seen.item[seen.ptr[user] : seen.ptr[user + 1]]
        ranked = _left(best.item[row].tolist(), best.score[row].tolist(), seen_by_user, n)
        for place, (item, score) in enumerate(ranked, start=1):
            lists.append(f"{name} Q0 {train.items[item]} {place} {score!r} {tag}")
    judged = [
        f"{held.users[user]} 0 {held.items[item]} 1"
        for user, item in zip(held.user.tolist(), held.item.tolist(), strict=True)
    ]
    # Items outside the catalogue have no name here, but count as missed.
    for user in np.flatnonzero(absent).tolist():
        for number in range(absent[user]):
            judged.append(f"{held.users[user]} 0 {NOT_LISTED}-{number} 1")
    named = {"run.trec": lists, "qrels.trec": judged}
    return {name: ("\n".join(lines) + "\n").encode() for name, lines in named.items()}


def _seen(split: Split) -> Interactions:
    """Rows that do not compete although nothing was learnt from them: validation rows, unless the
    model was refitted on them.
    """
    if split.left_out is not None and not split.test.repeats:
        return split.left_out
    rows = split.test.rows
    return rows.select(np.zeros(len(rows), bool))


def _left(
    items: list[int], scores: list[float], seen: Int32Array, n: int
) -> list[tuple[int, float]]:
    """The first n of a list that are not among `seen`.

    Other evaluators sort by score alone: an equal score is lowered by the least step of float32, so
    that they keep our order.
    """
    left = []
    above = np.float32(np.inf)
    for item, score in zip(items, scores, strict=True):
        if item >= 0 and item not in seen:
            least_below = np.nextafter(above, np.float32(-np.inf))
            above = min(np.float32(score), least_below)
            left.append((item, float(above)))
    return left[:n]


def refuse_blanks(rows: Interactions) -> None:
    """Raises InputError for an id that TREC's formats cannot hold."""
    for names in (rows.users, rows.items):
        for name in names.ids:
            if re.search(r"\s", str(name)):
                raise InputError(
                    names.kind,
                    f"the id '{name}' has a blank in it, by which TREC's formats separate fields",
                    expected="ids without blanks, for run.trec and qrels.trec",
                    fix="use `entrenous export --format csv`, or rename the ids",
                )
