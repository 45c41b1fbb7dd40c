"""Whether today's program still gives the trainings behind a stored result: a sample of them is
begun again and compared.

A change of the program that leaves every figure alone makes a result stale all the same. Two
records of the time when it was fresh tell such a change from one that matters, without days of
training: a sample of its trainings, and what the table makes of made-up outcomes (`made_up`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from entrenous.core.contract.protocols import Progress, silent
from entrenous.core.errors import one_line

from .cell import Cell, CellPart, Outcome
from .estimate import asked_of
from .made_up import recorded_sha256, table_sha256
from .provenance import SETTINGS, TABLE, TRAINING, commit, places, programs
from .remember import Cells, Pair
from .result import Context
from .runner import experiments, need_scipy
from .stored import FOLDER, StoredResult, rewrite, stored_in
from .table import PaperTable

BEGUN = (
    1,
    10,
)  # epochs after which a training that is begun again is compared, of those that it has
MOST = 12  # trainings of a result, where it has no more algorithms and data sets
TIMES = {"seconds": 0.0, "cpu_seconds": 0.0}  # of a look: no two trainings take the same

Sample = dict[str, str]  # {what is trained: identity of what it gave}


class Confirmed(NamedTuple):
    """What became of a result. differ: trainings that give something else now. failed: why nothing
    could be said, "" if it could.
    """

    name: str
    said: str
    differ: Sequence[str] = ()
    failed: str = ""


def confirm(
    names: Sequence[str] = (),
    *,
    out: Path = FOLDER,
    cells: Path | None = None,
    threads: int = 0,
    progress: Progress = silent,
) -> Iterator[Confirmed]:
    """For every stored result (of `names`): records a sample of its trainings and the identity of
    its table if it is fresh and has none; compares if it is stale.

    A stale result of which all sampled trainings are the same to the last digit, and whose table
    makes the same of made-up outcomes, is from then on that of today's program, too; its file says
    of how many trainings that was seen. Where settings changed, or nothing was recorded of what
    changed, a result is left stale. cells: where the begun trainings are remembered, None:
    nowhere. Raises InputError without SciPy.
    """
    need_scipy()
    known = experiments()
    for name, stored in stored_in(out, [name for name in names or known if name in known]).items():
        try:
            yield _one(stored, known[name], out, Cells(cells, threads=threads, progress=progress))
        except Exception as bad:
            yield Confirmed(name, "", failed=one_line(f"{type(bad).__name__}: {bad}", 300))


def _one(stored: StoredResult, table: PaperTable, out: Path, cells: Cells) -> Confirmed:
    changed = stored.changed()
    if not changed:
        return _recorded(stored, table, out, cells)
    was = stored.origin.get("sample") or {}
    was_table = stored.origin.get("table_sample") or ""
    untold = _untold(changed, was, was_table)
    if untold:
        return Confirmed(stored.name, f"stale: {untold}; make it again")
    if TABLE in changed and table_sha256(table, **_asked(stored)) != was_table:
        why = "its table makes something else of the same trainings"
        return Confirmed(stored.name, f"stale: {why}; make it again", ["the table"])
    # Where the table alone changed, its trainings are those of today's program.
    now = sample(table, stored, cells) if TRAINING in changed else was
    differ = sorted(label for label in now.keys() | was.keys() if now.get(label) != was.get(label))
    if differ:
        why = f"{len(differ)} of {len(was)} trainings give something else"
        return Confirmed(stored.name, f"stale: {why}; make it again", differ)
    rewrite(out, stored, {"confirmed": _confirmed(stored, len(now))})
    said = f"confirmed: {len(now)} trainings give the same to the last digit"
    return Confirmed(stored.name, f"{said}, and so does the table" if TABLE in changed else said)


def _recorded(stored: StoredResult, table: PaperTable, out: Path, cells: Cells) -> Confirmed:
    """Records what a fresh result lacks of its sample and of the identity of its table."""
    was = stored.origin.get("sample") or {}
    new: dict[str, Any] = {} if was else {"sample": sample(table, stored, cells)}
    if "table_sample" not in stored.origin:
        new["table_sample"] = recorded_sha256(table, **_asked(stored))
    if new:
        rewrite(out, stored, new)
    trainings = len(was or new["sample"])
    if trainings:
        return Confirmed(stored.name, f"fresh, {trainings} trainings recorded")
    return Confirmed(stored.name, "trains nothing that could be begun again")


def _untold(changed: Sequence[str], sample: Sample, table_sample: str) -> str:
    """Why nothing recorded tells of what changed; "" if it does."""
    if SETTINGS in changed:
        return f"{' and '.join(changed)} changed"
    if not sample:
        return "no training was recorded while it was fresh"
    if TABLE in changed and not table_sample:
        return "its table changed, of which nothing was recorded while it was fresh"
    return ""


def _asked(stored: StoredResult) -> dict[str, Any]:
    """What was asked for when a result was made, as in `Context`."""
    return {
        "quick": stored.quick,
        "only": stored.only,
        "seeds": stored.content.get("asked_seeds", 0),
    }


def _confirmed(stored: StoredResult, trainings: int) -> dict[str, object]:
    """What a result says of the program that it was confirmed for."""
    today = programs(stored.name, stored.origin["algorithms"], places(stored.origin))
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "trainings": trainings,
        TRAINING: today[TRAINING],
        TABLE: today[TABLE],
    }


def sample(table: PaperTable, stored: StoredResult, cells: Cells) -> Sample:
    """What some trainings of a result give after a few epochs: of every algorithm on every data set
    one at least.

    Which depends on the table and its settings alone, not on what any training gives.
    """
    asked: dict[str, Pair] = {}

    def note(_: str, cell: Cell, part: CellPart) -> None:
        begun = replace(
            cell, looks=tuple(sorted({min(epochs, cell.looks[-1]) for epochs in BEGUN}))
        )
        asked.setdefault(_label(begun, part), (part, begun))

    asked_of(table, Context(cells=Cells(), **_asked(stored)), note)
    chosen = drawn(
        {label: (cell.algorithm, part.rows.name) for label, (part, cell) in asked.items()}
    )
    outcomes = cells.outcomes_of([asked[label] for label in chosen])
    return {
        label: outcome_sha256(outcome)[:16] for label, outcome in zip(chosen, outcomes, strict=True)
    }


def _label(cell: Cell, part: CellPart) -> str:
    """What is trained, for people; and the identity of its rows and of what is kept of it."""
    more = f"{part.sha256} {cell.looks} {cell.lengths} {cell.kept}"
    return (
        f"{part.rows.name}, {cell.label}, seed {cell.seed},"
        f" {hashlib.sha256(more.encode()).hexdigest()[:8]}"
    )


def drawn(groups: Mapping[str, tuple[str, str]]) -> list[str]:
    """MOST of some labels, or one of each group if there are more groups: in turns one of each.
    What is drawn depends on the labels alone.

    >>> drawn({"a1": ("a", ""), "a2": ("a", ""), "b": ("b", "")})
    ['a1', 'a2', 'b']
    >>> len(drawn({f"{n}": ("a" if n < 20 else f"{n}", "") for n in range(40)}))
    21
    """
    turn: dict[tuple[str, str], int] = defaultdict(int)
    places = {}
    for label in sorted(groups, key=lambda label: hashlib.sha256(label.encode()).digest()):
        places[label] = turn[groups[label]]
        turn[groups[label]] += 1
    first = sorted(
        places, key=lambda label: places[label]
    )  # stable: within a turn as they were drawn
    return sorted(first[: max(MOST, len(turn))])


def outcome_sha256(outcome: Outcome) -> str:
    """The identity of all that a training gave, but for how long it took."""
    looks = [{**look._asdict(), **TIMES} for look in outcome.looks]
    return hashlib.sha256(json.dumps([looks, outcome.failed], sort_keys=True).encode()).hexdigest()
