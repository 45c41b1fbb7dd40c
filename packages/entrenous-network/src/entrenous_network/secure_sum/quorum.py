"""The number of parties of a secure sum that may be in league with its server, and the number that
is then needed: to sign a list, and to give a secret.

Every party exchanges masks and shares with every other, so one number of both says all.
"""

from __future__ import annotations

COUNTED = 128  # members of whom a tenth may be in league, however few are in a sum


def faults(parties: int, members: int = 0) -> int:
    """The number of parties of a sum that may be in league with the server: a tenth of them,
    rounded up, and no fewer than a tenth of COUNTED members.

    members: all who can be parties, 0 = those of this sum. A server that leaves some out has no
    fewer on its side. Of more members the server draws those of a sum, and could draw its friends
    alone, whatever is counted.

    >>> faults(3), faults(10), faults(11), faults(10, members=11), faults(10, members=10_000)
    (1, 1, 2, 2, 13)
    """
    counted = max(parties, min(members, COUNTED))
    return -(-counted // 10)


def hiding(faults: int) -> int:
    """The fewest parties of a sum of which so many may be in league: these, and two others who hide
    each other.
    """
    return faults + 2


def quorum(parties: int, members: int = 0) -> int:
    """The fewest signatures q with 2 q > parties + faults, by which a list becomes binding, and the
    shares that give a secret.

    Two lists of q signatures have at least 2 q - parties signers in common. That is more than the
    faults, so an honest party has signed both; and an honest party signs one list. Where q is more
    than the parties, none of their lists is binding. So it is with shares: nobody gets q of both
    secrets of a party. members: as for `faults`.

    >>> quorum(2), quorum(5), quorum(10), quorum(100), quorum(10, members=11)
    (2, 4, 6, 56, 7)
    """
    return (parties + faults(parties, members)) // 2 + 1


def least(floor: int, parties: int, members: int) -> int:
    """The fewest parties that may be left of a sum, where clients insist on `floor` of them."""
    return max(floor, quorum(parties, members), hiding(faults(parties, members)))
