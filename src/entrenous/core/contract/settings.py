"""Hyper-parameters as typed, frozen, self-describing values: a wrong one is refused with one line
that names it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InputError, did_you_mean
from ..values import SettingValue
from .declarations import Traits

EXAMPLES = {
    "--set": "for example --set pi=0.5",
    "--network": "for example --network loss=0.3",
    "--protect": "for example --protect noise=0.2",
    "--own": "for example --own pi=0.5",
}


class Settings(BaseModel):
    """Base of every algorithm's hyper-parameters. Unknown names are refused; every field carries a
    description.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        # Declarations (holds, sends, ...) are no settings.
        ignored_types=(type, tuple, Traits),
    )

    def __iter__(self) -> Generator[tuple[str, SettingValue], None, None]:
        """Yields the settings by name, as `dict` reads them; no cached properties."""
        for name in type(self).model_fields:
            yield name, getattr(self, name)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Pickles an instance for another process. If its class is in a user's own file, it goes by
        the place of that file (core/registry/own.py).
        """
        kind = type(self)
        again = getattr(sys.modules.get(kind.__module__), "__entrenous_again__", None)
        if again is None:
            return super().__reduce__()
        return (again, (kind.__qualname__, dict(self)))

    @classmethod
    def parse(cls, values: Mapping[str, SettingValue], where: str = "--set") -> Self:
        """Makes settings from names and values (text is converted). Raises InputError for the first
        bad one.
        """
        try:
            return cls(**values)
        except ValidationError as invalid:
            raise _input_error(cls, invalid, where) from None


def _input_error(cls: type[Settings], invalid: ValidationError, where: str) -> InputError:
    """Returns the first error of a validation as one line."""
    first = invalid.errors()[0]
    expected = first["msg"].removeprefix("Value error, ")
    # Without a place, not one setting is wrong, but all of them together.
    if not first["loc"]:
        return InputError(where, "these settings do not go together", expected=expected)
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        fix = did_you_mean(name, cls.model_fields)
        return InputError(f"{where} {name}", "unknown setting", fix=fix)
    field = cls.model_fields.get(name)
    meaning = ""
    if field is not None and field.description:
        meaning = f"{name} is: {field.description}"
    return InputError(
        f"{where} {name}",
        f"got {str(first['input'])[:80]!r}",
        expected=expected.removeprefix("Input should be "),
        fix=meaning,
    )


def parse_assignments(pairs: Iterable[str], where: str = "--set") -> dict[str, str]:
    """Returns `["pi=0.5", "factors=20"]` as a dictionary. Raises InputError for anything that is
    not name=value.

    >>> parse_assignments(["pi=0.5"])
    {'pi': '0.5'}
    """
    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            fix = EXAMPLES.get(where, "")
            raise InputError(where, f"got {pair!r}", expected="name=value", fix=fix)
        if name in settings:
            raise InputError(where, f"{name} is given twice", expected="each setting once")
        settings[name] = value.strip()
    return settings
