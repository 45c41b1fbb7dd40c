"""What holds of every byte that leaves a node and every line that is logged (A1, A2, A9 of the
study), whatever the profile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.frames import contribution
from entrenous_network.node.node import SecretDraws
from entrenous_network.server.server import serve
from federation_links import COHORT, FaultyLink, by_lot, federation, nodes_of, ratings

from entrenous.federation.shard import Shard
from entrenous.privacy.protection import Protection
from entrenous.systems.fpl import FPL

DATA = ratings()
ROUNDS = 1000


def rows_that_leave(
    pi: float, triples: int, rounds: int, protection: Protection | None = None
) -> tuple[int, int, int]:
    """Updates, rows of consumed items and rows of all, of `rounds` updates of devices with secret
    draws, read back from their bytes.
    """
    algorithm = FPL(factors=4, triples=triples, pi=pi).configured(DATA.catalogue)  # type: ignore[call-arg]
    shard = Shard(algorithm, DATA.catalogue, DATA, np.arange(20), protection=protection)
    contract = contribution.agreed(algorithm, DATA.catalogue, protection)
    draws, download = (
        SecretDraws(shard, 77),
        algorithm.download(algorithm.init_server(DATA.catalogue, np.uint64(1))),
    )
    devices, counts = draws.init_devices(), np.zeros(3, np.int64)
    for number in range(rounds):
        user = number % 20
        update = draws.update(
            contract.delivered(download, np.array([user])), devices, np.array([user]), 0, number
        )
        item = contribution.read_update(
            memoryview(contribution.of_update(update)), contract, user
        ).item
        counts += 1, int(np.isin(item, DATA.histories(np.array([user])).item).sum()), len(item)
    return int(counts[0]), int(counts[1]), int(counts[2])


def test_a1_with_pi_0_no_row_of_a_consumed_item_leaves() -> None:
    updates, positive, rows = rows_that_leave(0.0, 5, ROUNDS)
    assert (updates, positive) == (ROUNDS, 0)
    assert rows > 2 * ROUNDS


@pytest.mark.parametrize("pi", [0.1, 0.5, 1.0])
def test_a1_the_share_of_positive_rows_is_pi(pi: float) -> None:
    """One triple a round: a negative row always, a positive one with probability pi; within three
    standard deviations.
    """
    updates, positive, rows = rows_that_leave(pi, 1, ROUNDS)
    assert rows - positive == updates
    assert abs(positive - pi * ROUNDS) <= 3 * np.sqrt(ROUNDS * pi * (1 - pi))


def test_a1_with_a_row_for_every_item_the_number_says_nothing() -> None:
    updates, _, rows = rows_that_leave(
        0.5, 5, 40, Protection.parse({"noise": 0.1, "noise_from": "system"})
    )
    assert rows == updates * 18


class Listening(FaultyLink):
    """All bytes that nodes answer with, with the nodes that they are of."""

    def __init__(self, nodes: dict[str, Any]) -> None:
        self.heard: list[tuple[str, bytes]] = []
        super().__init__({name: self._of(name, node.answer) for name, node in nodes.items()})

    def _of(self, name: str, answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def heard(request: bytes) -> bytes:
            said = answer(request)
            self.heard.append((name, said))
            return said

        return heard


def patterns(node: Any) -> dict[str, bytes]:
    """What must not be in a node's bytes: two numbers of a private vector beside each other, ids of
    a history, ratings, names.
    """
    _, state = node.store.newest_state()
    found: dict[str, bytes] = {}
    for place, vector in enumerate(next(iter(state.values())).astype(np.float32)):
        found |= {
            f"vector {place} {k}": vector[k : k + 2].tobytes()
            for k in range(len(vector) - 1)
            if vector[k : k + 2].all()
        }
    for place in range(len(node.rows.users)):
        history = node.rows.histories(np.array([place]))
        value = history.value.astype(np.float32)
        found[f"history {place}"] = history.item.astype(np.int32).tobytes()
        found[f"history {place} as int64"] = history.item.astype(np.int64).tobytes()
        found[f"ratings {place}"] = value[:4].tobytes()
    found |= {name: name.encode() for name in (*node.rows.users.ids, *node.rows.items.ids)}
    return found


@pytest.mark.parametrize("profile", ["paper", "private"])
def test_a9_vectors_histories_ratings_and_names_are_in_no_frame_and_no_log(
    tmp_path: Path, profile: str
) -> None:
    """Of gateways and devices, in every round; the vectors of after the last round, too."""
    settings = {"factors": 4, "triples": 5, "pi": 0.0}
    if profile == "private":
        own = {**settings, "cohort": COHORT}
        made = by_lot(tmp_path / "f", rounds=3, algorithm="fpl", settings=own, draws="secret")
    else:
        made = federation(tmp_path / "f", 4, 3, "fpl", settings=settings, draws="secret")
    nodes = nodes_of(made)
    before = {name: patterns(node) for name, node in nodes.items()}
    link = Listening(nodes)
    assert serve(link, made.server) is not None and len(link.heard) >= 4 * 3
    after = {name: patterns(node) for name, node in nodes.items()}
    for name, said in link.heard:
        found = [
            what
            for state in (before, after)
            for what, pattern in state[name].items()
            if pattern in said
        ]
        assert not found, (name, found)
    log = (made.server / "server.log").read_text() + (made.server / "status.json").read_text()
    assert "round 2" in log
    assert not [one for one in (*DATA.users.ids, *DATA.items.ids) if one in log]


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """That the test above can fail."""
    made = federation(tmp_path / "f", 4, 1, "fpl", draws="secret")
    node = nodes_of(made)["node-1"]
    vector = next(iter(node.store.newest_state()[1].values()))[0]
    assert any(pattern in b"x" + vector.tobytes() for pattern in patterns(node).values())
