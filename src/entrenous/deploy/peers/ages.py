"""`AgesHeard`: how many updates a peer believes that a model has had. One liar must not outweigh
everybody by one number.

A peer cannot know when its federation began, nor how long it was away itself, and no sender can
prove an age. But ages go round: all models of a network are about as old as each other. So a peer
believes of a sender what another sender has claimed, or what its own model has had, and two periods
more. One sender alone moves that by nothing, whatever it claims and however often; and a peer that
is new, or was away, soon hears a second sender.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from ...algorithms.gossip_node import OLDEST

SENDERS = 256  # whose newest claims are kept in mind
PERIODS = 2  # by which a model may be ahead of what others have claimed up to so long ago
ALONE = (
    100  # claims refused in a row, after which a peer that hears only from one believes that one
)


@final
class AgesHeard:
    """The newest age that each sender claimed, the newest last. ageing: updates by which the oldest
    model gains in a period, at most (`core.gossip_node.most_ageing`); peers: in the federation.
    Nothing of it is kept on the disk."""

    def __init__(self, ageing: int, peers: int) -> None:
        self._ahead, self._peers = PERIODS * ageing, peers
        self._said: OrderedDict[int, int] = OrderedDict()
        self._refused = 0

    def oldest(self, sender: int, own: int) -> int:
        """The most updates that a model of `sender` may claim, where the peer's own has had
        `own`."""
        no_second = self._peers == 2  # a peer of two has one other, whom nobody can confirm
        if no_second or self._refused >= ALONE:
            return OLDEST
        others = [age for number, age in self._said.items() if number != sender]
        return min(max([own, *others]) + self._ahead, OLDEST)

    def note(self, sender: int, age: int, believed: bool) -> None:
        """Keep in mind what a sender claimed, and whether it was believed."""
        self._said.pop(sender, None)
        self._said[sender] = age
        if len(self._said) > SENDERS:
            self._said.popitem(last=False)
        self._refused = 0 if believed else self._refused + 1
