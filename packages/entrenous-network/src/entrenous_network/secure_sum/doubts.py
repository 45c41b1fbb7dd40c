"""`Doubts`: who has to do with wrong shares again and again. One sum seldom tells whether the owner
of a wrong share lied or its holder; many sums do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import final

from .quorum import faults

Doubt = tuple[str, str]
"""A party by its name, and what it may have done, in words."""


@final
class Doubts:
    """Keeps, over the sums of a server, with whom each party had a wrong share. It holds what was
    seen since the server began, and is lost with its process.

    At most a tenth of all members are in league, however often they come. So an honest party has
    wrong shares with as many others at most, and a party with more has lied.
    """

    def __init__(self) -> None:
        self._others = defaultdict[Doubt, set[str]](set)

    def after(self, wrong: Mapping[Doubt, set[str]], members: int) -> dict[str, str]:
        """Adds the wrong shares of one more sum. Returns the parties of it that have lied by now,
        each with its lie. wrong: with whom each party had one; members: all who can be parties.
        """
        most = faults(members)
        for doubt, others in wrong.items():
            self._others[doubt] |= others
        return {name: lie for name, lie in wrong if len(self._others[name, lie]) > most}
