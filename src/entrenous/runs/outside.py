"""Scores and lists of other programs: a file or a frame is read for a split, and ranked as any
recommender is.

It has rows of user, item, and score or rank, in any format that `load` reads; or it is a run of
TREC (user Q0 item rank score tag), whose scores order it, as in trec_eval. Only the order of one
user's scores counts. Equal scores are ordered as everywhere here, by a shuffle of the items that
knows no held-out rows; what it leaves out stands behind it, and of that the held-out items stand
last."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import numpy as np

from ..core.cells import ESCAPED
from ..core.contract.protocols import Scorer
from ..core.errors import InputError
from ..core.lanes.memory import starts_of
from ..core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array
from ..data.columns import USUAL, find_usual
from ..data.files import read_without_options, unpacked
from ..data.frames import CallersFrame, OtherRows, from_any
from ..data.interactions import Interactions, Vocabulary, pair_numbers, pairs_of
from ..data.split.types import Held, Split
from ..data.table import ColumnTable
from ..evaluation.metric_kinds import Ranking, metrics
from ..evaluation.protocol import Evaluation, evaluate, list_values, user_values
from .wanted import AS_USUAL, Wanted

SCORES = ("score", "scores", "prediction", "predicted")
RANKS = ("rank", "position", "place")
EXPECTED = "a header with user, item, and score or rank; or lines of `user Q0 item rank score tag`"
TREC = r"^\s*(?<user>\S+)\s+\S+\s+(?<item>\S+)\s+\S+\s+(?<score>\S+)\s+\S+\s*$"
# Below every level of a user's items, of which there are at most 2^24.
UNLISTED = np.float32(-(2.0**25))
UNLISTED_HELD = np.float32(-(2.0**26))


# A place of a file, or the rows in memory.
OutsideRows: TypeAlias = str | Path | CallersFrame | OtherRows


@final
@dataclass(frozen=True, eq=False)
class OutsideScores:
    """The scores of a file, by user: a recommender that is not trained here."""

    table: ColumnTable
    """The file."""
    ptr: Int64Array
    """int64 [users + 1]: user u has the items item[ptr[u]:ptr[u + 1]]."""
    item: Int32Array
    """int32 [lines], ascending within a user."""
    level: Float32Array
    """float32 [lines]: 0 for the best score of its user, -1 for the next lower one, ..."""
    row: Int64Array
    """int64 [lines]: their rows in the table."""
    held: Interactions
    """The held-out rows, which stand last where the file leaves them out."""

    def scores(self, users: Int64Array) -> Float32Array:
        """The levels of every item, float32 [len(users), items]."""
        out = np.full((len(users), len(self.held.items)), UNLISTED)
        for row, user in enumerate(users.tolist()):
            # Held-out items that the file leaves out are below all others: a gap is no hit.
            held = slice(self.held.ptr[user], self.held.ptr[user + 1])
            out[row, self.held.item[held]] = UNLISTED_HELD
            own = slice(self.ptr[user], self.ptr[user + 1])
            out[row, self.item[own]] = self.level[own]
        return out

    @property
    def counts(self) -> Int64Array:
        """The lines of each user, int64 [users]."""
        return np.diff(self.ptr)

    @property
    def pairs(self) -> Int64Array:
        """The pairs of user and item as numbers, ascending."""
        user = np.repeat(np.arange(len(self.counts)), self.counts)
        return pair_numbers(user, self.item, len(self.held.items))


class Outside(NamedTuple):
    """The evaluation of a file."""

    label: str
    evaluation: Evaluation
    notes: tuple[str, ...]


# ---- reading -------------------------------------------------------------------------------------


def read_scores(source: OutsideRows, split: Split, label: str) -> OutsideScores:
    """Reads the scores or ranks of another program. label: of rows in memory, for errors. Raises
    InputError with the line for a user or item that the split does not have, a score that is no
    finite number, and a repeated pair.
    """
    held = split.test.rows
    table = _table(source, label)
    # A score outweighs a rank: ranks may hide ties.
    names = table.frame.columns
    usual = {"user": USUAL["user"], "item": USUAL["item"], "score": SCORES, "rank": RANKS}
    found = {role: find_usual(names, columns) for role, columns in usual.items()}
    value = found["score"] or found["rank"]
    if found["user"] is None or found["item"] is None or value is None:
        columns = ", ".join(names)[:200]
        raise InputError(
            table.where(0) if found["user"] is None else table.source,
            f"the columns are {columns}",
            expected=EXPECTED,
        )
    user = _numbers_of(table, found["user"], held.users)
    item = _numbers_of(table, found["item"], held.items)
    score = _scores_of(table, value, ranks=found["score"] is None)
    # By user and item, so that a pair that comes again is next to itself.
    order = np.lexsort((item, user))
    pairs = pair_numbers(user, item, len(held.items))[order]
    again = np.flatnonzero(np.diff(pairs) == 0)
    if len(again):
        first, second = order[again[0]], order[again[0] + 1]
        raise InputError(
            table.where(int(second)),
            f"user '{held.users[user[second]]}', item '{held.items[item[second]]}' again, as in"
            f" {table.where(int(first))}",
            expected="one line for each user and item",
        )
    counts = np.bincount(user, minlength=len(held.users))
    return OutsideScores(
        table,
        starts_of(counts),
        item[order].astype(np.int32),
        _levels(user, score)[order],
        order,
        held,
    )


def _table(source: OutsideRows, label: str) -> ColumnTable:
    """The rows of a file or of a frame."""
    if not isinstance(source, str | Path):
        return from_any(source, label)
    path = Path(source)
    text = unpacked(path).content
    first = io.BytesIO(text).readline().decode("utf-8", "replace").split()
    # A header of six columns is no line of a run: it has one of the usual names.
    if len(first) == 6 and find_usual(first, USUAL["user"]) is None:
        return _trec(path, text)
    return read_without_options(path, EXPECTED)


def _levels(user: Array, score: Array) -> Float32Array:
    """The place of each score among the different scores of its user, negative: float32 would join
    scores that differ in a late digit.
    """
    order = np.lexsort((-score, user))
    # By user and falling score: a step down wherever the score changes.
    new_user = np.append(True, np.diff(user[order]) != 0)
    lower = np.append(False, np.diff(score[order]) != 0) & ~new_user
    # Levels count up over the whole file.
    steps = np.cumsum(lower)
    # Each user's best has level 0.
    first = np.repeat(steps[new_user], np.diff(np.append(np.flatnonzero(new_user), len(user))))
    levels = np.empty(len(user), np.float32)
    levels[order] = first - steps
    return levels


def _trec(path: Path, text: bytes) -> ColumnTable:
    """The lines of a run of TREC. Raises InputError for a line that has other fields."""
    import polars as pl

    try:
        lines = text.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(str(path), "is no text in UTF-8", expected=EXPECTED) from None
    # Blank lines are no lines, but they count in the numbers of the others.
    column = pl.Series("line", lines)
    place = np.flatnonzero((column.str.strip_chars() != "").to_numpy())
    fields = column[place].str.extract_groups(TREC).struct.unnest()
    table = ColumnTable(frame=fields, source=str(path), lines=place + 1)
    bad = np.flatnonzero(fields["user"].is_null().to_numpy())
    if len(bad):
        row = int(bad[0])
        raise InputError(
            table.where(row),
            f"got '{lines[place[row]][:100]}'",
            expected="six fields: user Q0 item rank score tag",
        )
    return table


def _numbers_of(table: ColumnTable, name: str, names: Vocabulary) -> Int64Array:
    """The numbers of a column of ids. Raises InputError for one that the split does not have."""
    import polars as pl

    # An export puts a ' before what a spreadsheet would take for a formula.
    text = table.frame[name].cast(pl.String).fill_null("").str.strip_chars()
    ids = text.str.replace(ESCAPED, "${1}").to_list()
    # -1 for an id that the split does not have.
    numbers = names.indices(ids).astype(np.int64)
    if numbers.min() < 0:
        row = int(np.argmin(numbers))
        fix = f"write the ids of the split's {names.kind}s file"
        whole = ids[row].removesuffix(".0")
        if whole != ids[row] and whole in names.ids:
            fix = f"write '{whole}': the program has turned the ids into decimal numbers"
        problem = f"{names.kind} '{ids[row][:80]}' is not in the split"
        raise InputError(table.where(row), problem, fix=fix)
    return numbers


def _scores_of(table: ColumnTable, name: str, *, ranks: bool) -> Array:
    """The scores, the highest for the best, float64. ranks: the column has ranks, the lowest for
    the best. Raises InputError for one that is no finite number.
    """
    import polars as pl

    # An empty cell and a word are null.
    text = table.frame[name].cast(pl.String).str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0])
        what = "rank" if ranks else "score"
        raise InputError(
            table.where(row), f"the {what} is '{text[row] or ''}'", expected="a finite number"
        )
    return -numbers if ranks else numbers


# ---- evaluation ----------------------------------------------------------------------------------


def evaluate_outside(
    files: Mapping[str, Scorer],
    split: Split,
    *,
    full: bool = False,
    ignore_missing: bool = False,
    seed: int = 0,
    wanted: Wanted = AS_USUAL,
) -> list[Outside]:
    """Evaluates files, and models that were trained on the rows of a split, by its protocol, all on
    the same users.

    full: rank among all items although the split has candidates. ignore_missing: leave out the
    users without a line in one of the files; otherwise these users have missed all. Raises
    InputError where a candidate has no score, and where nobody is left.
    """
    held = split.test
    if full:
        held = held._replace(candidates=None)
    # Users whom the protocol asks about, those whose items are absent too.
    asked = held.rows.counts > 0
    if held.absent is not None:
        asked |= held.absent > 0
    gone = np.zeros(len(asked), np.bool_)
    if ignore_missing:
        for scores in files.values():
            # One file without a user leaves it out of all: the same users for every file.
            if isinstance(scores, OutsideScores):
                gone |= asked & (scores.counts == 0)
        held = _without(held, gone)
        if gone.sum() == asked.sum():
            raise InputError(
                "--ignore-missing", "no user has a line in every file", fix="leave it out"
            )
    found = []
    for label, scores in files.items():
        notes: tuple[str, ...] = ()
        if isinstance(scores, OutsideScores):
            _refuse_missing(scores, held)
            notes = _notes(scores, held, asked, gone)
        evaluation = _evaluated(label, scores, split, held, seed, wanted)
        found.append(Outside(label, evaluation, notes))
    return found


def _without(held: Held, gone: BoolArray) -> Held:
    """The held-out rows without those of some users."""
    keep = ~gone[held.rows.user]
    return held._replace(
        rows=held.rows.select(keep),
        candidates=None if held.candidates is None else held.candidates[keep],
        absent=None if held.absent is None else np.where(gone, 0, held.absent),
    )


def _refuse_missing(scores: OutsideScores, held: Held) -> None:
    """Raises InputError for a user with lines but without a score for a held-out item or one of its
    candidates.
    """
    if held.candidates is None:
        return
    rows = held.rows
    # The held-out item and its candidates, row by row; -1 fills short rows.
    needed = np.column_stack([rows.item, held.candidates])
    pairs = pair_numbers(rows.user[:, None], needed, len(rows.items))
    missing = ~np.isin(pairs, scores.pairs) & (needed >= 0)
    # A user without any line counts as missed, which is said and is no error.
    missing &= (scores.counts > 0)[rows.user][:, None]
    if not missing.any():
        return
    # The first gap is named at the last line of its user, where it could have stood.
    row, place = np.argwhere(missing)[0]
    user = int(rows.user[row])
    last = scores.row[scores.ptr[user] : scores.ptr[user + 1]].max()
    item = rows.items[int(needed[row, place])]
    what = "the held-out item" if place == 0 else "candidate"
    raise InputError(
        scores.table.where(int(last)),
        f"user '{rows.users[user]}' has no score for {what} '{item}' (missing in all:"
        f" {int(missing.sum())})",
        expected="a score for each item and candidate of test_candidates",
        fix="say --full if these are lists among all items",
    )


def _evaluated(
    label: str, scores: Scorer, split: Split, held: Held, seed: int, wanted: Wanted
) -> Evaluation:
    """Evaluates one model or file, a file without the metrics that its lines cannot tell: AUC and
    the full ranking where items are left out, and metrics of lists where only candidates have
    scores.
    """
    train, masked = split.final_train, split.left_out
    found = evaluate(
        scores,
        train,
        held,
        label=label,
        n=wanted.lengths,
        seed=seed,
        also_mask=masked,
        further=wanted.further,
    )
    # With a score for everything, a file is evaluated as a model is.
    if not isinstance(scores, OutsideScores) or _all_competing(
        scores, train, masked, held, found.user
    ):
        return found
    if found.candidates_ranking is not None:
        return _of_candidates(found, scores.counts[found.user] == 0)
    ranking = _missed_if_not_listed(scores, found.ranking, train.popularity > 0)
    every = {**metrics(), **wanted.further}
    per_user = user_values(ranking, wanted.lengths, every)
    # AUC needs the order of all items, which a list does not tell.
    del per_user["auc"]
    lists = found.lists._replace(item=_only_listed(scores, found))
    means = {name: float(values.mean()) for name, values in per_user.items()}
    of_lists = list_values(lists, wanted.lengths, every)
    return replace(
        found,
        metrics=means | of_lists.numbers,
        per_user=per_user,
        by_category=of_lists.by_category,
        ranking=ranking,
        lists=lists,
    )


def _of_candidates(found: Evaluation, without: BoolArray) -> Evaluation:
    """The sampled ranking alone, with 0 for the users `without` lines, bool [m]."""
    per_user = {name: np.where(without, 0.0, values) for name, values in found.per_user.items()}
    metrics = {name: float(values.mean()) for name, values in per_user.items()}
    return replace(found, metrics=metrics, per_user=per_user, full_ranking=None, per_user_full=None)


def _missed_if_not_listed(scores: OutsideScores, ranking: Ranking, known: BoolArray) -> Ranking:
    """The full ranking in which a held-out item that the file lacks is missed, however few items
    compete. Such items have the last ranks of their query.
    """
    held = scores.held
    # The held-out items that the list has, by query.
    listed = np.isin(pairs_of(held), scores.pairs) & known[held.item]
    of_user = np.bincount(held.user[listed], minlength=len(held.users))
    present = np.repeat(of_user[ranking.user], ranking.relevant)
    # Behind the last competitor: no list of any length reaches it.
    missed = np.repeat(ranking.candidates + 1, ranking.relevant)
    return ranking._replace(rank=np.where(ranking.position <= present, ranking.rank, missed))


def _all_competing(
    scores: OutsideScores,
    train: Interactions,
    masked: Interactions | None,
    held: Held,
    users: Int64Array,
) -> bool:
    """Tells whether a file has every item that competes for every evaluated user."""
    # Items compete if training knows them, or the protocol is of cold ones.
    known = (train.popularity > 0) | held.cold
    # What a user has seen does not compete, unless the protocol allows repeats.
    seen = np.empty(0, np.int64)
    if not held.repeats:
        parts = [train] if masked is None else [train, masked]
        seen = np.concatenate([pairs_of(part) for part in parts])
    pairs = scores.pairs
    listed = _of_known(pairs[~np.isin(pairs, seen)], known, len(scores.counts))
    wanted = known.sum() - _of_known(np.unique(seen), known, len(scores.counts))
    return bool((listed[users] == wanted[users]).all())


def _of_known(pairs: Int64Array, known: BoolArray, users: int) -> Int64Array:
    """The number of pairs of each user whose item is known, int64 [users]."""
    user, item = np.divmod(pairs, len(known))
    return np.bincount(user[known[item]], minlength=users)


def _only_listed(scores: OutsideScores, found: Evaluation) -> Int32Array:
    """The lists with -1 in the place of items that the file does not have."""
    listed = found.lists.item
    pairs = pair_numbers(found.user[:, None], listed, len(scores.held.items))
    return np.where(np.isin(pairs, scores.pairs), listed, -1).astype(np.int32)


def _notes(scores: OutsideScores, held: Held, asked: BoolArray, gone: BoolArray) -> tuple[str, ...]:
    """Sentences on the users without lines, and on the length of the lists."""
    counts = scores.counts
    # Nothing silent: each user who was counted or left out is in a note.
    absent = int((asked & ~gone & (counts == 0)).sum())
    notes = []
    if absent:
        notes.append(
            f"users without a line: {absent} of {int(asked.sum())}; each counts as missed, 0 in"
            " every metric (--ignore-missing leaves such users out)"
        )
    if gone.any():
        notes.append(
            f"users left out, since one of the files has no line of them: {int(gone.sum())} of"
            f" {int(asked.sum())}"
        )
    lengths = counts[asked & ~gone & (counts > 0)]
    if held.candidates is None and len(lengths):
        notes.append(
            f"lists have {lengths.min()} to {lengths.max()} items; held-out items that a list lacks"
            " are missed"
        )
    return tuple(notes)
