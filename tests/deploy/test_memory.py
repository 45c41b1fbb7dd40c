"""What a node keeps in memory from round to round: no sum of a round that is over."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from federation_links import FaultyLink, federation, nodes_of, ratings
from lying_sums import SubtractingServer

from entrenous.deploy.node.node import FederatedNode
from entrenous.deploy.server.server import serve
from entrenous.privacy.secure_sum.terms import Floors

ROUNDS = 30
TRACED, SETTLED = (
    2,
    6,
)  # rounds after which memory is traced, and all that is replaced in each round has been
PROFILES: list[dict[str, Any]] = [
    {"profile": "paper"},
    {"profile": "private", "floors": Floors(people=20, parties=3), "secure": "masks"},
]


def free(node: FederatedNode) -> int:
    """How many sums of nobody a node keeps to use again."""
    return node.shard._free.qsize()


@pytest.mark.parametrize("terms", PROFILES, ids=["paper", "private"])
def test_a_gateway_with_secret_draws_keeps_one_sum_whatever_the_number_of_rounds(
    tmp_path: Path, terms: dict[str, Any]
) -> None:
    data = ratings(items=2000)
    made = federation(tmp_path / "f", 3, ROUNDS, data=data, draws="secret", **terms)
    nodes = nodes_of(made)
    held: list[int] = []

    def look(round: int, rounds: int, what: str) -> None:
        if round == TRACED:
            tracemalloc.start()
        if round in (SETTLED, ROUNDS):
            gc.collect()  # rounds of the server are cyclic garbage: the process has its own test
            held.append(tracemalloc.get_traced_memory()[0])

    try:
        digest = serve(
            FaultyLink({name: node.answer for name, node in nodes.items()}),
            made.server,
            progress=look,
        )
    finally:
        tracemalloc.stop()
    assert digest is not None and len(held) == 2
    assert [free(node) for node in nodes.values()] == [1] * len(nodes)
    sum_bytes = sum(array.nbytes for array in nodes["node-1"].contract.empty_total().rows.values())
    leaked_by_each = (held[1] - held[0]) / len(nodes) / sum_bytes  # in sums; before: one a round
    assert leaked_by_each < 0.1 * (ROUNDS - SETTLED)


def test_a_vector_that_is_masked_again_is_not_kept_either(tmp_path: Path) -> None:
    """A server that has one model summed again and again gets the same numbers, which no round
    makes anew.
    """
    floors = Floors(people=9, parties=3, occupancy=0.0)
    made = federation(
        tmp_path / "f",
        6,
        12,
        "fcf",
        settings={"factors": 4},
        secure="masks",
        floors=floors,
        draws="secret",
    )
    server = SubtractingServer(made)
    for number in range(10):
        assert server.sum_of(number, list(server.nodes)) is not None
    assert [free(node) for node in server.nodes.values()] == [1] * 6
    server.close()


def test_the_sums_that_a_node_remembers_share_what_is_the_same_in_all(tmp_path: Path) -> None:
    """One list of people and users for all rounds, as consented to and as read again; before: one a
    round, of everybody.
    """
    made = federation(tmp_path / "f", 3, 8, draws="secret", **PROFILES[1])
    nodes = nodes_of(made)
    assert (
        serve(FaultyLink({name: node.answer for name, node in nodes.items()}), made.server)
        is not None
    )
    node = nodes["node-1"]
    secure = node._kinds["consent"].__self__  # type: ignore[attr-defined]  # a bound method
    for past in (secure._past, node.store.past_sums()):
        assert len(past) == 8 and len({one.model for one in past}) == 8
        assert len({id(one.parties) for one in past}) == len({id(one.own) for one in past}) == 1
        assert past[0].own == frozenset(node.shard.users.tolist())
