"""What a node keeps in memory from round to round: no sum of a round that is over."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from entrenous_network.node.node import FederatedNode
from entrenous_network.server.server import serve
from federation_links import FaultyLink, federation, nodes_of, ratings

ROUNDS = 30
TRACED, SETTLED = (
    2,
    6,
)  # rounds after which memory is traced, and all that is replaced in each round has been


def free(node: FederatedNode) -> int:
    """How many sums of nobody a node keeps to use again."""
    return node.shard._free.qsize()


def test_a_gateway_with_secret_draws_keeps_one_sum_whatever_the_number_of_rounds(
    tmp_path: Path,
) -> None:
    data = ratings(items=2000)
    made = federation(tmp_path / "f", 3, ROUNDS, data=data, draws="secret")
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
