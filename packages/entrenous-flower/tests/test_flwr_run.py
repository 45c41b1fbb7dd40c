"""A SuperLink, three SuperNodes and `flwr run`, as their manuals have it: the model of the
simulation. Masks over Flower are tried in memory: a lot needs more SuperNodes.

A SuperNode looks for a message every 3 seconds and starts a process for it, so that a round takes
10 s.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from federation_links import PATIENCE, federation, logged, ratings, server_sha256, simulated

pytest.importorskip("flwr")

from entrenous_flower.resident import LOG
from entrenous_network.operate.founding import FoundedFederation
from flower_deployment import Deployment, deployment, end, until

from entrenous.core.lock import is_held


def at_end(made: FoundedFederation, flower: Deployment) -> str:
    """The last line of the server's log, once the run is over."""

    def said() -> str:
        logs = [path for path in made.nodes.values() if (path / LOG).exists()]
        nodes = "\n".join((path / LOG).read_text() for path in logs)
        return "\n".join(
            [
                flower.said("superlink.log"),
                *(flower.said(f"{name}.log") for name in made.nodes),
                nodes,
            ]
        )

    log = made.server / "server.log"
    until(
        lambda: (
            log.exists()
            and any(line.startswith(("finished", "halted")) for line in logged(made.server))
        ),
        said,
        2 * PATIENCE,
    )
    return logged(made.server)[-1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_flwr_run_ends_with_the_model_of_the_simulation(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 3, 3, data=ratings(12))
    with deployment(tmp_path / "flower") as flower:
        for folder in made.nodes.values():
            flower.supernode(folder)
        flower.run(made.server)
        last = at_end(made, flower)
    status = json.loads((made.server / "status.json").read_text())
    print("seconds a round:", status["seconds_a_round"])
    assert last == f"finished: 3 rounds, model {server_sha256(simulated(made, ratings(12)))}"
    assert all((folder / LOG).read_text() == "" for folder in made.nodes.values())
    for folder in made.nodes.values():  # what kept the nodes open ends with the SuperNodes
        until(lambda folder=folder: not is_held(folder / "lock"), str)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_supernode_that_is_killed_goes_on_under_another_id(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 2, 4, data=ratings(12))
    with deployment(tmp_path / "flower") as flower:
        first, *_ = [flower.supernode(folder) for folder in made.nodes.values()]
        flower.run(made.server)
        log = made.server / "server.log"
        until(
            lambda: (
                log.exists() and any(line.startswith("round 0:") for line in logged(made.server))
            ),
            lambda: "no round",
        )
        end([first], gently=False)
        flower.supernode(next(iter(made.nodes.values())))
        last = at_end(made, flower)
    assert last == f"finished: 4 rounds, model {server_sha256(simulated(made, ratings(12)))}"
