"""The graph of a secure sum: the neighbours of each party, the shares that give a secret, and the
signatures that make a list binding.

Up to 128 parties everyone is everyone's neighbour; above, each has k on a ring (Harary graph H(k,
n), Bell et al. 2020, section 3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import ceil, comb
from typing import NamedTuple

COMPLETE = 128  # parties up to which everyone is everyone's neighbour
MISSING = 0.3  # the share of the parties that may be missing
IN_LEAGUE = 0.1  # the share that may be in league with the server, which is one at least
TOO_FEW = 1e-3  # the chance, over all parties, of fewer than t surviving neighbours
TOO_MANY = 1e-6  # the same of t or more neighbours in league with the server


class Graph(NamedTuple):
    """The neighbours among some parties, on a ring whose reach may go round it."""

    threshold: int
    """Shares that give a secret."""
    quorum: int
    """Signatures that make a list binding."""
    faults: int
    """Parties that may be in league with the server."""
    ring: tuple[int, ...]
    """The order of the places round a ring."""
    reach: int
    """The number of neighbours on either side of the ring; half of all where everyone is
    everyone's neighbour."""

    def neighbours(self, place: int) -> list[int]:
        """The places of the parties with which a party exchanges masks and shares, ascending."""
        return [other for other in self.around(place) if other != place]

    def around(self, place: int) -> list[int]:
        """The places of all parties that hold shares of a party's secrets: its neighbours and
        itself, ascending.
        """
        at = self.ring.index(place)
        steps = range(at - self.reach, at + self.reach + 1)
        # Once round, the last place may be the first one again.
        return sorted({self.ring[step % len(self.ring)] for step in steps})

    def least(self, floor: int) -> int:
        """The fewest parties of a sum, where clients insist on `floor` of them: the parties
        that may be in league, and two others who hide each other.
        """
        return max(floor, self.quorum, hiding(self.faults))

    def joined(self, survivors: Collection[int]) -> bool:
        """Checks whether the survivors are connected in the graph, so that no sum over a part of
        them can be unmasked.

        On a ring they are not where `reach` in succession are missing at two places.
        """
        here = set(survivors)
        # The steps from each survivor on the ring to the next one, round to the first.
        alive = [at for at, place in enumerate(self.ring) if place in here]
        gaps = [
            (after - before) % len(self.ring) for before, after in pairwise([*alive, *alive[:1]])
        ]
        return sum(gap > self.reach for gap in gaps) < 2


def faults(parties: int, members: int = 0) -> int:
    """The number of parties of a sum that may be in league with the server: a tenth, rounded up,
    and never fewer than one.

    members: all who can be parties, 0 = those of this sum. Up to COMPLETE members the share is of
    all of them: a server that leaves some out has no fewer on its side. Of more members the server
    draws those of a sum, and could draw its friends alone; there the share is of the parties.

    >>> faults(3), faults(9), faults(10), faults(11), faults(10, members=11)
    (1, 1, 1, 2, 2)
    """
    counted = max(parties, members) if members <= COMPLETE else parties
    # 1e-9, since 0.1 * 30 is a little above 3 in binary.
    return max(1, ceil(counted * IN_LEAGUE - 1e-9))


def hiding(faults: int) -> int:
    """The fewest parties of a sum of which so many may be in league: these, and two others who hide
    each other.
    """
    return faults + 2


def quorum(parties: int, members: int = 0) -> int:
    """The fewest signatures q with 2 q > parties + faults, by which a list becomes binding.

    Two lists of q signatures have at least 2 q - parties signers in common. That is more than the
    faults, so an honest party has signed both; and an honest party signs one list. Where q is more
    than the parties, none of their lists is binding. members: as for `faults`.

    >>> quorum(2), quorum(5), quorum(10), quorum(100), quorum(10, members=11)
    (2, 4, 6, 56, 7)
    """
    return (parties + faults(parties, members)) // 2 + 1


def degree(parties: int, members: int = 0) -> tuple[int, int]:
    """(k, t): the number of neighbours of each party, and of shares that give a secret. members: as
    for `faults`.

    In a complete graph t is the quorum. On a ring k is the smallest for which there is a t such
    that, by binomial tails and the union over all parties, the chance that some party has fewer
    than t surviving neighbours is below 1e-3, and the chance that some party has t or more
    neighbours in league with the server is below 1e-6.

    >>> degree(100), degree(1000)
    ((99, 56), (60, 24))
    """
    if parties <= COMPLETE:
        return parties - 1, quorum(parties, members)
    k = 2
    t = threshold(k, parties)
    # Some k below COMPLETE will do, however many parties there are.
    while not t:
        k += 2
        t = threshold(k, parties)
    return k, t


def threshold(k: int, parties: int) -> int:
    """The smallest t that both tails allow with k neighbours; 0 if none does."""
    in_league = _binomial(k, IN_LEAGUE)
    surviving = _binomial(k, 1 - MISSING)
    for t in range(1, k + 1):
        if parties * sum(in_league[t:]) < TOO_MANY:
            # A larger t only makes it more likely that too few survive.
            if parties * sum(surviving[:t]) < TOO_FEW:
                return t
            return 0
    return 0


def graph(names: Sequence[str], view: bytes, members: int = 0) -> Graph:
    """The graph of a roster. view: hash of all its signed keys, which decides the order round the
    ring; members: as for `faults`."""
    n = len(names)
    k, t = degree(n, members)
    # Nobody can choose a place on the ring: the order follows from everybody's keys.
    ring = sorted(range(n), key=lambda u: hashlib.sha256(view + names[u].encode()).digest())
    return Graph(t, quorum(n, members), faults(n, members), tuple(ring), (k + 1) // 2)


def _binomial(k: int, p: float) -> list[float]:
    """P(X = 0), ..., P(X = k)."""
    return [comb(k, i) * p**i * (1 - p) ** (k - i) for i in range(k + 1)]
