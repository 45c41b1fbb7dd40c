"""`UserGroups`: groups of users by what is known about them, such as their occupation; read from a
CSV file.
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
    """A group for each user. of: int32 [users], numbers from 0, in the order of `names`. Raises
    InputError for a number without a name.
    """

    def __init__(self, of: Int32Array, names: Sequence[str]) -> None:
        self.of, self.names = np.asarray(of, np.int32), tuple(names)
        if len(self.of) and not 0 <= int(self.of.min()) <= int(self.of.max()) < len(self.names):
            problem = f"numbers from {self.of.min()} to {self.of.max()}"
            raise InputError(
                "groups",
                problem,
                expected=f"numbers from 0, below the {len(self.names)} groups there are",
            )

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.of.tobytes()).hexdigest()[:12]
        return f"UserGroups(groups={len(self.names)}, users={len(self.of)}, sha256={digest})"


def read_groups(path: str, data: Interactions) -> UserGroups:
    """The groups of a CSV file with the header `user,group`: external user ids, and any text. Users
    who are not in `data` are left out.

    Raises InputError with file:line for anything else, for a user named twice, and for a user of
    `data` without a group.
    """
    of = _rows(Path(path))
    users = [str(user) for user in data.users.ids]
    missing = next((user for user in users if user not in of), None)
    if missing is not None:
        raise InputError(
            path, f"user {missing!r} has no group", expected="a line for every user of the data"
        )
    names = sorted({of[user] for user in users})
    number = {name: k for k, name in enumerate(names)}
    return UserGroups(np.array([number[of[user]] for user in users], np.int32), names)


def _rows(path: Path) -> dict[str, str]:
    """{user: group}, in external ids."""
    of: dict[str, str] = {}
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            if (header := next(reader, [])) != HEADER:
                raise InputError(
                    f"{path}:1", f"the header is {','.join(header)!r}", expected=",".join(HEADER)
                )
            for cells in reader:
                if len(cells) != len(HEADER) or cells[0] in of:
                    problem = (
                        f"user {cells[0]!r} is named twice"
                        if len(cells) == len(HEADER)
                        else "a wrong number of columns"
                    )
                    raise InputError(
                        f"{path}:{reader.line_num}",
                        problem,
                        expected="one line user,group for each user",
                    )
                of[cells[0]] = cells[1]
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(
            str(path), f"cannot be read ({cause})", expected="a CSV file with the header user,group"
        ) from None
    return of
