"""`Doubts`: who has to do with wrong shares again and again. One sum seldom tells whether the owner
of a wrong share lied or its holder; many sums do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import exp, log
from typing import final

from .graph import IN_LEAGUE, TOO_MANY

Doubt = tuple[str, str]
"""A party by its name, and what it may have done, in words."""


@final
class Doubts:
    """Counts, over the sums of a server, the revealed shares of each party and the wrong ones among
    them. It holds all of them since the server began, and is lost with its process.

    A tenth of all parties may be in league, and lots and graphs mix them, so others may make some
    tenth of an honest party's shares wrong. A party has lied that has so many wrong ones that an
    honest one has as many in fewer than TOO_MANY of all cases.
    """

    def __init__(self) -> None:
        self._shown = Counter[Doubt]()
        self._wrong = Counter[Doubt]()

    def after(self, shown: Mapping[Doubt, int], wrong: Mapping[Doubt, int]) -> dict[str, str]:
        """Counts the shares of one more sum. Returns the parties among those with a wrong one in it
        that have lied by now, each with its lie.
        """
        self._shown.update(shown)
        self._wrong.update(wrong)
        chances = {one: by_chance(self._shown[one], self._wrong[one]) for one in wrong}
        return {name: lie for (name, lie), chance in chances.items() if chance < TOO_MANY}


def by_chance(shown: int, wrong: int) -> float:
    """A bound on the chance that so many of the shares that were shown are wrong, or more, where
    each is so with the chance IN_LEAGUE (Chernoff's, by the relative entropy of both shares).

    >>> by_chance(30, 3), by_chance(30, 10) > 1e-3, by_chance(90, 30) < 1e-6
    (1.0, True, True)
    """
    share = wrong / shown
    if share <= IN_LEAGUE:
        return 1.0
    entropy = share * log(share / IN_LEAGUE)
    if wrong < shown:
        entropy += (1 - share) * log((1 - share) / (1 - IN_LEAGUE))
    return exp(-shown * entropy)
