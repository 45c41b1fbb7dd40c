"""`SettingValue`: the type of what callers write as the value of a setting."""

from __future__ import annotations

from typing import TypeAlias

SettingValue: TypeAlias = object
"""A number or a text, or an object of the type that the setting declares, such as a `Choice`. The
class of the algorithm checks it, so that no type can be named here."""
