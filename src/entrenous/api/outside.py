"""`evaluate_files`: scores and lists of other programs, by our metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from typing_extensions import TypedDict

from ..core.contract.protocols import Scorer
from ..core.errors import InputError
from ..data.split.read import read
from ..data.split.types import Split
from ..evaluation.metrics.defined import fairness
from ..evaluation.paired import PairedDifference, paired_tests
from ..evaluation.protocol import Evaluation
from ..evaluation.summary import interval
from ..runs.outside import Outside, OutsideRows, evaluate_outside, read_scores
from ..runs.wanted import AS_USUAL, MetricsAsked, Wanted, metrics_asked
from .arguments import in_python
from .compare import TESTED
from .results import Report, Table
from .run import SHOWN, Run

if TYPE_CHECKING:
    import polars as pl


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
    metrics: list[str]
    """The names that were asked for; [] = all are in `rows`, and the usual ones are shown."""
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
    told = dict.fromkeys(metric for _, metric in rows)
    names = list(told) if found["metrics"] else [name for name in SHOWN if name in told]
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
    *files: OutsideRows | Run[Any],
    split: str | Path | Split,
    full: bool = False,
    ignore_missing: bool = False,
    seed: int = 0,
    metrics: MetricsAsked = (),
) -> EvaluatedFiles:
    """Evaluate scores or lists of any program by our metrics, and compare several files user by
    user.

    files: with the columns user, item, and score or rank, in any format that `load` reads, or runs
    of TREC; frames of these columns; and each `Run` on this split, to compare with. split: the
    folder that `entrenous split` wrote, or the `Split`. full: rank among all items although the
    split has candidates. ignore_missing: leave out users without a line in one of the files;
    otherwise they count as missed. seed: orders equal scores. metrics: as of `entrenous.run`.
    Raises InputError that names file and line.
    """
    with in_python():
        return EvaluatedFiles(
            evaluated(
                files,
                split,
                full=full,
                ignore_missing=ignore_missing,
                seed=seed,
                wanted=metrics_asked(metrics),
            )
        )


def evaluated(
    files: Sequence[OutsideRows | Run[Any]],
    split: str | Path | Split,
    *,
    full: bool,
    ignore_missing: bool,
    seed: int,
    wanted: Wanted = AS_USUAL,
) -> EvaluatedFound:
    """Returns the report of `evaluate_files`."""
    # All files are read before one is evaluated: a bad one costs nothing but its reading.
    parts = split if isinstance(split, Split) else read(split)
    labels = _labels(files)
    scores = {label: _scorer(file, parts, label) for label, file in labels.items()}
    found = evaluate_outside(
        scores, parts, full=full, ignore_missing=ignore_missing, seed=seed, wanted=wanted
    )
    values = {each.label: each.evaluation.per_user for each in found}
    tested = wanted.shown(found[0].evaluation.per_user) if wanted.names else TESTED
    tests: list[PairedDifference] = []
    # Somebody has to be paired with somebody.
    if len(found[0].evaluation.user) > 1:
        for metric in tested:
            of_metric = {label: of[metric] for label, of in values.items()}
            tests += paired_tests(metric, of_metric, combinations(of_metric, 2))
    first = found[0].evaluation
    of_files = [f"{each.label}: {note}" for each in found for note in each.notes]
    return {
        "data": parts.train.name,
        "protocol": parts.name,
        "files": list(labels),
        "users": len(first.user),
        "metrics": list(wanted.names),
        "rows": [row for each in found for row in _rows(each, wanted)],
        "tests": tests,
        "notes": [*of_files, *first.protocol, *parts.notes],
    }


def _labels(files: Sequence[OutsideRows | Run[Any]]) -> dict[str, OutsideRows | Run[Any]]:
    """The files and runs by their names in tables, frames by their places. Raises InputError for
    none, and for one twice.
    """
    if not files:
        raise InputError(
            "entrenous evaluate", "no file", expected="one or more files with scores or lists"
        )
    names = [_name_of(file, number) for number, file in enumerate(files, start=1)]
    # Of two folders the files may have one name.
    labels = [
        name if names.count(name) == 1 else str(file)
        for name, file in zip(names, files, strict=True)
    ]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(label, "is named twice", expected="each file once")
    return dict(zip(labels, files, strict=True))


def _name_of(file: OutsideRows | Run[Any], number: int) -> str:
    if isinstance(file, Run):
        return file.name
    return Path(file).name if isinstance(file, str | Path) else f"frame {number}"


def _scorer(file: OutsideRows | Run[Any], split: Split, label: str) -> Scorer:
    """A file's scores, or a run's model. Raises InputError for a run on other training rows."""
    if not isinstance(file, Run):
        return read_scores(file, split, label)
    if file.train.sha256() != split.final_train.sha256():
        raise InputError(
            label,
            "was trained on other rows than those of the split",
            expected="a run on this split",
            fix="give split=run.split",
        )
    return file.recommender


def _rows(each: Outside, wanted: Wanted) -> list[EvaluatedRow]:
    """A row for each metric of one file, those of the full ranking of a sampled protocol last. Only
    those that are asked for by name, if any are.
    """
    found = each.evaluation
    rows = _valued(each.label, wanted.shown(found.metrics), found.per_user, "")
    if wanted.names:
        return rows
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
