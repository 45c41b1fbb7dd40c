"""Ids that are read as they stand and may be a slip: they look like missing ones, carry quotes or
blanks, differ in case alone, or equal the name of a column. The report counts and shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .table import WHOLE, ColumnTable, IdColumn

# As other programs write a missing value, in lower case.
MISSING = (
    *("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "inf", "-inf", "undefined"),
    *("(null)", "\\n", "-", "--", "?", "missing", "unknown"),
)
QUOTES = "\"'`“”‘’«»"
# Characters that nobody sees: no-break blanks, zero-width characters, byte order marks.
UNSEEN = r"[\u00a0\u00ad\u200b-\u200f\u2028-\u202f\u2060\ufeff]"
# Examples in a sentence.
SHOWN = 3


def odd_ids(table: ColumnTable, column: IdColumn) -> tuple[str, ...]:
    """Returns a sentence for each oddity of the ids of a column, with the first row that has it."""
    import polars as pl

    distinct = pl.Series(column.names.ids, dtype=pl.String)
    # Numbers in their plain form have none of these oddities.
    if distinct.str.contains(WHOLE).all():
        return ()
    sentences = []
    for oddity, odd in _oddities(table, distinct):
        if not odd.any():
            continue
        rows = odd.to_numpy()[column.code]
        first = int(np.argmax(rows))
        some = distinct.filter(odd).head(SHOWN).to_list()
        # The first one of the source is shown first.
        shown = dict.fromkeys([column.names[column.code[first]], *some])
        examples = ", ".join(f"'{text[:40]}'" for text in list(shown)[:SHOWN])
        sentences.append(
            f"{column.names.kind} ids that {oddity}: {int(odd.sum()):,} in {int(rows.sum()):,} rows"
            f" ({examples}), the first at {table.where(first)}"
        )
    return tuple(sentences)


def _oddities(table: ColumnTable, distinct: Any) -> Iterator[tuple[str, Any]]:
    """Yields each oddity in words with the ids that have it, bool [distinct ids]."""

    lower = distinct.str.to_lowercase()
    yield "look like a missing one and are kept", lower.is_in(list(MISSING))
    marks = f"^[{QUOTES}]|[{QUOTES}]$"
    yield "carry quotes and keep them", distinct.str.contains(marks)
    yield "hold characters that nobody sees", distinct.str.contains(UNSEEN)
    yield "hold blanks", distinct.str.contains(r"\s")
    yield "equal the name of a column", distinct.is_in(table.frame.columns)
    if lower.n_unique() < len(lower):
        yield "differ from another one in case alone", lower.is_duplicated()
    bare = distinct.str.strip_chars_start("0")
    if bare.n_unique() < len(bare):
        yield "differ from another one in zeros at the start alone", bare.is_duplicated()
