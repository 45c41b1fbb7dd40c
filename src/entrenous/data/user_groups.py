"""`UserGroups`: groups of users by a known trait, such as their occupation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import final

import numpy as np

from ..core.errors import InputError
from ..core.types import Int32Array


@final
class UserGroups:
    """A group for each user. of: the group of each user, numbers from 0 in the order of `names`,
    int32 [users]. Raises InputError for a number without a name.
    """

    def __init__(self, of: Int32Array, names: Sequence[str]) -> None:
        self.of = np.asarray(of, np.int32)
        self.names = tuple(names)
        if not len(self.of):
            return
        low = int(self.of.min())
        high = int(self.of.max())
        if low < 0 or high >= len(self.names):
            raise InputError(
                "groups",
                f"numbers from {low} to {high}",
                expected=f"numbers from 0, below the {len(self.names)} groups there are",
            )

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.of.tobytes()).hexdigest()[:12]
        return f"UserGroups(groups={len(self.names)}, users={len(self.of)}, sha256={digest})"
