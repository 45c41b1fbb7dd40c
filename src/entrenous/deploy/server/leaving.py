"""The nodes that leave the sums when a node is shut out and sums are masked.

Nodes consent to a further sum if it differs from each that they remember by nobody, or by as many
nodes and people as a sum must have (`secure_sum.memory`). They cannot know that who is shut out has
lied: an operator who could shut out one node alone could read it, as what an old sum has more than
a new one. So others have to leave with it: they *rest*, members who are in no round any more and
are given the trained model. They never come back by themselves, for that would be the same
difference from the other side.

Who rests follows from a hash, so that nobody has to choose, and a second call of the operator's
gives the same. It protects from no operator who lies: that one leaves out whom it likes in any
round, and the nodes' floors are what holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ...privacy.secure_sum.memory import PastSum, check_parties
from ...privacy.secure_sum.refusal import SumRefused
from ...privacy.secure_sum.terms import Floors

NO_MODEL = b""  # which no earlier sum has


def resting_with(
    name: str,
    people: Mapping[str, int],
    past: Sequence[PastSum],
    floors: Floors,
    run: str,
    fewest: int = 1,
) -> list[str] | None:
    """The nodes that rest when `name` is shut out, the fewest that do in the order of a hash; None
    if too few would be left.

    people: of all nodes that are in rounds, `name` among them; past: the sums that nodes remember;
    run: the federation's identity; fewest: people who must be left for a sum to have the noise that
    was promised.
    """
    order = sorted(people.keys() - {name}, key=lambda other: _place(run, name, other))
    for resting in range(len(order) + 1):
        left = {other: people[other] for other in order[resting:]}
        if len(left) < floors.parties or sum(left.values()) < max(floors.people, fewest):
            return None
        if _consented(left, past, floors):
            return sorted(order[:resting])
    return None


def _consented(left: Mapping[str, int], past: Sequence[PastSum], floors: Floors) -> bool:
    """Tells whether nodes would consent to the sum of these. Earlier sums that had all of the nodes
    count: the next sums have them all, too, while random cohorts differ by many."""
    whole = [before for before in past if before.parties.keys() >= left.keys()]
    try:
        check_parties(whole, NO_MODEL, left, floors)
    except SumRefused:
        return False
    return True


def _place(run: str, name: str, other: str) -> bytes:
    return hashlib.sha256(f"entrenous resting\n{run}\n{name}\n{other}".encode()).digest()
