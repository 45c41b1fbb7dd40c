"""Names that no algorithm has: never another method for an answer, and the nearest in kind of what is
not here.
"""

from __future__ import annotations

import re

import pytest

from entrenous.core.errors import InputError
from entrenous.systems.named import algorithms, maker_of
from entrenous.systems.unknown import ELSEWHERE, suggested, unknown

KNOWN = [
    *("fcf", "fcf-newton", "fedavg-gmf", "fedfast-gmf", "fedfast-mlp", "fedmf", "fedmf-ratings"),
    *("fedncf", "fedrec", "fedrec++", "fpl", "metamf", "pfpl", "pfpl+", "popular", "rfrec", "sfpl"),
]
OTHER_METHODS = [
    *("pfedrec", "fedrap", "fedrep", "fedper", "fedgnn", "fednmf", "fedcf", "pfedmf", "gfedrec"),
    *("ncf", "pfcf", "rfpl", "fedprox", "lfrec", "fedfast-prme", "mf", "fed", "f", ""),
]


@pytest.mark.parametrize("name", [*OTHER_METHODS, *(one.name for one in ELSEWHERE)])
def test_another_method_is_no_suggestion(name: str) -> None:
    assert suggested(name, KNOWN) == ""
    assert "did you mean" not in str(unknown(name, KNOWN))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("FedMF", "fedmf"),
        ("fed_ncf", "fedncf"),
        ("FedNCF ", "fedncf"),
        ("fedrec+", "fedrec++"),
        ("fcff", "fcf"),
        ("ffcf", "fcf"),
        ("fdemf", "fedmf"),
        ("poplar", "popular"),
        ("popularr", "popular"),
        ("fedfast-gfm", "fedfast-gmf"),
        ("fedmf-rating", "fedmf-ratings"),
        ("fcf-nevton", "fcf-newton"),
    ],
)
def test_a_slip_of_the_keyboard_is_answered(typed: str, meant: str) -> None:
    assert suggested(typed, KNOWN) == meant
    assert str(unknown(typed, KNOWN)).endswith(f"; did you mean '{meant}'?")


@pytest.mark.parametrize("one", ELSEWHERE, ids=lambda one: one.name)
@pytest.mark.beside
def test_a_system_of_the_field_is_not_here_and_the_nearest_is(one: object) -> None:
    """However it is written; and each name that is offered can be run."""
    assert isinstance(one, tuple)
    name, near = one
    known = algorithms()
    for written in (name, name.lower(), f"{name[:3]}-{name[3:]}"):
        with pytest.raises(InputError, match=f"^algorithm: {name} is not here; nearest in kind: "):
            maker_of(written)
    offered = [word for word in re.findall(r"[a-z0-9+-]+", near) if word in known]
    assert offered
    assert [*ELSEWHERE] == sorted(ELSEWHERE, key=lambda other: other.name.lower())


def test_a_family_is_answered_with_its_members() -> None:
    assert str(unknown("fedfast", KNOWN)).endswith("; known: fedfast-gmf, fedfast-mlp")
