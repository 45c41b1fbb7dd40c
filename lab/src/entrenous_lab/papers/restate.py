"""Rows over several data sets, computed anew from a stored result, without training.

Ranks and counts over data sets follow from the stored rows of each. When their definition changes,
the stored figures need not be trained again; the file says when and by which commit they were
restated.
"""

from __future__ import annotations

import time
from pathlib import Path

from entrenous.core.errors import InputError

from .provenance import commit
from .result import ExperimentResult
from .stored import StoredResult, figures_of, keep
from .table import PaperTable


def restate(stored: StoredResult, table: PaperTable, folder: Path) -> int:
    """Replaces the rows over data sets of a stored result. Returns the number of rows that changed.

    Raises InputError for a table that has no such rows.
    """
    if table.across is None:
        raise InputError(
            stored.name,
            "it has no rows over several data sets",
            expected="a table with such rows",
            fix=f"make it again: entrenous papers {stored.name} --again",
        )
    before = stored.content["rows"]
    labels = {row["data"] for row in table.across(before)}
    single = [row for row in before if row["data"] not in labels]
    across = table.across(single)
    changed = [row for row in across if row not in before]
    if not changed:
        return 0
    content = stored.content
    result = ExperimentResult(
        name=stored.name,
        title=content["title"],
        quick=content["quick"],
        rows=[*single, *across],
        notes=content["notes"],
        figures=figures_of(stored, folder),
        tests=content["tests"],
        seconds=content["seconds"],
        computed=content["computed"],
        remembered=content["remembered"],
        origin={
            **stored.origin,
            "restated": {"date": time.strftime("%Y-%m-%d"), "commit": commit()},
        },
    )
    keep(result, folder, content.get("asked_seeds", 0), stored.only)
    return len(changed)
