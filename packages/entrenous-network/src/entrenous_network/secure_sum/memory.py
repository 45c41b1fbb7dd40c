"""The memory that a client keeps of the sums that it was part of.

Two sums over nearly the same parties differ by what the others sent, so that a server which leaves
a party out chooses whom to see. What a client says to a further list of parties is for its rule
(`party_list.py`), which holds the list against those that the client remembers. It refuses
every second list of one model, with or without noise, and it counts answers. What the rule does not
know is how full a row of a sum is: sums of the very same parties are equations in the same
unknowns, and `SumRows.occupancy` counts them.

Why the client's own memory is enough: a sum comes out only under a list that a quorum of its
parties has signed, and each of them remembers it. A round that was lost before this client signed a
list is not remembered.

Not covered: combinations of three and more different sums, and the regression of many random
cohorts on who took part (Lam et al. 2021): against these there is noise on every sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class PastSum(NamedTuple):
    """A sum that a client consented to."""

    model: bytes
    """sha256 of the model that devices trained from."""
    parties: Mapping[str, int]
    """The parties in the sum, with their people."""


def sums_of(past: Iterable[PastSum], parties: Mapping[str, int]) -> int:
    """The number of earlier sums of the same parties."""
    return sum(before.parties.keys() == parties.keys() for before in past)
