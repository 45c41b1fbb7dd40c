"""`entrenous evaluate`: the metrics of files that other programs wrote."""

from __future__ import annotations

from pathlib import Path

from .compare import show_tests
from .console import emit_json, table, tell


def evaluate(
    *files: Path,
    split: Path,
    full: bool = False,
    ignore_missing: bool = False,
    seed: int = 0,
    json: bool = False,
) -> None:
    """Evaluate scores or lists of any program by our metrics, with intervals; several files are
    tested against each other.

    Example: entrenous split ml-100k --out mysplit; run your program on mysplit/train.csv; entrenous
    evaluate scores.csv --split mysplit

    Parameters
    ----------
    files:
        CSV with the columns user, item, and score or rank; or a run of TREC, which its scores
        order. A split with candidates wants a score for each held-out item and each candidate.
    split:
        The folder that `entrenous split` wrote.
    full:
        Rank among all items although the split has candidates: for lists. What a list leaves out
        stands behind it.
    ignore_missing:
        Leave out the users without a line in one of the files. Otherwise they count as missed.
    seed:
        Orders equal scores by a shuffle that knows no held-out rows, as in every run of that seed.
    json:
        Print one JSON object on stdout.
    """
    from ..api.outside import evaluated, shown

    found = evaluated(files, split, full=full, ignore_missing=ignore_missing, seed=seed)
    if json:
        emit_json(found)
        return
    caption, headers, body = shown(found)
    table(headers, body, title=caption)
    others = [row for row in found["rows"] if row["metric"] not in headers]
    table(
        ["file", "metric", "value", "low", "high"],
        [list(row.values()) for row in others],
        title="Further metrics, with the ends of their 95 % bootstrap intervals over users",
    )
    if found["tests"]:
        show_tests(found["tests"])
    for note in found["notes"]:
        tell(f"- {note}")
