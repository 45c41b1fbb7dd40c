"""Rounds without end: a server goes on until it is stopped, keeps the newest models to go back to,
and gives its model to all while it trains.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from command_line import Command
from entrenous_network.operate.enrolment import told
from entrenous_network.operate.founding import FoundedFederation
from entrenous_network.operate.going_back import kept_rounds, rewind
from entrenous_network.operate.running import status
from entrenous_network.server import server_folder
from entrenous_network.server.server import serve
from federation_links import (
    federation,
    in_one_line,
    linked,
    logged,
    nodes_of,
    server_sha256,
    simulated,
)

from entrenous.core.contract.protocols import model_sha256
from entrenous.runs.store import read_arrays

pytestmark = pytest.mark.usefixtures("quick")


def endless(folder: Path, **terms: Any) -> FoundedFederation:
    return federation(
        folder, 4, 0, "fcf", settings={"factors": 4, "cohort": 6}, endless=True, **terms
    )


def served(made: FoundedFederation, stop_at: int) -> dict[str, Any]:
    """Runs the server until it has counted so many rounds. Returns its nodes."""
    nodes = nodes_of(made)
    stop = Event()

    def progress(done: int, total: int, what: str) -> None:
        if done == stop_at:
            stop.set()

    link = linked(nodes)
    assert serve(link, made.server, stop, progress) is None
    return nodes


def test_rounds_go_on_until_the_server_is_stopped(tmp_path: Path) -> None:
    made = endless(tmp_path / "f")
    served(made, 7)
    served(made, 12)
    now = status(made.server)
    assert now["round"] == 12 and now["lost"] == 0
    assert not (made.server / "model.safetensors").exists()
    assert "going on after round 7" in " ".join(logged(made.server))


def test_the_model_of_each_round_is_that_of_the_simulation(tmp_path: Path) -> None:
    made = endless(tmp_path / "f")
    served(made, 12)
    rewind(made.server, 10)

    arrays, _ = read_arrays(kept_rounds(made.server)[10])
    own = {name: array for name, array in arrays.items() if name.startswith("server.")}
    assert model_sha256(own) == server_sha256(simulated(made, rounds=10))


def test_a_server_keeps_the_newest_models_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(server_folder, "KEPT", 3)
    made = endless(tmp_path / "f")
    served(made, 61)
    kept = [int(path.stem[-9:]) for path in made.server.glob("kept-*.safetensors")]
    assert sorted(kept) == [40, 50, 60]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"rounds": 5}, "5 rounds, and without end"),
        ({"peers": True, "algorithm": "pepper-gmf"}, "peers have no rounds"),
    ],
)
def test_what_cannot_go_on_without_end_gets_one_line(
    tmp_path: Path, terms: dict[str, Any], said: str
) -> None:
    algorithm = terms.pop("algorithm", "fcf")
    with in_one_line(said):
        federation(tmp_path / "f", 4, algorithm=algorithm, endless=True, **{"rounds": 0, **terms})


def test_owners_are_told_that_rounds_do_not_end(tmp_path: Path, command: Command) -> None:
    made = endless(tmp_path / "f")
    lines = told(tmp_path / "f" / "invitations" / "node-1")
    assert any(line.startswith("rounds without end, 20 users") for line in lines)
    assert "10000000" not in made.terms.of_rounds
    for folder in (made.server, made.nodes["node-1"]):
        said = command("federation", "status", str(folder)).out
        assert "without end" in said and "10000000" not in said
