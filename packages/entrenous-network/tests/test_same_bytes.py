"""C7 and the promise, in memory: rounds in one process, by threads, by nodes with one user each,
and by gateways end with the same bytes. (Over real sockets, with and without secure sums:
test_deploy_promise; on Ray: test_cluster_same_bytes.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from entrenous_lab.memory_link import MemoryServerLink
from entrenous_network.node.node import FederatedNode
from entrenous_network.server.server import serve
from federation_links import (
    FPL,
    Hub,
    answers_of,
    federation,
    finished,
    nodes_of,
    server_sha256,
    serving,
    simulated,
)
from gathered_model import fields_in
from small_federations import same

from entrenous.core.contract.declared import is_federated
from entrenous.federation.shard import Threads
from entrenous.systems.named import algorithms

PROMISED: dict[str, dict[str, Any]] = {
    "fpl": FPL,
    "fcf": {"factors": 4},
    "fbalf-bayes": {},
    "cali3f-gmf": {"factors": 4, "clusters": 3, "cohort": 9},
}
OTHERS = [
    name
    for name, make in sorted(algorithms().items())
    if is_federated(make()) and name not in PROMISED
]
ROUNDS = 3


def through(folder: Path, name: str, settings: dict[str, Any], nodes: int, threads: int = 1) -> str:
    """The model after the same rounds by nodes, whose private state is held against the
    simulation's.
    """
    founded = federation(folder, nodes=nodes, rounds=ROUNDS, algorithm=name, settings=settings)
    opened = {name: FederatedNode(path, threads=threads) for name, path in founded.nodes.items()}
    digest, private = (
        serve(MemoryServerLink(answers_of(opened)), founded.server),
        simulated(founded).devices,
    )
    for node in opened.values():
        for field, own in fields_in(node.store.newest_state()[1]).items():
            expected = getattr(private, field)[node.shard.users]
            assert same(own, expected), (node.name, field)
        node.close()
    assert digest == server_sha256(simulated(founded))
    return digest or ""


@pytest.mark.parametrize("name", PROMISED)
def test_c7_one_process_threads_devices_gateways(name, tmp_path):
    settings = PROMISED[name]
    one_each = through(tmp_path / "a", name, settings, 20)
    founded = federation(tmp_path / "t", nodes=1, rounds=ROUNDS, algorithm=name, settings=settings)
    for threads in (1, 2, 8):
        assert server_sha256(simulated(founded, executor=Threads(threads))) == one_each
    assert through(tmp_path / "b", name, settings, 3, threads=2) == one_each
    assert through(tmp_path / "c", name, settings, 1, threads=8) == one_each


@pytest.mark.parametrize("name", OTHERS)
def test_c7_every_other_algorithm_once(name, tmp_path):
    through(tmp_path / "f", name, {}, 4)


def test_c7_in_process_and_over_sockets(tmp_path):
    founded = federation(tmp_path / "f", nodes=7, rounds=ROUNDS)
    hub = Hub(tmp_path / "hub", answers_of(nodes_of(founded)))
    assert finished(serving(founded.server, hub.addresses), founded.server) == server_sha256(
        simulated(founded)
    )


def test_c7_the_seed_names_the_cohorts(tmp_path):
    """The same seed, the same model; another seed, another."""
    digests = {
        seed: [
            server_sha256(simulated(federation(tmp_path / f"{seed}-{n}", nodes=2, seed=seed)))
            for n in (1, 2)
        ]
        for seed in (1, 2)
    }
    assert len(set(digests[1])) == len(set(digests[2])) == 1 and digests[1] != digests[2]
