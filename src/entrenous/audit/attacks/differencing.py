"""A sum less the same sum without one party is what that party sent: the attacks on single updates
then read it.

Who can have two sums over sets of parties that differ by one (one was away, was slow, or was left
out on purpose) of the same model needs no more: masks, however many parties there are, do not help.
The difference is exact on the fixed-point grid; noise of the sums adds up. It is given to every
attack on single updates that applies, and the claims are those of an attack that claims the most. A
party of several users is told apart from the others, its users are not. Source: ours; for
differencing of queries see D. E. Denning, P. J. Denning, M. D. Schwartz, "The tracker: a threat to
statistical database security", ACM TODS 4(1), 1979.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Array, Int64Array
from ...federation.recorder import Seen
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rows_seen import declined
from ._sums_seen import added_up


def run(transcript: Transcript) -> Claims:
    """The claims of the best attack on the updates of the parties that two sums differ by; of all
    others popularity. Not tried where there are no such sums."""
    alone = apart(transcript) if transcript.about.get("same_model", True) else ()
    found = best_of(transcript, alone)
    if found is None:
        missing = (
            "no attack on single updates applies"
            if alone
            else "no two sums of one model differ by one party"
        )
        return declined(transcript, missing)
    name, best = found
    said = f"{len(alone)} differences, read by the attack '{name}'" + (
        f": {best.note}" if best.note else ""
    )
    return best._replace(
        first=None if best.first is None else _places(best.first, transcript), note=said
    )


def best_of(transcript: Transcript, alone: tuple[Seen, ...]) -> tuple[str, Claims] | None:
    """The surest of the attacks on single updates that claim at least half of what any of them
    claims, and its name; None = none applies. On a grid of 2^-16 the score of a row is not sure."""
    found = [(name, claims) for name, claims in _single(transcript, alone) if claims.named]
    counts = [0 if claims.claimed is None else int(claims.claimed.sum()) for _, claims in found]
    many = [one for one, count in zip(found, counts, strict=True) if 2 * count >= max(counts)]
    return min(many, key=lambda one: one[0] == "match") if many else None


def _single(transcript: Transcript, alone: tuple[Seen, ...]) -> list[tuple[str, Claims]]:
    """What attacks on single updates say of some updates."""
    from ..known import known

    single = transcript._replace(about={**transcript.about, "view": "individual"}, rounds=alone)
    able = [one for one in known().values() if "individual" in one.views and one.applies(single)]
    return [(one.name, one.run(single)) for one in able] if alone else []


def apart(transcript: Transcript) -> tuple[Seen, ...]:
    """The updates of single users by which two entries of a transcript, one after the other,
    differ, as if they had been seen singly.
    """
    pairs = zip(transcript.rounds[::2], transcript.rounds[1::2], strict=False)
    found = (_difference(transcript, whole, less) for whole, less in pairs)
    return tuple(one for one in found if one is not None)


def _difference(transcript: Transcript, whole: Seen, less: Seen) -> Seen | None:
    """The update of the only user who is in one of two sums and not in the other."""
    party: Int64Array = np.setdiff1d(whole.users, less.users)
    same = all(
        name in less.received and np.array_equal(array, less.received[name])
        for name, array in whole.received.items()
    )
    if len(party) != 1 or len(whole.users) != len(less.users) + 1 or not same:
        return None
    sums, others = added_up(transcript, whole), added_up(transcript, less)
    left = {name: (way, array - others[name][1]) for name, (way, array) in sums.items()}
    item = _touched(transcript, left)
    sent: dict[str, Array] = {"ptr": np.array([0, len(item)]), "item": item.astype(np.int32)}
    for name, (
        way,
        array,
    ) in left.items():  # a party adds to one of the groups, the others do not differ
        sent[name] = (array[item] if way == "rows" else array.sum(axis=0, keepdims=True)).astype(
            np.float32
        )
    if "weight" in whole.sent:
        sent["weight"] = np.atleast_1d((whole.sent["weight"] - less.sent["weight"]).sum()).astype(
            np.float32
        )
    return Seen(whole.round, whole.received, party, sent)


def _touched(transcript: Transcript, left: dict[str, tuple[str, Array]]) -> Int64Array:
    """The items in whose rows two sums differ."""
    some = np.zeros(transcript.items, np.bool_)
    for way, array in left.values():
        if way == "rows":
            some |= array.reshape(transcript.items, -1).any(axis=1)
    return np.flatnonzero(some)


def _places(first: Array, transcript: Transcript) -> Array:
    """Places among differences as places among the sums."""
    return np.where(first >= 0, np.minimum(2 * first + 1, len(transcript.rounds) - 1), -1).astype(
        np.int32
    )


def applies(transcript: Transcript) -> bool:
    """Whether devices send rows or dense arrays, which are added up."""
    return any(sent["way"] in ("rows", "dense") for sent in transcript.about["sends"])


ATTACK = Attack("differencing", ("difference",), "ours", applies, run)
