"""Groups of nodes under masks: the nodes of each, and whether each is large enough for a sum of its
own.

Groups stay for the whole run: if they were drawn anew each round, differences of sums would tell
what fewer nodes sent. A node is put in its group by a hash of the federation's identity, which is
unknown to anybody who chooses a node's name. By lot groups are dealt anew (`privacy/turnout.py`):
each device holds every list that it is on against the participation contract. `grouped_round` says
what a server makes of the sums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from math import ceil, sqrt

import numpy as np

from ...core.contract.declared import Contract
from ...core.errors import InputError
from ...core.keys import key
from ...privacy.protection import PROTECT, ProtectionInForce
from ...privacy.secure_sum.graph import graph
from ...privacy.secure_sum.terms import SumTerms
from ...privacy.turnout import groups_dealt
from .members import Members
from .terms import FederationTerms


def groups_of(members: Members, terms: FederationTerms) -> list[frozenset[str]]:
    """Returns the members in each group of a federation, of as many groups as the terms say."""
    return dealt(members, terms.run, terms.protection.groups)


def groups_of_round(members: Members, terms: FederationTerms, number: int) -> list[frozenset[str]]:
    """Returns the members in each group of round `number`: by lot groups are dealt anew, and others
    stay.
    """
    count = terms.protection.groups
    if not terms.by_lot or count == 1:
        return groups_of(members, terms)
    users = np.arange(members.users)
    group = groups_dealt(key(terms.seed, "rounds"), number, users, count)
    groups: list[set[str]] = [set() for _ in range(count)]
    for name, member in members.nodes.items():
        # By lot a node is one user's.
        (user,) = member.users
        groups[group[user]].add(name)
    return [frozenset(names) for names in groups]


def dealt(members: Members, run: str, count: int) -> list[frozenset[str]]:
    """Returns the nodes of each of `count` groups, of all that ever were members, so that a node
    that leaves moves no other.

    Larger nodes come first, and those of one size in the order of a hash. Each `count` of them go
    to one group each, the largest to the group with the fewest people so far."""
    people = members.ever()
    order = sorted(people, key=lambda name: (-people[name], _place(run, name)))
    groups: list[set[str]] = [set() for _ in range(count)]
    in_group = [0] * count
    # Dealt like cards, a turn at a time, so that groups differ by at most one node and by few
    # people.
    for low in range(0, len(order), count):
        names = order[low : low + count]
        # The sort is stable: groups with as many people stay in their order.
        fewest = sorted(range(count), key=in_group.__getitem__)
        # The last turn may have fewer nodes than there are groups.
        for number, name in zip(fewest, names, strict=False):
            groups[number].add(name)
            in_group[number] += people[name]
    return [frozenset(group) for group in groups]


def check_groups(terms: FederationTerms, members: Members, contract: Contract) -> None:
    """Raises InputError for groups of which one is smaller than a sum may be. contract: of the
    algorithm.
    """
    protection = terms.protection
    if protection.groups == 1:
        return
    if terms.by_lot:
        _check_dealt(terms, contract)
        return
    people = members.ever()
    # As many as the owners insist on, and as many as bring the noise that was promised.
    fewest = ProtectionInForce(protection, contract).fewest
    least = max(protection.people, fewest)
    fix = "fewer groups, or more nodes"
    if fewest > protection.people:
        lost = protection.lost + (1 - protection.lost) / 4
        fix += f"; or more room for devices that are missing, such as {PROTECT} lost={lost:.2g}"
    for group in groups_of(members, terms):
        users = sum(people[name] for name in group)
        # A round asks a share of all users, and so the same share of each group.
        asked = users * contract.cohort / terms.users
        # The nodes that a sum of this group must have, by its graph of masks.
        shape = graph(sorted(group), b"", SumTerms.dropout, SumTerms.malicious, len(people))
        nodes = shape.least(protection.parties)
        if len(group) < nodes or asked < least:
            raise InputError(
                f"{PROTECT} groups",
                f"{protection.groups} groups, of which one has {len(group)} nodes with {asked:.4g}"
                " people in a round",
                expected=f"at least {nodes} nodes with {least} people in each",
                fix=fix,
            )


def _check_dealt(terms: FederationTerms, contract: Contract) -> None:
    """Raises InputError for groups by lot in which there are often too few people for a sum."""
    own = terms.protection
    mean = contract.cohort / own.groups
    # Two standard deviations below the mean, of a draw of few among many.
    fewest = mean - 2 * sqrt(mean)
    if fewest < own.people:
        raise InputError(
            f"{PROTECT} groups",
            f"{own.groups} groups of {contract.cohort} people in a round: one often has fewer than"
            f" the {own.people} of a sum",
            expected=f"a mean of {ceil((1 + sqrt(1 + own.people)) ** 2)} people in each",
            fix="fewer groups, or a larger --set cohort",
        )


def group_of(members: Members, terms: FederationTerms, name: str) -> frozenset[str]:
    """Returns the nodes of the group of a node, itself too: all that ever were members, where there
    are no groups.
    """
    groups = groups_of(members, terms)
    return next(group for group in groups if name in group)


def groups_left(members: Members, terms: FederationTerms, active: Collection[str]) -> int:
    """Returns how many groups have nodes among `active`."""
    groups = groups_of(members, terms)
    return sum(not group.isdisjoint(active) for group in groups)


def _place(run: str, name: str) -> bytes:
    """Returns the place of a node among nodes of its size."""
    return hashlib.sha256(f"entrenous group\n{run}\n{name}".encode()).digest()
