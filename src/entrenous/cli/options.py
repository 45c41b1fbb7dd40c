"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cyclopts import Parameter

Load: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        name="--load",
        negative="",
        help="How to read a file, name=value; may be repeated. user=, item=, value=, time= name its columns; also delimiter=, encoding=, "
        "names=, duplicates=last, scale=1,5, min_value=4 and items=FILE, as in `entrenous data check`.",
    ),
]
