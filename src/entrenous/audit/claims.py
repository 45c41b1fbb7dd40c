"""`Claims`: what an attack says about histories, and `Attack`: how one is declared. One file of
`audit/attacks/` = one attack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from ..core.types import BoolArray, Float32Array, Int32Array, Int64Array
from .plan import View
from .transcript import Transcript

Asks = Literal["histories", "members", "communities"]
"""histories: what did this user consume? members: was this user in training? communities: which
users are nearest to a set of items?
"""


class Claims(NamedTuple):
    """What an attack says about the histories of some users, or another question.

    users: int64 [m], about whom, ascending. score: float32 [m, items], higher = more likely
    consumed; it ranks all items. claimed: bool [m, items], the items that the attack is sure of
    (None: it only ranks). first: int32 [m, items], the place in `transcript.rounds` at which an
    item was first claimed, -1 = never (None: not kept). named: whether the users are named, or
    pseudonyms whose history is right but whose name is not known. note: a sentence on what limits
    the attack here, such as equations against unknowns. tried: False where there was nothing to
    attack with, such as too few rounds; `note` says what was missing. Then its score says nothing.
    asks: what the attack was about. Of members `users` are candidates by their place, and score is
    [m, 1], higher = more likely in training; of communities score is [m, targets], higher = nearer
    to the items of a target.
    """

    users: Int64Array
    score: Float32Array
    claimed: BoolArray | None = None
    first: Int32Array | None = None
    named: bool = True
    note: str = ""
    asks: Asks = "histories"
    tried: bool = True


class Attack(NamedTuple):
    """An attack: a file of `audit/attacks/` defines one as `ATTACK`.

    name: in lower case, words joined by hyphens, as the file with hyphens for underscores. views:
    what it needs to have seen. source: where it was published, or "ours". applies: whether there is
    something for it in a transcript, by `about` and the names of the arrays seen, never by their
    values. run: from a transcript to claims; the same claims for the same transcript."""

    name: str
    views: tuple[View, ...]
    source: str
    applies: Callable[[Transcript], bool]
    run: Callable[[Transcript], Claims]


def write_claims(path: Path, claims: Claims) -> None:
    """Write claims to one safetensors file."""
    arrays = {name: getattr(claims, name) for name in ("users", "score", "claimed", "first")}
    whole = {
        name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None
    }
    about = {"named": claims.named, "note": claims.note, "asks": claims.asks, "tried": claims.tried}
    save_file(whole, path, metadata={"about": json.dumps(about)})


def read_claims(path: Path) -> Claims:
    """Read claims that `write_claims` wrote."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["about"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    return Claims(
        arrays["users"], arrays["score"], arrays.get("claimed"), arrays.get("first"), **about
    )
