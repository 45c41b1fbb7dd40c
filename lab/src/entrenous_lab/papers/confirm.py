"""Whether today's program still gives the trainings behind a stored result: a sample of them is
begun again and compared.

Two records of the time when a result was fresh tell a change of the program that matters from one
that does not, without days of training: a sample of its trainings, and what the table makes of
made-up outcomes (`made_up`). A table that trains in other ways has its excerpt as its sample.
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
from entrenous.core.errors import InputError, one_line

from .cell import Cell, CellPart, Outcome
from .estimate import asked_of
from .made_up import found_sha256, recorded_sha256
from .provenance import commit, places, programs
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
COUNTS = (
    *("bytes_up", "bytes_down", "rows_up", "vectors"),
    *("device_rounds", "messages", "lost", "refused"),
)  # of a ledger, what is compared
TABLE, EXCERPT = "the table", "the excerpt"  # beside trainings, what may differ
CHEAP, DAILY = 60.0, 3  # seconds of a cheap sample, and how many are begun again on a day
FETCHED = "ml-100k"  # the rows that CI has

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
    """For every stored result (of `names`): begins a sample of its trainings again, makes its table
    of made-up outcomes, and compares both with what is recorded. A fresh result without a record
    gets one.

    The result says of which program that was, and what differed: with none it is fresh, else
    stale until it is made again. cells: where the begun trainings are remembered, None: nowhere.
    Raises InputError without SciPy.
    """
    need_scipy()
    known = experiments()
    for name, stored in stored_in(out, [name for name in names or known if name in known]).items():
        try:
            yield _one(stored, known[name], out, Cells(cells, threads=threads, progress=progress))
        except Exception as bad:
            yield Confirmed(name, "", failed=one_line(f"{type(bad).__name__}: {bad}", 300))


def _one(stored: StoredResult, table: PaperTable, out: Path, cells: Cells) -> Confirmed:
    was = _recorded(stored)
    if not was and stored.changed():
        why = "nothing was recorded while it was fresh"
        return Confirmed(stored.name, f"not confirmed: {why}; make it again")
    began = time.perf_counter()
    absent: list[str] = []
    trained = sample(table, stored, cells, was, absent)
    made = recorded_sha256(table, **_asked(stored))
    now = {**trained, TABLE: made}
    gone = was.keys() - now.keys()
    if absent and gone:
        raise InputError(stored.name, absent[0], expected="the rows that it was made of")
    differ = differing(was, now)
    seconds = round(time.perf_counter() - began, 1)
    last = {**_confirmed(stored, len(trained)), "seconds": seconds, "differ": differ}
    records = {} if differ else {"sample": trained, "table_sample": made}
    rewrite(out, stored, {**records, "confirmed": last})
    if differ:
        why = f"{len(differ)} of {len({*was, *now})} of its sample give something else"
        return Confirmed(stored.name, f"stale: {why}; make it again", differ)
    said = f"fresh: {len(trained)} trainings are the same to the last digit"
    if gone:
        said += f"; {len(gone)} recorded are asked for no more"
    return Confirmed(stored.name, said)


def _recorded(stored: StoredResult) -> Sample:
    """What is recorded of a result; {} of one that was never confirmed."""
    was: Sample = dict(stored.origin.get("sample") or {})
    if made := stored.origin.get("table_sample"):
        was[TABLE] = made
    return was


def differing(was: Sample, now: Sample) -> list[str]:
    """What differs of what was recorded and what is given now.

    A training that was begun again differs if it gives something else. One that is asked for no
    more differs if its algorithm is still trained on its data set: in other settings, or on other
    rows; if not, it is gone with its part of the table, and differs from nothing. An algorithm
    that is new on a data set differs from the table without it; a further seed does not.

    >>> was = {"a, test: fcf , seed 0, 1": "x", "b, test: fcf , seed 0, 2": "y"}
    >>> differing(was, {"a, test: fcf , seed 0, 1": "x", "a, test: fcf , seed 1, 3": "z"})
    []
    >>> differing(was, {"a, test: fcf , seed 0, 1": "z"})
    ['a, test: fcf , seed 0, 1']
    >>> differing(was, {**was, "b, test: fpl , seed 0, 4": "z"})
    ['b, test: fpl , seed 0, 4']
    >>> differing(was, {"a, test: fcf , seed 0, 1": "x", "b, test: fcf k=2, seed 0, 5": "z"})
    ['b, test: fcf , seed 0, 2']
    >>> differing({}, was)
    []
    """
    known = was.keys() - {TABLE}
    before = {trained(label) for label in known or now}
    today = {trained(label) for label in now}
    differ = {label for label in was.keys() & now.keys() if was[label] != now[label]}
    otherwise = {label for label in was.keys() - now.keys() if trained(label) in today}
    added = {label for label in now.keys() - was.keys() if trained(label) not in before}
    return sorted(differ | otherwise | added - {TABLE})


def trained(label: str) -> tuple[str, str]:
    """The data set and the algorithm of a training, of its label.

    >>> trained("ml-100k, 10 or more ratings, test: fcf k=20, seed 0, 0d1f76cb")
    ('ml-100k, 10 or more ratings', 'fcf')
    """
    where, _, what = label.partition(": ")
    data, _, _ = where.rpartition(", ")
    algorithm, _, _ = what.partition(" ")
    return data, algorithm


def of_day(stored: Mapping[str, StoredResult], day: int) -> list[str]:
    """The names of DAILY results of MovieLens-100K alone whose sample is cheap, by turns: each
    comes round.

    >>> origin = {"confirmed": {"seconds": 1.0}, "pins": {"ml-100k": ""}}
    >>> stored = {name: StoredResult(name, {"origin": origin}) for name in "abcd"}
    >>> of_day(stored, 0), of_day(stored, 1)
    (['a', 'b', 'c'], ['a', 'b', 'd'])
    """
    cheap = [name for name, one in stored.items() if is_cheap(one)]
    turns = range(DAILY * day, DAILY * day + min(DAILY, len(cheap)))
    return sorted(cheap[turn % len(cheap)] for turn in turns)


def is_cheap(stored: StoredResult) -> bool:
    """Whether a sample took seconds when it was last the same, on rows that CI can fetch."""
    last: Mapping[str, float] = stored.origin.get("confirmed") or {}
    fetched = {name.partition(",")[0] for name in stored.origin["pins"]} == {FETCHED}
    same = fetched and not last.get("differ")
    return same and last.get("seconds", CHEAP + 1) <= CHEAP


def _asked(stored: StoredResult) -> dict[str, Any]:
    """What was asked for when a result was made, as in `Context`."""
    return {
        "quick": stored.quick,
        "only": stored.only,
        "seeds": stored.content.get("asked_seeds", 0),
    }


def _confirmed(stored: StoredResult, trainings: int) -> dict[str, object]:
    """What a result says of the program that it was confirmed for."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "trainings": trainings,
        **programs(stored.origin["algorithms"], places(stored.origin)),
    }


