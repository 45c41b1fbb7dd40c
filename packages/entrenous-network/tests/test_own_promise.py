"""One hash for a file of one's own: in one process, over Ray, and as a federation over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_shop
from entrenous_network.operate.founding import Place
from federation_links import federation, ratings, whole_sha256
from over_https import over_https
from paths import ROOT

from entrenous.federation.rounds import Rounds

EXAMPLE = ROOT / "docs" / "examples" / "my_algo.py"
PLAN = ("--data", "shop.csv", "--protocol", "loo-20", "--rounds", 3)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command line in a folder that holds the file and a small shop, and nothing of the
    package.
    """
    monkeypatch.chdir(tmp_path)
    write_shop(tmp_path / "shop.csv")
    (tmp_path / "my_algo.py").write_text(EXAMPLE.read_text())
    return Command(capsys)


@pytest.mark.beside
def test_over_ray(command: Command) -> None:
    pytest.importorskip("ray")
    alone = command("run", "./my_algo.py", *PLAN, "--json").json["model_sha256"]
    shared = command("run", "./my_algo.py", *PLAN, "--workers", 2, "--json")
    assert shared.json["model_sha256"] == alone


def test_as_a_federation(tmp_path: Path) -> None:
    data = ratings(12)
    made = federation(tmp_path / "f", 3, 3, str(EXAMPLE), data, place=Place(port=8443))
    rounds = Rounds(made.terms.make(place=str(EXAMPLE)), data, seed=made.terms.seed)
    assert over_https(made) == whole_sha256(rounds.advance(rounds.start(), 3))
