"""`Choice`: how much of their positive feedback users agree to share, as one number, one per user,
or one per (user, item).
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import final

import numpy as np

from ..core.contract.protocols import Histories
from ..core.errors import InputError
from ..core.types import Array, Float32Array, Int64Array
from ..data.interactions import Interactions, Vocabulary


@final
class Choice:
    """The probability pi of FPL as users choose it.

    default: the pi of users who did not choose. by_user: {user: pi}. by_item: {(user, item): pi},
    which wins over by_user. Users and items are dense indices. Raises InputError for a pi outside
    [0, 1].
    """

    def __init__(
        self,
        default: float,
        by_user: Mapping[int, float] | None = None,
        by_item: Mapping[tuple[int, int], float] | None = None,
    ) -> None:
        # A wrong probability is refused here, before a device draws with it.
        self.default = _checked("default", default)
        # Sorted keys and their values, for a binary search.
        of_users = sorted((by_user or {}).items())
        user_pi = [_checked(f"user {user}", pi) for user, pi in of_users]
        self._users = np.array([user for user, _ in of_users], np.int64)
        self._user_pi = np.array(user_pi, np.float32)
        # The key of a pair: the user in the upper half, the item in the lower one.
        of_pairs = sorted((by_item or {}).items())
        pair_pi = [_checked(f"user {user}, item {item}", pi) for (user, item), pi in of_pairs]
        self._pairs = np.array([user << 32 | item for (user, item), _ in of_pairs], np.int64)
        self._pair_pi = np.array(pair_pi, np.float32)

    def __repr__(self) -> str:
        parts: list[Array] = [self._users, self._user_pi, self._pairs, self._pair_pi]
        # The manifest of a run keeps this text: it must differ where a choice differs.
        digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:12]
        return (
            f"Choice(default={self.default}, users={len(self._users)}, pairs={len(self._pairs)},"
            f" sha256={digest})"
        )

    def of(self, users: Int64Array, histories: Histories) -> Float32Array:
        """The pi of every history row of the devices of `users`, float32 [ptr[m]]."""
        # A choice is about a user; a device needs it for each of its rows.
        counts = np.diff(histories.ptr)
        of_users = _looked_up(self._users, self._user_pi, users, np.float32(self.default))
        pi = np.repeat(of_users, counts)
        # A choice about an item wins over that about all items.
        if len(self._pairs):
            pairs = np.repeat(users, counts) << 32 | histories.item.astype(np.int64)
            pi = _looked_up(self._pairs, self._pair_pi, pairs, pi)
        return pi


def read_choice(path: str, data: Interactions) -> Choice:
    """A Choice from a CSV file with the header `user,pi` or `user,item,pi`, in external ids; `*` as
    the user sets the default (else 1).

    Raises InputError with file:line for anything else.
    """
    rows = _read_rows(Path(path))
    default = 1.0
    by_user = {}
    by_item = {}
    _refuse_repeats(rows)
    for where, row in rows:
        try:
            pi = _checked("pi", float(row["pi"]))
        except (ValueError, InputError):
            raise InputError(
                where, f"pi is {row['pi']!r}", expected="a number from 0 to 1"
            ) from None
        user = row["user"]
        item = row.get("item") or ""
        # The last rule is the narrowest: everybody, a user, a user and an item.
        if user == "*":
            default = pi
        elif item:
            by_item[_index(data.users, user, where), _index(data.items, item, where)] = pi
        else:
            by_user[_index(data.users, user, where)] = pi
    return Choice(default, by_user, by_item)


def _read_rows(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The rows of a CSV file by column, each with its `file:line`. Raises InputError."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            # utf-8-sig above: spreadsheets write a mark before the header.
            header = reader.fieldnames or []
            if not {"user", "pi"} <= set(header):
                raise InputError(
                    f"{path}:1",
                    f"the header is {','.join(header)!r}",
                    expected="user,pi or user,item,pi",
                )
            rows = [(f"{path}:{reader.line_num}", row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(
            str(path),
            f"cannot be read ({cause})",
            expected="a CSV file with the header user,pi or user,item,pi",
        ) from None
    for where, row in rows:
        # DictReader gives None for a field too many and for one too few.
        if None in row or None in row.values():
            raise InputError(
                where, "a wrong number of columns", expected="as many as in the header"
            )
    return rows


def _refuse_repeats(rows: list[tuple[str, dict[str, str]]]) -> None:
    """Refuses a second line for the same user, or for the same user and item: one person has one
    choice, so it contradicts the first line or is a slip.
    """
    first: dict[tuple[str, str], str] = {}
    for where, row in rows:
        user = row["user"]
        item = row.get("item") or ""
        who = user, item
        if who in first:
            named = f"user '{user}'"
            if item:
                named = f"user '{user}', item '{item}'"
            raise InputError(
                where,
                f"{named} is given twice",
                expected=f"one line, as in {first[who]}",
                fix="remove one of them",
            )
        first[who] = where


def _index(vocabulary: Vocabulary, name: str, where: str) -> int:
    """The index of a user or item. Raises InputError with `file:line` for an unknown one."""
    try:
        return vocabulary.index(name)
    except InputError as unknown:
        raise InputError(
            where, unknown.problem, expected=unknown.expected, fix=unknown.fix
        ) from None


def _checked(who: str, pi: float) -> float:
    """A probability. Raises InputError for any other number; who: names its place."""
    if not 0.0 <= pi <= 1.0:
        raise InputError("pi", f"{who} has {pi}", expected="a probability from 0 to 1")
    return float(pi)


def _looked_up(
    keys: Int64Array, values: Float32Array, wanted: Int64Array, otherwise: Float32Array | np.float32
) -> Float32Array:
    """The values at the `wanted` keys, `otherwise` for keys without one. keys: ascending."""
    if not len(keys):
        return np.broadcast_to(np.float32(otherwise), len(wanted)).astype(np.float32)
    # A key behind the last one would point outside; it is not equal to the last key.
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], otherwise).astype(np.float32)
