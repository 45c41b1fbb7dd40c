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

Duplicates = Literal["same", "first", "last", "sum", "refuse"]
BadRows = Literal["refuse", "drop"]


class FrameKeywords(TypedDict, total=False):
    """The options of `from_frame` as keywords, for editors and type checkers; `LoadOptions` says
    what each means.
    """

    user: str | None
    item: str | None
    value: str | None
    time: str | None
    duplicates: Duplicates
    bad_rows: BadRows
    bad_share: float
    max_items_of_a_user: int | None
    strict: bool
    scale: tuple[float, float] | None
    min_value: float | None
    min_rows: int


class LoadKeywords(FrameKeywords, total=False):
    """The options of `load` as keywords, as in `FrameKeywords`."""

    format: str | None
    delimiter: str | None
    encoding: str
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
    format: str | None = Field(
        None,
        description="of a file: a format or a published data set of entrenous data formats",
    )
    delimiter: str | None = Field(
        None,
        description=(
            "of a text file: one character, or ::; else the ending of the file decides, or its"
            " first line"
        ),
    )
    encoding: str = Field("utf-8", description="of a text file, such as latin-1")
    names: tuple[str, ...] | None = Field(
        None, description="column names of a file without a header, separated by commas"
    )
    duplicates: Duplicates = Field(
        "same",
        description=(
            "what becomes of repeated (user, item) rows: same (one, if they agree), first, last,"
            " sum (values add up, as of plays and purchases), or refuse"
        ),
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
    scale: tuple[float, float] | None = Field(
        None, description="lowest and highest value allowed, such as 1,5"
    )
    min_value: float | None = Field(
        None, description="keep rows of at least this value and count them as consumed"
    )
    min_rows: int = Field(
        1, ge=1, description="keep users and items with at least this many rows (the core)"
    )
    items: str | None = Field(None, description="a file with title and category of the items")

    @field_validator("names", "scale", mode="before")
    @classmethod
    def _separated(cls, given: Any) -> Any:
        """Returns the parts of a text such as `1,5`; anything else as it is."""
        return given.split(",") if isinstance(given, str) else given

    @field_validator("items", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """Returns a path as text, which a manifest can hold."""
        return str(given) if isinstance(given, Path) else given

    @field_validator("duplicates", mode="before")
    @classmethod
    def _check_duplicates(cls, given: Any) -> Any:
        if given == "error":
            raise InputError(
                "duplicates", "'error' has another name now", expected="duplicates=refuse"
            )
        return given

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        if delimiter is None or delimiter == "::":
            return delimiter
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\n\r\0':
            raise InputError(
                "delimiter",
                f"got {delimiter!r}",
                expected="one character such as , ; | or a tab, or ::",
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
    def _check_scale(cls, scale: tuple[float, float] | None) -> tuple[float, float] | None:
        if scale is None:
            return None
        low, high = scale
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InputError(
                "scale", f"got {scale}", expected="lowest and highest value, such as 1 5"
            )
        return scale