def sample(
    table: PaperTable, stored: StoredResult, cells: Cells, was: Sample, absent: list[str]
) -> Sample:
    """What some trainings of a result give after a few epochs: of every algorithm on every data set
    one at least, and those of `was` that are still asked for; without trainings, what its excerpt
    gives. absent: as in `asked_of`.

    Which depends on the table, its settings and `was` alone, not on what any training gives.
    """
    asked: dict[str, Pair] = {}

    def note(_: str, cell: Cell, part: CellPart) -> None:
        begun = replace(
            cell, looks=tuple(sorted({min(epochs, cell.looks[-1]) for epochs in BEGUN}))
        )
        asked.setdefault(_label(begun, part), (part, begun))

    asked_of(table, Context(cells=Cells(), **_asked(stored)), note, absent)
    if not asked:
        excerpt = Context(cells=cells, quick=True, seeds=2, only=stored.only)
        return {EXCERPT: found_sha256(table.run(excerpt))[:16]}
    new = drawn({label: trained(label) for label in asked})
    chosen = sorted(was.keys() & asked.keys() | new)
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


def drawn(groups: Mapping[str, tuple[str, str]]) -> set[str]:
    """MOST of some labels, or one of each group if there are more groups: in turns one of each.
    What is drawn depends on the labels alone.

    >>> sorted(drawn({"a1": ("a", ""), "a2": ("a", ""), "b": ("b", "")}))
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
    return {*first[: max(MOST, len(turn))]}


def outcome_sha256(outcome: Outcome) -> str:
    """The identity of all that a training gave, but for how long it took, and for counts that came
    after the first samples were recorded.
    """
    looks = [
        {**look._asdict(), **TIMES, "ledger": {name: look.ledger.get(name) for name in COUNTS}}
        for look in outcome.looks
    ]
    return hashlib.sha256(json.dumps([looks, outcome.failed], sort_keys=True).encode()).hexdigest()
