"""The memory that a client keeps of the sums that it was part of, and the check of further sums,
which could tell too much together with them.

Two sums over nearly the same parties differ by what the others sent: of FCF exactly that for an
equal model, and nearly that between rounds. A server that can leave a party out, or say that it did
not answer, so chooses whom to see. Therefore every sum that a client consents to is held against
all that it consented to before:

- of an equal model: the same parties, the same people of the client, and the same vector, so that
  nothing new is said; or nothing.
- of another model: each side of the difference is empty or holds at least as many parties and
  people as one sum must. Fixed disjoint groups, everybody in every round, and large random cohorts
  pass; one party that is missing does not. The round is then not summed, and the federation waits
  for that party; its owner may let the others go on (`Floors.apart`).

Why the client's own memory is enough: a sum comes out only under a list that a quorum of its
parties has signed, and each of them remembers it. A later sum with few other parties has one of
them in it, unless all but a few of that quorum are in league with the server. A round that was lost
before this client signed a list is therefore not remembered, and the next one may have other
parties.

Not covered: combinations of three and more different sums, and the regression of many random
cohorts on who took part (Lam et al. 2021): against these there is noise on every sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from .refusal import SumRefused, require
from .terms import Floors


class PastSum(NamedTuple):
    """A sum that a client consented to."""

    model: bytes
    """sha256 of the model that devices trained from."""
    parties: Mapping[str, int]
    """The parties in the sum, with their people."""
    own: frozenset[int] = frozenset()
    """The client's own users who were in it."""


def check_parties(
    past: Iterable[PastSum], model: bytes, parties: Mapping[str, int], floors: Floors
) -> None:
    """Raises SumRefused `twice` or `apart` for a sum of `parties`, with their people, that would
    tell too much together with earlier ones.
    """
    for before in past:
        if before.parties.keys() == parties.keys():
            continue
        if before.model == model:
            raise SumRefused("twice", "this model was summed before, with other parties")
        if not floors.apart:
            continue
        # The difference of two sums is a sum of either side alone: it must hide as many.
        _check_side(parties, before.parties, floors)
        _check_side(before.parties, parties, floors)


def check_own(
    past: Iterable[PastSum], model: bytes, own: frozenset[int], people: int, floors: Floors
) -> None:
    """Raises SumRefused `twice` or `apart` for a sum with the client's users `own` and `people` in
    all: the client's part of the difference from an earlier sum, too, must be nobody or its share
    of the floor.
    """
    least = ceil(floors.people * len(own) / max(1, people))
    for before in past:
        if before.own == own or not before.own:
            continue
        if before.model == model:
            raise SumRefused("twice", "this model was summed before, with other users of this node")
        for side in (own - before.own, before.own - own):
            require(
                not floors.apart or not side or len(side) >= least,
                "apart",
                f"{len(side)} users of this node more or fewer than in an earlier sum; none, or at"
                f" least {least}",
            )


def sums_of(past: Iterable[PastSum], parties: Mapping[str, int]) -> int:
    """The number of earlier sums of the same parties."""
    return sum(before.parties.keys() == parties.keys() for before in past)


def sharing(past: Iterable[PastSum], new: PastSum) -> PastSum:
    """A sum as it is to be remembered after others: people and own users that are those of an
    earlier one are in memory once. They are the same in most rounds, and as long as a list of
    everybody.
    """
    for before in past:
        if before.parties == new.parties:
            new = new._replace(parties=before.parties)
        if before.own == new.own:
            new = new._replace(own=before.own)
        if before.parties is new.parties and before.own is new.own:
            break
    return new


def _check_side(side: Mapping[str, int], other: Mapping[str, int], floors: Floors) -> None:
    """Refuses parties that are in one of two sums alone, if they are some and too few."""
    alone = [people for name, people in side.items() if name not in other]
    parties = len(alone)
    people = sum(alone)
    short = parties < floors.parties or people < floors.people
    require(
        not parties or not short,
        "apart",
        f"{parties} parties with {people} people more or fewer than in an earlier sum; none, or at "
        f"least {floors.parties} with {floors.people}: it waits for the same ones",
    )
