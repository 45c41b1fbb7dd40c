"""Options that several commands share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ..core.errors import InputError

Load: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        name="--load",
        negative="",
        help="How to read a file, name=value; may be repeated. user=, item=, value=, time= name its columns; also delimiter=, encoding=, "
        "names=, duplicates=last, scale=1,5, min_value=4 and items=FILE, as in `entrenous data check`.",
    ),
]


def need_libraries(command: str, *names: str) -> None:
    """Raises InputError where libraries of the network are not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise InputError(command, f"{', '.join(missing)} not installed", fix="pip install 'entrenous[network]'")
