"""Speed of a real federation: seconds a round over sockets, and where they go."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from entrenous.core.contract.protocols import Progress
from entrenous.data.interactions import Interactions
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds

USERS, ITEMS, ROWS, GATEWAYS = (
    6040,
    3706,
    1_000_209,
    4,
)  # MovieLens-1M's, in four gateways of 1,510 users
SETTINGS, ROUNDS = {"factors": 20}, 12
COUNTS, CEILING = (10, 50), 10.0  # nodes of one user; answers a second
STUDY, AIM = (
    5.0,
    2.0,
)  # seconds a round: of Flower as it comes (research/engines.md, 1.6), and what we aim for


def federation(threads: int, progress: Progress) -> dict[str, Any]:
    """FPL (F = 20, X+ / |U| triples a device) of four gateways of 1,510 users: the median round in
    one process; the same with nodes, frames, signatures, stores and journal in one process, over
    memory; and over HTTPS on loopback, each part a process."""
    data = synthetic(users=USERS, items=ITEMS, interactions=ROWS)
    alone = _in_process(data)
    progress(1, 3, "measured")
    found: dict[str, float] = {}
    for done, (name, over) in enumerate([("memory", _memory), ("https", _https)], start=2):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = over(Path(folder) / "f", data)
        progress(done, 3, "measured")
    return {
        "seconds_a_round": found["https"],
        "ratio_to_aim": found["https"] / AIM,
        "ratio_to_flower_as_it_comes": found["https"] / STUDY,
        "training": alone,
        "frames_stores_journal": found["memory"] - alone,
        "https_and_sockets": found["https"] - found["memory"],
        "against": (
            f"the aim of {AIM:g} s and the study's {STUDY:g} s a round of 4 SuperNodes of 1,510"
            " users; all on this machine at once"
        ),
    }


def _in_process(data: Interactions) -> float:
    """The median round of a simulation on one thread."""
    rounds = Rounds(_terms_algorithm(), data, seed=0)
    training, took = rounds.start(), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        training = rounds.one_round(training)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _terms_algorithm() -> Any:
    from entrenous.systems.fpl import FPL

    return FPL(**SETTINGS)  # type: ignore[arg-type]


def _founded(folder: Path, data: Interactions) -> Any:
    from entrenous_network.operate.founding import Place, found, free_ports
    from entrenous_network.operate.plans import FoundingPlan

    plan = FoundingPlan(algorithm="fpl", settings=SETTINGS, rounds=ROUNDS, profile="paper")
    return found(folder, data, plan, nodes=GATEWAYS, place=Place(port=free_ports()[0]))


def _memory(folder: Path, data: Interactions) -> float:
    from entrenous_network.node.node import FederatedNode
    from entrenous_network.operate.running import status
    from entrenous_network.server.server import serve

    from ..memory_link import MemoryServerLink

    made = _founded(folder, data)
    nodes = {name: FederatedNode(path) for name, path in made.nodes.items()}
    link = MemoryServerLink({name: node.answer for name, node in nodes.items()}, workers=1)
    serve(link, made.server)
    link.close()
    for node in nodes.values():
        node.close()
    return float(status(made.server)["seconds_a_round"])


def _https(folder: Path, data: Interactions) -> float:
    from entrenous_network.operate.processes import Processes
    from entrenous_network.operate.running import status

    made = _founded(folder, data)
    with Processes() as processes:
        processes.start(made.server, "server")
        for node in made.nodes.values():
            processes.start(node)
        processes.of[made.server].wait()
    return float(status(made.server)["seconds_a_round"])


BENCHES = {"federation": federation}
