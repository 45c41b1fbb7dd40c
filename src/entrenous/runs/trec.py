"""A run for other evaluators: lists and held-out rows in the formats of TREC, which trec_eval and
ir-measures read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.files import write_atomically
from ..core.types import Int32Array
from ..core.vocabulary import Vocabulary
from ..data.interactions import Interactions
from ..data.split.types import Split
from ..evaluate.recommend import recommend

# The name of a held-out item that is not in the catalogue begins so.
NOT_LISTED = "absent"


class TrecFiles(NamedTuple):
    """The files of a run."""

    run: Path
    """Lines of `user Q0 item rank score tag`."""
    qrels: Path
    """Lines of `user 0 item 1`."""


def write_trec(
    folder: Path,
    recommender: Any,
    split: Split,
    *,
    n: int = 100,
    label: str = "entrenous",
    seed: int = 0,
) -> TrecFiles:
    """Writes the n best items of every user with held-out rows, and these rows.

    A user's training rows are left out of their list, and validation rows where the evaluation
    leaves them out too. Held-out rows of items that are not in the catalogue are in no list; in the
    qrels their items are called absent-0, absent-1, ...

    label: the tag of the run. seed: orders equal scores, as in the run. Raises InputError for an id
    with a blank in it, which the format cannot hold, and for a folder that cannot be written to.
    """
    train = split.final_train
    held = split.test.rows
    _refuse_blanks(train.users)
    _refuse_blanks(train.items)
    absent = split.test.absent
    if absent is None:
        absent = np.zeros(len(train.users), np.int64)
    users = np.flatnonzero(held.counts + absent)
    seen = _seen(split)
    # The lists are longer by as many items as are taken out of them.
    most_seen = int(seen.counts.max(initial=0))
    length = min(n + most_seen, len(train.items))
    best = recommend(recommender, train, users, length, label=label, seed=seed)
    # Fields of the format are separated by blanks.
    tag = re.sub(r"\s", "_", label)
    lists = []
    for row, user in enumerate(users.tolist()):
        name = train.users[user]
        seen_by_user = seen.item[seen.ptr[user] : seen.ptr[user + 1]]
        ranked = _left(best.item[row].tolist(), best.score[row].tolist(), seen_by_user, n)
        for place, (item, score) in enumerate(ranked, start=1):
            lists.append(f"{name} Q0 {train.items[item]} {place} {score!r} {tag}")
    judged = []
    for user, item in zip(held.user.tolist(), held.item.tolist(), strict=True):
        judged.append(f"{held.users[user]} 0 {held.items[item]} 1")
    # Items outside the catalogue have no name here, but count as missed.
    for user in np.flatnonzero(absent).tolist():
        for number in range(absent[user]):
            judged.append(f"{held.users[user]} 0 {NOT_LISTED}-{number} 1")
    files = TrecFiles(folder / "run.trec", folder / "qrels.trec")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, lines in zip(files, (lists, judged), strict=True):
            write_atomically(path, ("\n".join(lines) + "\n").encode())
    except OSError as cause:
        raise InputError(
            str(folder),
            f"cannot be written ({cause.strerror})",
            expected="a folder you may write to",
        ) from None
    return files


def _seen(split: Split) -> Interactions:
    """Rows that do not compete although nothing was learnt from them: validation rows, unless the
    model was refitted on them.
    """
    if split.left_out is not None:
        return split.left_out
    none = np.zeros(len(split.train), bool)
    return split.train.select(none)


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


def _refuse_blanks(names: Vocabulary) -> None:
    bad = next((name for name in names.ids if re.search(r"\s", str(name))), None)
    if bad is not None:
        raise InputError(
            names.kind,
            f"the id '{bad}' has a blank in it",
            expected="ids without blanks, in TREC's formats",
        )
