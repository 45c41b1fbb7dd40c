"""`UserGroups`: groups of users by a known trait, such as their occupation; read from a CSV
file.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from ..core.errors import InputError
from ..core.types import Int32Array
from .interactions import Interactions

HEADER = ["user", "group"]


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
    """Returns the groups in a CSV file with the header `user,group`: external user ids, and any
    text. Users who are not in `data` are left out.

    Raises InputError with file:line for anything else, for a user named twice, and for a user of
    `data` without a group.
    """
    group_of = _rows(Path(path))
    users = data.users.ids.tolist()
    missing = next((user for user in users if user not in group_of), None)
    if missing is not None:
        raise InputError(
            path, f"user {missing!r} has no group", expected="a line for every user of the data"
        )
    groups = [group_of[user] for user in users]
    # Sorted, so that the order of the lines does not matter.
    names, numbers = np.unique(np.array(groups, object), return_inverse=True)
    return UserGroups(numbers.astype(np.int32), names.tolist())


def _rows(path: Path) -> dict[str, str]:
    """Returns {user: group}, in external ids."""
    group_of: dict[str, str] = {}
    try:
        # Spreadsheets write a byte order mark, which utf-8-sig skips.
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            if header != HEADER:
                raise InputError(
                    f"{path}:1", f"the header is {','.join(header)!r}", expected=",".join(HEADER)
                )
            for cells in reader:
                problem = ""
                if len(cells) != len(HEADER):
                    problem = "a wrong number of columns"
                elif cells[0] in group_of:
                    problem = f"user {cells[0]!r} is named twice"
                if problem:
                    raise InputError(
                        f"{path}:{reader.line_num}",
                        problem,
                        expected="one line user,group for each user",
                    )
                user, group = cells
                group_of[user] = group
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(
            str(path), f"cannot be read ({cause})", expected="a CSV file with the header user,group"
        ) from None
    return group_of
