"""`Claims`: what an attack says about histories, and `Attack`: how one is declared. One file of `audit/attacks/` = one attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array
from .transcript import Transcript, View


class Claims(NamedTuple):
    """What an attack says about the histories of some users.

    users: int64 [m], about whom, ascending. score: float32 [m, items], higher = more likely consumed; it ranks all items. claimed: bool
    [m, items], the items that the attack is sure of (None: it only ranks). first: int32 [m, items], the place in `transcript.rounds` at
    which an item was first claimed, -1 = never (None: not kept). named: whether the users are named, or pseudonyms whose history is right
    but whose name is not known. note: a sentence on what limits the attack here, such as equations against unknowns.
    """

    users: Int64Array
    score: Float32Array
    claimed: BoolArray | None = None
    first: Int32Array | None = None
    named: bool = True
    note: str = ""


class Attack(NamedTuple):
    """An attack: a file of `audit/attacks/` defines one as `ATTACK`.

    name: in lower case, words joined by hyphens, as the file with hyphens for underscores. views: what it needs to have seen. source: where
    it was published, or "ours". applies: whether there is something for it in a transcript, by `about` and the names of the arrays seen,
    never by their values. run: from a transcript to claims; the same claims for the same transcript.
    """

    name: str
    views: tuple[View, ...]
    source: str
    applies: Callable[[Transcript], bool]
    run: Callable[[Transcript], Claims]
