"""`evaluate_files`: scores and lists of other programs, by our metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from typing_extensions import TypedDict

from ..core.errors import InputError
from ..data.split.read import read
from ..data.split.types import Split
from ..evaluation.metrics.defined import fairness
from ..evaluation.protocol import Evaluation
from ..evaluation.summary import interval
from ..runs.outside import Outside, evaluate_outside, read_scores
from .arguments import in_python
from .compare import TESTED
from .results import Report, Table
from .statistics import PairedDifference, paired_tests

if TYPE_CHECKING:
    import polars as pl

SHOWN = ("hr@10", "ndcg@10", "recall@10", "auc")


class EvaluatedRow(TypedDict):
    """A metric of a file."""

    file: str
    metric: str
    value: float
    low: float | None
    """Of the 95 % bootstrap interval over users; None for what has none."""
    high: float | None


class EvaluatedFound(TypedDict):
    """The report of `evaluate_files`."""

    data: str
    protocol: str
    files: list[str]
    users: int
    rows: list[EvaluatedRow]
    tests: list[PairedDifference]
    notes: list[str]


@final
class EvaluatedFiles(Report[EvaluatedFound, "pl.DataFrame"]):
    """The metrics of files of other programs. `table()` has a row for each file and metric:
    `value`, and the ends `low` and `high` of its 95 % bootstrap interval over users (of accuracy
    metrics).
    """

    def tests(self) -> pl.DataFrame:
        """A frame of the paired tests over users of each two files: difference, 95 % interval, what
        it holds, p, and p after Holm.
        """
        return self._frame(self.found["tests"])

    @property
    def notes(self) -> list[str]:
        """Sentences on the protocol, and on what the files leave out."""
        return self.found["notes"]

    def _shown(self) -> Table:
        return shown(self.found)


def shown(found: EvaluatedFound) -> Table:
    """A line for each file, a column for each of the usual metrics."""
    rows = {(row["file"], row["metric"]): row for row in found["rows"]}
    # A metric that no file tells has no column.
    names = [name for name in SHOWN if any(metric == name for _, metric in rows)]
    body = [[file, *(_cell(rows.get((file, name))) for name in names)] for file in found["files"]]
    caption = (
        f"{found['data']}, {found['protocol']};"
        " mean (95 % bootstrap interval: users alone, one seed)"
    )
    return Table(caption, ["file", *names], body)


def _cell(row: EvaluatedRow | None) -> str:
    if row is None:
        return "-"
    if row["low"] is None or row["high"] is None:
        return f"{row['value']:.4f}"
    return f"{row['value']:.4f} ({row['low']:.4f} to {row['high']:.4f})"


def evaluate_files(
    *files: str | Path,
    split: str | Path | Split,
    full: bool = False,
    ignore_missing: bool = False,
    seed: int = 0,
) -> EvaluatedFiles:
    """Evaluate scores or lists of any program by our metrics, and compare several files user by
    user.

    files: CSV with the columns user, item, and score or rank, or runs of TREC. split: the folder
    that `entrenous split` wrote, or the `Split`. full: rank among all items although the split has
    candidates. ignore_missing: leave out users without a line in one of the files; otherwise they
    count as missed. seed: orders equal scores. Raises InputError that names file and line.
    """
    with in_python():
        return EvaluatedFiles(
            evaluated(files, split, full=full, ignore_missing=ignore_missing, seed=seed)
        )


def evaluated(
    files: Sequence[str | Path],
    split: str | Path | Split,
    *,
    full: bool,
    ignore_missing: bool,
    seed: int,
) -> EvaluatedFound:
    """Returns the report of `evaluate_files`."""
    # All files are read before one is evaluated: a bad one costs nothing but its reading.
    parts = split if isinstance(split, Split) else read(split)
    labels = _labels([Path(file) for file in files])
    scores = {label: read_scores(path, parts) for label, path in labels.items()}
    found = evaluate_outside(scores, parts, full=full, ignore_missing=ignore_missing, seed=seed)
    values = {each.label: each.evaluation.per_user for each in found}
    tests: list[PairedDifference] = []
    # Somebody has to be paired with somebody.
    if len(found[0].evaluation.user) > 1:
        for metric in TESTED:
            of_metric = {label: of[metric] for label, of in values.items()}
            tests += paired_tests(metric, of_metric, combinations(of_metric, 2))
    first = found[0].evaluation
    of_files = [f"{each.label}: {note}" for each in found for note in each.notes]
    return {
        "data": parts.train.name,
        "protocol": parts.name,
        "files": list(labels),
        "users": len(first.user),
        "rows": [row for each in found for row in _rows(each)],
        "tests": tests,
        "notes": [*of_files, *first.protocol, *parts.notes],
    }


def _labels(files: Sequence[Path]) -> dict[str, Path]:
    """The files by their names in tables. Raises InputError for none, and for one twice."""
    if not files:
        raise InputError(
            "entrenous evaluate", "no file", expected="one or more files with scores or lists"
        )
    # Of two folders the files may have one name.
    names = [file.name for file in files]
    labels = [file.name if names.count(file.name) == 1 else str(file) for file in files]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(label, "is named twice", expected="each file once")
    return dict(zip(labels, files, strict=True))


def _rows(each: Outside) -> list[EvaluatedRow]:
    """A row for each metric of one file, those of the full ranking of a sampled protocol last."""
    found = each.evaluation
    rows = _valued(each.label, found.metrics, found.per_user, "")
    rows += _spread(each.label, found)
    if found.full_ranking is not None and found.per_user_full is not None:
        rows += _valued(each.label, found.full_ranking, found.per_user_full, "full ")
    return rows


def _valued(label: str, metrics: Any, per_user: Any, prefix: str) -> list[EvaluatedRow]:
    rows: list[EvaluatedRow] = []
    for name, value in metrics.items():
        low = high = None
        if name in per_user and len(per_user[name]) > 1:
            # A bootstrap never leaves what a user can have: rates stay between 0 and 1.
            low, high = interval(per_user[name])
        rows.append(
            {"file": label, "metric": prefix + name, "value": value, "low": low, "high": high}
        )
    return rows


def _spread(label: str, found: Evaluation) -> list[EvaluatedRow]:
    """The accuracy of the worst tenth of users, and the spread over users."""
    per_user = {"auc": np.full(len(found.user), np.nan), **found.per_user}
    values = fairness(per_user, found.candidates_ranking or found.ranking).named()
    return [
        {"file": label, "metric": name, "value": value, "low": None, "high": None}
        for name, value in values.items()
        if np.isfinite(value)
    ]
