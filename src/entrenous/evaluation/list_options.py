"""`ListOptions`: the items that lists of recommendations may have, and what becomes of users whom
the training does not know. It loads nothing, so that `entrenous --help` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

Seen = Literal["hide", "keep"]
Unknown = Literal["refuse", "skip", "popular"]


@final
@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """The options of lists of recommendations."""

    items: Sequence[str] | None = None
    """The items that may be recommended, by their ids; default: every item with a training row."""
    without: Sequence[str] = ()
    """Items that may not be recommended, by their ids."""
    seen: Seen = "hide"
    """Items that a user has already: hide = leave them out; keep = they may be recommended."""
    unknown: Unknown = "refuse"
    """Users and items that the training does not know: refuse = name them and stop; skip = name
    them and leave them out; popular = as skip, and such users get the most popular items."""
