"""Cells of CSV files that a spreadsheet would run as a formula, and how they are written so that it
does not.

A text that begins with = + - @, a tab or a carriage return gets a leading '. A text that begins
with ' marks and then one of those gets one more, so that reading can take exactly one away (OWASP,
"CSV Injection").
"""

from __future__ import annotations

# Must not start a cell.
FORMULA = r"^('*[=+\-@\t\r])"
# The same once it is written.
ESCAPED = r"^'('*[=+\-@\t\r])"
CHANGED = (
    "got a leading ' where a spreadsheet would take them for formulas (they begin with = + - @); "
    "take it away to have the ids again"
)


def is_formula(text: str) -> bool:
    """Tells whether a spreadsheet would run a text, or it begins like one that was made harmless.

    >>> is_formula("=1+1"), is_formula("'-5"), is_formula("'tis"), is_formula("u0")
    (True, True, False, False)
    """
    return text.lstrip("'")[:1] in ("=", "+", "-", "@", "\t", "\r")


def harmless(text: str) -> str:
    """Returns a text as a cell that no spreadsheet runs.

    >>> harmless("=1+1"), harmless("'=1"), harmless("u0")
    ("'=1+1", "''=1", 'u0')
    """
    if is_formula(text):
        return f"'{text}"
    return text
