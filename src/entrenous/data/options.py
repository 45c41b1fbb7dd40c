"""How to read a file, as names and values: what `--load item=venue` on the command line and a
stored run's manifest hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

from pydantic import Field, field_validator

from ..core.contract.settings import Settings


@final
class LoadOptions(Settings):
    """The options of `load` that describe an unusual file, under the same names."""

    user: str | None = Field(None, description="name of the user column")
    item: str | None = Field(None, description="name of the item column")
    value: str | None = Field(None, description="name of the value column; empty to leave it out")
    time: str | None = Field(None, description="name of the time column; empty to leave it out")
    delimiter: str | None = Field(None, description="of a text file: one character, or ::")
    encoding: str = Field("utf-8", description="of a text file, such as latin-1")
    names: list[str] | None = Field(
        None, description="column names of a file without a header, separated by commas"
    )
    duplicates: Literal["same", "first", "last", "error"] = Field(
        "same",
        description=(
            "which of repeated (user, item) rows is kept: same (any, if they agree), first, last,"
            " or error"
        ),
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
        return given.split(",") if isinstance(given, str) else given


def load_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for `load` from names and values. Raises InputError for a name or value it
    does not know.
    """
    options = LoadOptions.parse(values, "--load")
    return {name: getattr(options, name) for name in values}
