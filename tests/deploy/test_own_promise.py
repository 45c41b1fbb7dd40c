"""One hash for a file of one's own: in one process, over Ray, and as a federation of processes over
TLS, with and without masks.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command, write_shop
from paths import ROOT

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


def test_over_ray(command: Command) -> None:
    pytest.importorskip("ray")
    alone = command("run", "./my_algo.py", *PLAN, "--json").json["model_sha256"]
    shared = command("run", "./my_algo.py", *PLAN, "--workers", 2, "--json")
    assert shared.json["model_sha256"] == alone


@pytest.mark.slow
@pytest.mark.parametrize("secure", ["none", "masks"])
def test_as_a_federation(secure: str, command: Command) -> None:
    pytest.importorskip("flwr")
    masks = ("--protect", "secure_sum=true") if secure == "masks" else ()
    options = (
        "--algorithm",
        "./my_algo.py",
        *PLAN,
        "--nodes",
        3,
        "--profile",
        "paper",
        *masks,
        "--json",
    )
    found = command("federation", "try", "f", *options).json
    assert (
        found["same"]
        and found["network"] == command("run", "./my_algo.py", *PLAN, "--json").json["model_sha256"]
    )
