"""`Claims`: the answer of an attack, and `Attack`: its declaration. Each file of
`entrenous_audit/attacks/` has one attack.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from entrenous.core.types import Array, BoolArray, Float32Array, Int32Array, Int64Array

from .plan import View
from .transcript import Transcript, read_arrays, write_arrays

Asks = Literal["histories", "members", "communities"]
"""histories: what did this user consume? members: was this user in training? communities: which
users are nearest to a set of items?
"""


class Claims(NamedTuple):
    """The answer of an attack about the histories of some users, or to another question."""

    users: Int64Array
    """[m], the users that it is about, ascending. Of members: candidates by their place."""
    score: Float32Array
    """[m, items], higher = more likely consumed; it ranks all items. Of members [m, 1], higher =
    more likely in training; of communities [m, targets], higher = nearer to a target's items."""
    claimed: BoolArray | None = None
    """[m, items], the items that the attack is sure of. None: it only ranks."""
    first: Int32Array | None = None
    """[m, items], the place in `transcript.rounds` at which an item was first claimed, -1 = never.
    None: not kept."""
    named: bool = True
    """True if the users are named. False: pseudonyms, whose history is right but whose name is not
    known.
    """
    note: str = ""
    """A sentence on the limits of the attack here, such as equations against unknowns."""
    asks: Asks = "histories"
    """The question of the attack."""
    tried: bool = True
    """False where there was nothing to attack with, such as too few rounds; `note` says what was
    missing. Then its score says nothing."""


class Attack(NamedTuple):
    """An attack: a file of `entrenous_audit/attacks/` defines one as `ATTACK`."""

    name: str
    """In lower case, words joined by hyphens: the name of the file with hyphens for underscores."""
    views: tuple[View, ...]
    """The views that it can read."""
    source: str
    """The publication, or "ours"."""
    applies: Callable[[Transcript], bool]
    """True if it can read a transcript, by `about` and the names of the arrays seen, never by their
    values.
    """
    run: Callable[[Transcript], Claims]
    """From a transcript to claims; the same claims for the same transcript."""


def write_claims(path: Path, claims: Claims) -> None:
    """Writes claims to one file."""
    arrays: dict[str, Array] = {"users": claims.users, "score": claims.score}
    if claims.claimed is not None:
        arrays["claimed"] = claims.claimed
    if claims.first is not None:
        arrays["first"] = claims.first
    about = {"named": claims.named, "note": claims.note, "asks": claims.asks, "tried": claims.tried}
    write_arrays(path, arrays, about)


def read_claims(path: Path) -> Claims:
    """Reads claims that `write_claims` wrote."""
    arrays, about = read_arrays(path)
    return Claims(
        arrays["users"], arrays["score"], arrays.get("claimed"), arrays.get("first"), **about
    )
