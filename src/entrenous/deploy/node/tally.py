"""What the devices of a node have sent, counted as it leaves; the node's own store keeps the counts
for receipts.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple, final

import numpy as np

from ...core.contract.update import Update
from ...core.types import Int64Array
from ...data.interactions import Interactions
from .node_store import LeftDevice


class SentCount(NamedTuple):
    """How many rows one device sent, how many of them of items that its user has consumed (both
    None: numbers for all items came at once, and no row by itself), and how many numbers in all."""

    rows: int | None
    positives: int | None
    numbers: int


@final
class UpdateTally:
    """Counts what the devices of a node send, when they send it. rows: the histories of the node's
    users, row r that of users[r].
    """

    def __init__(self, rows: Interactions, users: Int64Array) -> None:
        self._rows, self._users = rows, users
        self._counts: dict[int, SentCount] = {}
        self._turn = Lock()

    def sent(self, users: Int64Array, update: Update) -> None:
        """Counts the updates of some devices; of one that is trained again, the newest."""
        arrays = (*update.dense.values(), *update.shown.values())
        beside = sum(int(np.prod(array.shape[1:], dtype=np.int64)) for array in arrays)
        width = sum(int(np.prod(row.shape[1:], dtype=np.int64)) for row in update.rows.values())
        items = len(self._rows.items)
        at_once = not update.rows and any(
            array.shape[1:2] == (items,) for array in update.dense.values()
        )
        for place, user in enumerate(users.tolist()):
            item = update.item[update.ptr[place] : update.ptr[place + 1]]
            own = self._rows.of_users(np.searchsorted(self._users, [user])).item
            found = SentCount(len(item), int(np.isin(item, own).sum()), width * len(item) + beside)
            found = found._replace(rows=None, positives=None) if at_once else found
            with self._turn:
                self._counts[user] = found

    def taken(self) -> dict[int, SentCount]:
        """The counts since the last time, by user."""
        with self._turn:
            found, self._counts = self._counts, {}
        return found


def of_users(
    number: int, users: Int64Array, counts: Mapping[int, SentCount] | None
) -> list[LeftDevice]:
    """The entries of a round for the store. counts: by user, None = nobody counted; a user without
    one sent what it had sent before, which tells nothing new."""
    people = len(users)
    if counts is None:
        return [LeftDevice(number, user, None, None, None, people) for user in users.tolist()]
    again = SentCount(0, 0, 0)
    found = ((user, counts.get(user, again)) for user in users.tolist())
    return [
        LeftDevice(number, user, one.rows, one.positives, one.numbers, people)
        for user, one in found
    ]
