"""`Claims`: the answer of an attack, and `Attack`: its declaration. Each file of
`entrenous_audit/attacks/` has one attack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from entrenous.core.types import BoolArray, Float32Array, Int32Array, Int64Array

from .plan import View
from .transcript import Transcript

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
    """Writes claims to one safetensors file."""
    arrays = {"users": claims.users, "score": claims.score}
    if claims.claimed is not None:
        arrays["claimed"] = claims.claimed
    if claims.first is not None:
        arrays["first"] = claims.first
    # safetensors writes the memory of an array as it lies.
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    about = {"named": claims.named, "note": claims.note, "asks": claims.asks, "tried": claims.tried}
    save_file(whole, path, metadata={"about": json.dumps(about)})


def read_claims(path: Path) -> Claims:
    """Reads claims that `write_claims` wrote."""
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["about"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    return Claims(
        arrays["users"], arrays["score"], arrays.get("claimed"), arrays.get("first"), **about
    )
