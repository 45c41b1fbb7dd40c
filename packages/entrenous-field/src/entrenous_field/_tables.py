"""Reads a TOML file whose content has a declared form; a wrong key is refused with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from entrenous.core.errors import InputError, did_you_mean

T = TypeVar("T")


def read_declared(path: Path, form: type[T], keys: Iterable[str]) -> T:
    """Returns the content of a file. keys: the names that a misspelt one is compared with. Raises
    InputError with the place of a key that is unknown, missing or has a wrong value.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return TypeAdapter(form).validate_python(table)
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(str(path), f"it is no TOML: {wrong}") from None
    except InputError as wrong:
        where = f"{path} {wrong.where}"
        raise InputError(where, wrong.problem, expected=wrong.expected, fix=wrong.fix) from None
    except ValidationError as invalid:
        errors = invalid.errors()
        unknown = [error for error in errors if error["type"] == "extra_forbidden"]
        # A misspelt key is missing too.
        first = [*unknown, *errors][0]
        *place, key = map(str, first["loc"])
        raise InputError(
            f"{path} [{'.'.join(place)}]",
            f"'{key}' is wrong: {first['msg']}",
            fix=did_you_mean(key, keys) if unknown else "",
        ) from None
