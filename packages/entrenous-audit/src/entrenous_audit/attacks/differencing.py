"""A sum less the same sum without one party is what that party sent: the attacks on single updates
then read it.

A server that can have two sums over sets of parties that differ by one (one was away, was slow, or
was left out on purpose) of the same model needs no more: masks, however many parties there are, do
not help. The difference is exact on the fixed-point grid; noise of the sums adds up. It is given to
every attack on single updates that applies, and the claims are those of an attack that claims the
most. A party of several users is told apart from the others, its users are not: `em` reads their
sum. Source: ours; for
differencing of queries see D. E. Denning, P. J. Denning, M. D. Schwartz, "The tracker: a threat to
statistical database security", ACM TODS 4(1), 1979.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array
from entrenous.federation.recorder import Seen

from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import declined
from ._sums_seen import added_up, differences


def run(transcript: Transcript) -> Claims:
    """The claims of the best attack on the updates of the parties that two sums differ by; of all
    others popularity. Not tried where there are no such sums.
    """
    alone = apart(transcript)
    if not alone:
        return declined(transcript, "no two sums of one model differ by one party")
    surest = best_of(transcript, alone)
    if surest is None:
        return declined(transcript, "no attack on single updates applies")
    name, best = surest
    note = f"{len(alone)} differences, read by the attack '{name}'"
    if best.note:
        note = f"{note}: {best.note}"
    first = best.first
    if first is not None:
        # Places among differences become places of the second sums.
        last = len(transcript.rounds) - 1
        second = np.minimum(2 * first + 1, last)
        first = np.where(first >= 0, second, -1).astype(np.int32)
    return best._replace(first=first, note=note)


def best_of(transcript: Transcript, alone: tuple[Seen, ...]) -> tuple[str, Claims] | None:
    """The first of the attacks on single updates that claims at least half of what any of them
    claims, and its name; None if none applies. `match` comes last: on a grid of 2^-16 the score of
    a row is not sure.
    """
    # An attack looks up the others, so it cannot import their list when it is loaded itself.
    from ..known import applying

    single = transcript._replace(about={**transcript.about, "view": "individual"}, rounds=alone)
    claims_by_name = {}
    counts = {}
    for attack in applying(single):
        claims = attack.run(single)
        if claims.named:
            claims_by_name[attack.name] = claims
            claimed = claims.claimed
            counts[attack.name] = 0 if claimed is None else int(claimed.sum())
    most = max(counts.values(), default=0)
    many = [name for name, count in counts.items() if 2 * count >= most]
    if not many:
        return None
    name = min(many, key=lambda name: name == "match")
    return name, claims_by_name[name]


def apart(transcript: Transcript) -> tuple[Seen, ...]:
    """The updates of single users by which two entries of a transcript, one after the other,
    differ, as if they had been seen singly.
    """
    alone = (seen for seen in differences(transcript) if len(seen.users) == 1)
    return tuple(_singly(transcript, seen) for seen in alone)


def _singly(transcript: Transcript, seen: Seen) -> Seen:
    """The sum of one user as an update."""
    arrays = added_up(transcript, seen)
    # A device sent the rows in which the two sums differ. Rows of all arrays belong together.
    touched = np.zeros(transcript.items, np.bool_)
    for way, left in arrays.values():
        if way == "rows":
            touched |= left.reshape(len(touched), -1).any(axis=1)
    item = np.flatnonzero(touched).astype(np.int32)
    sent: dict[str, Array] = {
        "ptr": np.array([0, len(item)], np.int64),
        "item": item,
        "weight": seen.sent["weight"].sum(keepdims=True).astype(np.float32),
    }
    for name, (way, left) in arrays.items():
        # Of dense arrays a party adds to one of the groups, the others do not differ.
        own = left[item] if way == "rows" else left.sum(axis=0, keepdims=True)
        sent[name] = own.astype(np.float32)
    return seen._replace(sent=sent)


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send rows or dense arrays, which are added up, and two sums are of
    other people.
    """
    ways = {sent["way"] for sent in transcript.about["sends"]}
    return not ways.isdisjoint(("rows", "dense")) and not transcript.about["new_row"]


ATTACK = Attack("differencing", ("difference",), "ours", applies, run)
