"""`LoadOptions`: how the user wants a file or frame read, by the names that `load`, `--load` and
the manifest of a stored run use.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, final

import numpy as np
from pydantic import Field, field_validator

from ..core.contract.settings import Settings
from ..core.errors import InputError
from .likes import read_rule
from .scales import LOG, Scale

Duplicates = Literal["same", "first", "last", "sum"]
BadRows = Literal["refuse", "drop"]
Ids = Literal["as-written", "whole"]
# The forms of times between which the column itself may not decide.
TimeForm = Literal[
    "seconds",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "yyyymmdd",
    "month-first",
    "day-first",
]
BadTimes = Literal["refuse", "missing"]

# Delimiters by name.
SPELLED = {"tab": "\t", "\\t": "\t", "blank": " "}


class FrameKeywords(TypedDict, total=False):
    """The options of `from_frame` as keywords, for editors and type checkers; `LoadOptions` says
    what each means.
    """

    user: str | None
    item: str | None
    value: str | None
    time: str | None
    time_form: TimeForm | None
    bad_times: BadTimes
    duplicates: Duplicates
    ids: Ids
    bad_rows: BadRows
    bad_share: float
    max_items_of_a_user: int | None
    strict: bool
    scale: Scale | None
    likes: str | tuple[str, float] | None
    not_rated: float | None
    min_rows: int
    features: str | Sequence[str] | None


class LoadKeywords(FrameKeywords, total=False):
    """The options of `load` as keywords, as in `FrameKeywords`."""

    format: str | None
    delimiter: str | None
    encoding: str
    skip_lines: int
    names: Sequence[str] | None
    items: str | Path | None


@final
class LoadOptions(Settings):
    """The options of `load`. A file whose header has usual names needs none. A value may be the
    text that the command line has.
    """

    user: str | None = Field(None, description="name of the user column")
    item: str | None = Field(None, description="name of the item column")
    value: str | None = Field(None, description="name of the value column; empty to leave it out")
    time: str | None = Field(None, description="name of the time column; empty to leave it out")
    time_form: TimeForm | None = Field(
        None,
        description=(
            "form of the times where the column leaves it open: seconds, milliseconds,"
            " microseconds, nanoseconds, yyyymmdd, month-first or day-first"
        ),
    )
    bad_times: BadTimes = Field(
        "refuse",
        description=(
            "what becomes of a time that cannot be read, is before 1970 or after 2100: refuse, or"
            " missing (the row has no time)"
        ),
    )
    format: str | None = Field(
        None,
        description="of a file: a format or a published data set of entrenous data formats",
    )
    delimiter: str | None = Field(
        None,
        description=(
            "of a text file: one character, tab, blank or ::; else the ending of the file decides,"
            " or its first line"
        ),
    )
    skip_lines: int = Field(
        0, ge=0, le=1000, description="lines of a text file before its header or first row"
    )
    encoding: str = Field("utf-8", description="of a text file, such as latin-1")
    names: tuple[str, ...] | None = Field(
        None, description="column names of a file without a header, separated by commas"
    )
    duplicates: Duplicates = Field(
        "same",
        description=(
            "what becomes of repeated (user, item) rows: same (one, if they agree), first, last, or"
            " sum (values add up, as of plays and purchases)"
        ),
    )
    ids: Ids = Field(
        "as-written",
        description="whole takes ids such as 1.0 as 1, where a whole column is like that",
    )
    bad_rows: BadRows = Field(
        "refuse",
        description=(
            "what becomes of rows that cannot be read (no id, no number, too few fields): refuse,"
            " or drop, which counts them"
        ),
    )
    bad_share: float = Field(
        0.01,
        gt=0,
        le=1,
        description="the largest share of rows that bad_rows=drop leaves out; always one row",
    )
    max_items_of_a_user: int | None = Field(
        None, ge=1, description="leave out users with more items than this, such as programs"
    )
    strict: bool = Field(
        False, description="refuse whatever had to be guessed, and name the option that says it"
    )
    scale: Scale | None = Field(
        None,
        description=(
            "lowest and highest rating, such as 1,5; log for counts, which become log(1 + count)"
        ),
    )
    likes: str | None = Field(
        None,
        description=(
            "the rows that count as likes, for all algorithms and rankings alike: any, positive,"
            " at_least=X, or a column of labels (0/1); the others are left out"
        ),
    )
    not_rated: float | None = Field(
        None, description="a value that means that a row is no rating, such as 0: it is left out"
    )
    min_rows: int = Field(
        1, ge=1, description="keep users and items with at least this many rows (the core)"
    )
    items: str | None = Field(None, description="a file with title and category of the items")
    features: tuple[str, ...] | None = Field(
        None,
        description=(
            "further columns of the file of items that algorithms may learn from, separated by"
            " commas: categories between |, a number, or a list of numbers"
        ),
    )

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The lowest and highest rating; None if none are declared."""
        if isinstance(self.scale, str):
            return None
        return self.scale

    @field_validator("likes", mode="before")
    @classmethod
    def _read_likes(cls, likes: Any) -> str | None:
        if likes is None:
            return None
        return read_rule(likes)

    @field_validator("names", "features", "scale", mode="before")
    @classmethod
    def _separated(cls, given: Any) -> Any:
        """Returns the parts of a text such as `1,5`; anything else as it is."""
        if isinstance(given, str) and given != LOG:
            return given.split(",")
        return given

    @field_validator("items", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """Returns a path as text, which a manifest can hold."""
        if isinstance(given, Path):
            return str(given)
        return given

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        # A shell does not pass a tab or a blank easily.
        delimiter = SPELLED.get(delimiter or "", delimiter)
        if delimiter is None or delimiter == "::":
            return delimiter
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r\0':
            raise InputError(
                "delimiter",
                f"got {delimiter!r}",
                expected="one character such as , ; |, or tab, blank or ::",
            )
        return delimiter

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str) -> str:
        try:
            # The registry also knows codecs that are no encodings, such as zlib.
            known = codecs.lookup(encoding)._is_text_encoding
        except (LookupError, ValueError):
            known = False
        if not known:
            raise InputError(
                "encoding",
                f"unknown encoding '{encoding}'",
                expected="a name such as utf-8, latin-1, utf-16",
            )
        return encoding

    @field_validator("scale")
    @classmethod
    def _check_scale(cls, scale: Scale | None) -> Scale | None:
        if scale is None or isinstance(scale, str):
            return scale
        low, high = scale
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InputError(
                "scale", f"got {scale}", expected="lowest and highest value, such as 1 5"
            )
        return scale
