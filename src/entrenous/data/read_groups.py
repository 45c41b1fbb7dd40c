"""Groups of users from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import InputError
from .files import read_without_options
from .interactions import Interactions
from .published import text_column
from .user_groups import UserGroups

EXPECTED = "a table with the columns user and group"


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
