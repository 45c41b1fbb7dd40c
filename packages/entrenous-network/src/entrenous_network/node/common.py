"""The things that the nodes of one process share, as those of a shop do."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

from ..agreement.members import Members
from ..secure_sum.primitives import VerifiedOnce

LISTS = 4  # texts of lists that are held: nodes of one process may know lists of several lengths


class _Known(NamedTuple):
    """A list of members, by the text from which it was made."""

    before: Members | None
    """The list that the text makes longer; None for a text that is a whole list."""
    members: Members


@final
class Common:
    """Holds each list of members once, which all nodes of a federation have alike, and verifies
    each signature once. A node that is alone in its process has one to itself.

    clock: seconds since 1970, by which answers come free.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.verify = VerifiedOnce()
        self._lists: OrderedDict[bytes, _Known] = OrderedDict()

    def members(self, path: Path, users: int) -> Members:
        """Reads the list of a federation of `users` users from a file. Raises InputError."""
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            text = b""  # `Members.read` says what is wrong
        place = hashlib.sha256(text).digest()
        known = self._lists.get(place)
        if known is not None and known.members.users == users:
            return known.members
        return self._held(place, _Known(None, Members.read(path, users)))

    def taken(self, before: Members, text: str, where: str) -> Members:
        """Returns the longer list that `text` makes of `before`, as `Members.taken` does. Raises
        InputError, and ValueError for a list that is not longer.
        """
        place = hashlib.sha256(text.encode()).digest()
        known = self._lists.get(place)
        if known is not None and known.before is before:
            return known.members
        return self._held(place, _Known(before, before.taken(text, where)))

    def _held(self, place: bytes, known: _Known) -> Members:
        self._lists[place] = known
        while len(self._lists) > LISTS:
            self._lists.popitem(last=False)
        return known.members
