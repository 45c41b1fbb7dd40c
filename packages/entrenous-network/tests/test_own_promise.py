"""One hash for a file of one's own: in one process, and as a federation over TLS."""

from __future__ import annotations

from pathlib import Path

from entrenous_network.operate.founding import Place
from federation_links import federation, ratings, whole_sha256
from over_https import over_https
from paths import ROOT

from entrenous.federation.rounds import Rounds

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"


def test_as_a_federation(tmp_path: Path) -> None:
    data = ratings(12)
    made = federation(tmp_path / "f", 3, 3, str(EXAMPLE), data, place=Place(port=8443))
    rounds = Rounds(made.terms.make(place=str(EXAMPLE)), data, seed=made.terms.seed)
    assert over_https(made) == whole_sha256(rounds.advance(rounds.start(), 3))
