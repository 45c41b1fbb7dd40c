"""`Reading`: the report of what loading a data set read, assumed and left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, final

from pydantic import TypeAdapter

from ..core.errors import InputError, one_line

# Unread columns in a sentence.
LISTED = 12


def unread(kind: str) -> str:
    """Returns the words by which the report names an unread column that may be missed. kind: its
    seeming content, such as times.
    """
    return f"looks like a column of {kind} and is not read"


@final
class ColumnUse(NamedTuple):
    """A column of the source, and its use."""

    name: str
    """The name of the column in the source."""
    role: str
    """user, item, value, time or likes; "" for a column that was not read."""
    why: str
    """The reason for the role, such as "named by user=who"; of a column that was not read, what it
    looks like and the option that reads it.
    """

    @property
    def missed(self) -> bool:
        """True for a column that was not read and looks as if it mattered."""
        return not self.role and "--load" in self.why


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


def add_up(entries: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Returns one entry for each reason: the sum of the rows and the first place that was named."""
    by_reason: dict[str, LeftOut] = {}
    for entry in entries:
        known = by_reason.setdefault(entry.reason, entry._replace(rows=0))
        by_reason[entry.reason] = known._replace(rows=known.rows + entry.rows)
    return tuple(by_reason.values())


@final
class Reading(NamedTuple):
    """The report of loading one source, and of the filters behind it."""

    source: str = ""
    """The path of the file or folder, or the name of the frame; "" for rows that were made."""
    columns: tuple[ColumnUse, ...] = ()
    """Every column of the source, in its order."""
    guesses: tuple[Guess, ...] = ()
    """The assumptions that could be wrong."""
    left_out: tuple[LeftOut, ...] = ()
    """The rows that were left out, one entry for each reason."""
    notes: tuple[str, ...] = ()
    """Everything else that loading and filtering did, one sentence each."""
    likes: str = ""
    """The rule by which rows count as likes (`data.likes`); "" if nobody said one."""
    scaled: bool = False
    """True if somebody said what the values are: a scale of ratings, or logarithms of counts."""
    in_frame: bool = False
    """True of the columns of a caller's frame, whose names the frames of results keep."""

    def noted(self, *sentences: str) -> Reading:
        """Returns the report with further notes at its end."""
        return self._replace(notes=(*self.notes, *sentences))

    def as_json(self) -> dict[str, object]:
        """Returns the report as plain values, for JSON; `parse` reads them."""
        plain = self._asdict()
        for name in ("columns", "guesses", "left_out"):
            plain[name] = [entry._asdict() for entry in plain[name]]
        return {**plain, "notes": list(self.notes)}

    @classmethod
    def parse(cls, given: object) -> Reading:
        """Returns the report in plain values. Raises ValueError for values that are none."""
        return TypeAdapter(cls).validate_python(given)

    @property
    def names(self) -> dict[str, str]:
        """The names of a caller's columns by their roles."""
        return {use.role: use.name for use in self.columns if self.in_frame}

    @property
    def sentences(self) -> tuple[str, ...]:
        """The whole report, one sentence for each entry; the unread columns are in one."""
        entries = self._columns()
        for guess in self.guesses:
            entries.append(f"assumed: {guess.assumed} ({guess.option} says so)")
        for entry in self.left_out:
            rows = f"{entry.rows:,}, the first at {entry.first}"
            entries.append(f"rows left out, {entry.reason}: {rows}")
        # A column may have any name.
        return tuple(map(one_line, (*entries, *self.notes)))

    def _columns(self) -> list[str]:
        if not self.columns:
            return []
        read = [f"{use.role} = {use.name}" for use in self.columns if use.role]
        lines = [f"read {self.source}: {', '.join(read)}"]
        others = [use.name for use in self.columns if not use.role]
        if others:
            dots = ""
            if len(others) > LISTED:
                dots = f", and {len(others) - LISTED} more"
            lines.append(f"not read: {', '.join(others[:LISTED])}{dots}")
        return lines


def refuse_guesses(reading: Reading) -> None:
    """Raises InputError that names every guess of a report with the option that says it."""
    if not reading.guesses:
        return
    listed = "; ".join(f"{guess.assumed} ({guess.option})" for guess in reading.guesses)
    raise InputError(
        reading.source,
        f"strict, and guessed: {listed}",
        expected="an option for each guess",
        fix="give them as --load NAME=VALUE",
    )
