"""Answers to a name that no algorithm has: a slip of the keyboard, or a system of the field that is
not here.

In this field a letter makes another method: PFedRec is not FedRec, and FedNCF not FedMF. So only a
name that can hardly be another method is answered with a suggestion.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from ..core.errors import InputError
from ..core.registry.neighbours import absent

# Names of fewer letters, `fed` not counted, differ from another method by one of them.
LONG: Final = 6


class Elsewhere(NamedTuple):
    """A published system that this package does not have."""

    name: str
    near: str
    """The nearest in kind that is here."""


_OF_USERS = "cali3f-neumf, ditto-neumf"
_AVERAGED = "fedmf, fedncf"

ELSEWHERE: Final = (
    Elsewhere("CoFedRec", f"a model for each cluster of users: {_OF_USERS}"),
    Elsewhere("F2MF", f"averaged factors without its fairness term: {_AVERAGED}"),
    Elsewhere("FedCA", f"a model for each user beside the common one: {_OF_USERS}"),
    Elsewhere("FedCIA", f"factors from closed-form sums: fcf, fcf-newton; averaged: {_AVERAGED}"),
    Elsewhere("FedCORE", f"averaged factors: {_AVERAGED}"),
    Elsewhere("FedEM", f"a model for each user beside the common one: {_OF_USERS}"),
    Elsewhere("FedGNN", f"no graph of users, averaged factors: {_AVERAGED}"),
    Elsewhere("FedNCF-GMF", "FedNCF without its layers: fedmf"),
    Elsewhere("FedNCF-NeuMF", "fedncf itself"),
    Elsewhere("FedPEFT", f"averaged factors, no adapters: {_AVERAGED}"),
    Elsewhere("FedPerGNN", f"no graph of users, averaged factors: {_AVERAGED}"),
    Elsewhere("FedRec-SVD", "fedrec with --set model=svd++"),
    Elsewhere("FedVLR", f"averaged factors, no pictures or texts: {_AVERAGED}"),
    Elsewhere("IFedRec", f"averaged factors, no features of items: {_AVERAGED}"),
    Elsewhere("LightFR", f"averaged factors, not binary: {_AVERAGED}"),
    Elsewhere("NexusRec", f"averaged factors, no texts or pictures: {_AVERAGED}"),
    Elsewhere("SemiDFEGL", "no server: pepper-gmf, gossip-average-gmf"),
)
"""Systems that papers compare with, in alphabetical order. A system that comes goes from here."""


def unknown(name: str, known: Collection[str]) -> InputError:
    """Returns the error for a name that none of the known algorithms has."""
    problem = f"unknown algorithm '{name}'"
    elsewhere = absent(known)
    for neighbour in elsewhere:
        if name in neighbour.algorithms:
            where = f"{name} is in entrenous-{neighbour.extra}, which is not installed"
            return InputError("algorithm", where, fix=neighbour.line)
    slip = suggested(name, {*known}.union(*(each.algorithms for each in elsewhere)))
    if slip:
        return InputError("algorithm", problem, fix=f"did you mean '{slip}'?")
    for one in ELSEWHERE:
        if _letters(one.name) == _letters(name):
            fix = f"nearest in kind: {one.near}"
            return InputError("algorithm", f"{one.name} is not here", fix=fix)
    begun = [other for other in sorted(known) if name and other.startswith(f"{name}-")]
    fix = f"known: {', '.join(begun or sorted(known)) or 'none'}"
    return InputError("algorithm", problem, fix=fix)


def suggested(name: str, known: Iterable[str]) -> str:
    """Returns the known name that somebody meant who typed another one, "" if that is not sure.

    >>> suggested("FedMF", ["fedmf", "fedrec"]), suggested("pfpl-", ["pfpl+", "random"])
    ('fedmf', 'pfpl+')
    >>> suggested("pfedrec", ["fedrec"]), suggested("fedncf", ["fedmf"])
    ('', '')
    """
    if any(_letters(one.name) == _letters(name) for one in ELSEWHERE):
        return ""
    for same in (_same_letters, _doubled, _swapped, _one_slip):
        found = sorted(other for other in known if same(_letters(name), _letters(other)))
        if found:
            return found[-1]
    return ""


def _letters(name: str) -> str:
    """Returns a name without case and separators."""
    return re.sub(r"[\s_+-]", "", name.lower())


def _same_letters(a: str, b: str) -> bool:
    return a == b != ""


def _doubled(a: str, b: str) -> bool:
    """Tells whether a letter was typed twice, or once instead of twice."""
    return re.sub(r"(.)\1", r"\1", a) == re.sub(r"(.)\1", r"\1", b)


def _swapped(a: str, b: str) -> bool:
    """Tells whether two neighbours changed places."""
    return b in {a[:i] + a[i + 1] + a[i] + a[i + 2 :] for i in range(len(a) - 1)}


def _one_slip(a: str, b: str) -> bool:
    """Tells whether two long names differ by one letter, which is none of the first three."""
    a = a.removeprefix("fed")
    b = b.removeprefix("fed")
    if min(len(a), len(b)) < LONG:
        return False
    same = next((i for i, pair in enumerate(zip(a, b, strict=False)) if len({*pair}) > 1), len(a))
    # Another letter there, or one too many in either of them.
    rests = ((1, 1), (1, 0), (0, 1))
    return same >= 3 and any(a[same + i :] == b[same + j :] for i, j in rests)
