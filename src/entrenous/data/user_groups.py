"""`UserGroups`: groups of users by a known trait, such as their occupation; read from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from ..core.errors import InputError
from ..core.types import Int32Array
from .files import read_without_options
from .interactions import Interactions
from .published import text_column

EXPECTED = "a table with the columns user and group"


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


def read_groups(path: str, data: Interactions) -> UserGroups:
    """Returns the groups in a table with the columns `user`, external ids, and `group`, any text.
    Users who are not in `data` are left out.

    Raises InputError with file:line for anything else, for a user named twice, and for a user of
    `data` without a group.
    """
    table = read_without_options(Path(path), EXPECTED)
    listed = text_column(table.frame, "user", path).tolist()
    groups = text_column(table.frame, "group", path).tolist()
    group_of: dict[str, str] = {}
    for row, user in enumerate(listed):
        if user in group_of:
            problem = f"user {user!r} is named twice"
            raise InputError(table.where(row), problem, expected="one line for each user")
        group_of[user] = groups[row]
    users = data.users.ids.tolist()
    missing = next((user for user in users if user not in group_of), None)
    if missing is not None:
        raise InputError(
            path, f"user {missing!r} has no group", expected="a line for every user of the data"
        )
    # Sorted, so that the order of the lines does not matter.
    of_users = np.array([group_of[user] for user in users], object)
    names, numbers = np.unique(of_users, return_inverse=True)
    return UserGroups(numbers.astype(np.int32), names.tolist())
