"""The type of what callers write as the value of a setting, and the number of people by which the
settings of the profile `private` differ.
"""

from __future__ import annotations

from typing import Final, TypeAlias

SettingValue: TypeAlias = object
"""A number or a text, or an object of the type that the setting declares, such as a `Choice`. The
class of the algorithm checks it, so that no type can be named here."""

FEW_PEOPLE: Final = 1000
MANY_PEOPLE: Final = 5000
"""Below FEW_PEOPLE, and below MANY_PEOPLE, a model tells more of those who took part, so that
`private` brings other settings."""
