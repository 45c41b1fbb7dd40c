"""Peers agree on an algorithm's source: another is refused, and an invitation makes nobody run a
file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from peers_in_memory import terms

from entrenous.core.errors import InputError
from entrenous.core.registry.program import source_sha256
from entrenous.systems.named import kind_of


def test_another_source_is_refused() -> None:
    own = source_sha256(kind_of("pepper-gmf")[0])
    assert terms(4, algorithm_sha256=own).gossip.width == terms(4).gossip.width
    with pytest.raises(
        InputError,
        match="the source of pepper-gmf here is not the one that the federation agreed on",
    ):
        _ = terms(4, algorithm_sha256="0" * 64).gossip


def test_the_agreed_source_is_part_of_the_federations_identity() -> None:
    assert (
        terms(4).run == terms(4, algorithm_sha256="").run != terms(4, algorithm_sha256="0" * 64).run
    )


def test_a_place_in_an_invitation_runs_nothing(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    for name in (str(tmp_path / "evil.py"), f"{tmp_path}/evil.py:A", "evil:A"):
        with pytest.raises(
            InputError,
            match=r"is none of `entrenous algorithms`; expected its file; ask the operator",
        ):
            _ = terms(4, algorithm=name).gossip
    assert not ran.exists()
