"""`Turnout`: who takes part in a round where each device decides by itself.

A device answers in a round with probability cohort / users, by a draw in which nobody else has a
say (Poisson sampling: M. Abadi et al., CCS 2016), until it has answered in as many sums as its
owner allows; then it only downloads. A sum that fewer people than its floor would be in is not
opened: nobody answers, and no answer is spent.

A round may have several sums, in groups that are dealt anew in each round, so that nobody meets the
same people again.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import final

import numpy as np

from ..core.keys import fold_name, folds, select_key, uniforms
from ..core.types import BoolArray, Int64Array, UInt64Array


def lots(rounds: np.uint64, number: int, users: Int64Array) -> UInt64Array:
    """Returns the keys of the lots that users draw in a round, one for each. rounds: the key of the
    run for its rounds."""
    return folds(fold_name(np.uint64(select_key(rounds, number)), "poisson"), users)


def drawn(lots: UInt64Array, rate: float) -> BoolArray:
    """Tells of each lot whether its device offers to answer. rate: the probability."""
    return uniforms(lots) < rate


def usual_answers(rounds: int, rate: float) -> int:
    """Returns the rounds in which nearly everybody takes part at most, of whom each takes part with
    a probability: two standard deviations more than the mean.

    >>> usual_answers(20, 300 / 943)
    11
    """
    mean = rounds * rate
    return min(rounds, ceil(mean + 2 * sqrt(mean * (1 - rate))))


def groups_dealt(rounds: np.uint64, number: int, users: Int64Array, groups: int) -> Int64Array:
    """Returns the group of each user in a round, int64 [n] from 0 to `groups` - 1. Everybody can
    work it out, so no server chooses who meets whom.
    """
    of_round = np.uint64(select_key(rounds, number))
    keys = folds(fold_name(of_round, "groups"), users)
    return (uniforms(keys) * groups).astype(np.int64)


@final
class Turnout:
    """The devices of a federation that decide by themselves, with the draws of a seed.

    The result of a round depends on the seed and the number of the round alone: what was answered
    before is found out from the draws, wherever a training goes on. users: in the federation. rate:
    the probability of a device to take part in a round. people: in a sum, at least. answers: sums
    that a device answers in, at most; 0 = any number. groups: sums of a round.
    """

    def __init__(self, users: int, rate: float, people: int, answers: int, groups: int = 1) -> None:
        self._groups = groups
        self._users = np.arange(users)
        self._rate = rate
        self._people = people
        self._answers = answers
        # The number of sums that each device has answered in before a round, of one seed.
        self._known: tuple[np.uint64, int] | None = None
        self._answered = np.zeros(users, np.int64)

    def of(self, rounds: np.uint64, number: int) -> Int64Array:
        """The users of round `number` who offer to answer, int64, ascending. rounds: the key of the
        run for its rounds. Where there are several groups, those of groups in which too few offer
        are left out.
        """
        if not self._answers:
            return self._in_full_groups(rounds, number, self._drawn(rounds, number))
        known = self._known
        # Another seed, or a round from before: what was answered is counted anew.
        if known is None or known[0] != rounds or known[1] > number:
            known = (rounds, 0)
            self._answered[:] = 0
        for before in range(known[1], number):
            users = self._in_full_groups(rounds, before, self._able(rounds, before))
            # Where too few offered, nobody answered.
            if len(users) >= self._people:
                self._answered[users] += 1
        self._known = (rounds, number)
        return self._in_full_groups(rounds, number, self._able(rounds, number))

    def _in_full_groups(self, rounds: np.uint64, number: int, users: Int64Array) -> Int64Array:
        """Those of some users in whose groups there are enough of them; all, where there is one
        group.
        """
        if self._groups == 1:
            return users
        group = groups_dealt(rounds, number, users, self._groups)
        counts = np.bincount(group, minlength=self._groups)
        return users[counts[group] >= self._people]

    def _able(self, rounds: np.uint64, number: int) -> Int64Array:
        """The users of a round who have an answer left."""
        drawn = self._drawn(rounds, number)
        return drawn[self._answered[drawn] < self._answers]

    def _drawn(self, rounds: np.uint64, number: int) -> Int64Array:
        """The users whose own draw says that they take part."""
        return np.flatnonzero(drawn(lots(rounds, number, self._users), self._rate))
