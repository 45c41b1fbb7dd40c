"""`Reading`: the report of what loading a data set read, assumed and left out."""

from __future__ import annotations

from typing import NamedTuple, final


@final
class ColumnUse(NamedTuple):
    """A column of the source, and its use."""

    name: str
    """The name of the column in the source."""
    role: str
    """user, item, value or time; "" for a column that was not read."""
    why: str
    """The reason for the role, such as "named so by user=" or "a usual name of users"."""


@final
class Guess(NamedTuple):
    """An assumption that loading made, which `strict` refuses."""

    assumed: str
    """One sentence, such as "the first line is a header"."""
    option: str
    """The option that says it, such as "names=user,item"."""


@final
class LeftOut(NamedTuple):
    """Rows of the source that were left out for one reason."""

    reason: str
    """The reason in a few words, such as "the item id is empty"."""
    rows: int
    """Their number."""
    first: str
    """The place of the first one, as `file:line`."""


@final
class Reading(NamedTuple):
    """The report of loading one source."""

    source: str
    """The path of the file or folder, or the name of the frame."""
    columns: tuple[ColumnUse, ...]
    """Every column of the source, in its order."""
    guesses: tuple[Guess, ...]
    """The assumptions that could be wrong."""
    left_out: tuple[LeftOut, ...]
    """The rows that were left out, one entry for each reason."""
    notes: tuple[str, ...]
    """Everything else that loading did, one sentence each."""
