"""Draws of a node that are secret: no key of a round and user tells another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrenous_network.node.node import FederatedNode
from entrenous_network.server.server import serve
from federation_links import (
    federation,
    linked,
    nodes_of,
    server_sha256,
    simulated,
    trained,
)

from entrenous.core.keys import GOLDEN, MASK, fold_name


def unmixed(z: int) -> int:
    """The word that SplitMix64's finaliser made z of: each of its steps can be turned round."""
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        step, x = z, z
        for _ in range(64 // shift):
            x = step ^ (x >> shift)
        z = x * pow(factor, -1, 1 << 64) & MASK
    return z


def parent_of(child: int, name: int) -> int:
    """The key of which `child` is the key of a name."""
    return (unmixed(child) - GOLDEN & MASK) ^ int(unmixed_inverse(name))


def unmixed_inverse(name: int) -> np.uint64:
    """What a name adds to its parent's key."""
    zero = unmixed(int(fold_name(np.uint64(0), name)))
    return np.uint64(zero - GOLDEN & MASK)


class Keys:
    """The keys with which a node trains: of each call of the algorithm, who trains and by which
    key.
    """

    def __init__(self, node: FederatedNode, patch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[int, int]] = []
        kind, local, sums = (
            type(node.algorithm),
            type(node.algorithm).local,
            type(node.algorithm).local_sum,
        )  # type: ignore[attr-defined]

        def watched(
            own: Any, download: Any, devices: Any, histories: Any, users: Any, key_: Any, *more: Any
        ) -> Any:
            self.found += [
                (int(user), int(fold_name(np.uint64(key_), int(user)))) for user in users
            ]
            return (sums if more else local)(own, download, devices, histories, users, key_, *more)

        for method in ("local", "local_sum"):
            patch.setattr(kind, method, watched)


@pytest.mark.parametrize("draws", ["public", "secret"])
def test_one_key_gives_back_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: str
) -> None:
    """From the key of one user in one round the attacker turns every step round; with public draws
    that gives all others.
    """
    made = federation(tmp_path / "f", 4, 1, draws=draws)
    nodes = nodes_of(made)
    seen = Keys(nodes["node-1"], monkeypatch)
    serve(linked(nodes), made.server)
    keys = dict(seen.found)
    (first, known), (second, wanted) = sorted(keys.items())[:2]
    guessed = int(fold_name(np.uint64(parent_of(known, first)), second))
    assert (guessed == wanted) == (draws == "public")


def test_keys_differ_by_node_round_user_and_purpose(tmp_path: Path) -> None:
    made = federation(tmp_path / "f", 2, 1, draws="secret")
    own = [node._secret for node in nodes_of(made).values()]
    assert all(draws is not None and len(draws._secret) == 32 for draws in own)
    found = {
        int(draws.key(purpose, number, user))
        for draws in own
        if draws is not None
        for purpose in ("round", "first")
        for number in range(5)
        for user in range(5)
    }
    assert len(found) == 100


@pytest.mark.parametrize("algorithm", ["fpl", "fedavg-gmf", "cali3f-gmf", "fbalf-bayes"])
@pytest.mark.beside
def test_a_gateway_with_secret_draws_trains_each_of_its_users_and_gives_the_same_answer_again(
    tmp_path: Path, algorithm: str
) -> None:
    more = {"clusters": 3} if algorithm == "cali3f-gmf" else {}
    settings = {} if algorithm == "fbalf-bayes" else {"factors": 4, **more}
    made = federation(tmp_path / "f", 3, 3, algorithm, settings=settings, draws="secret")
    first = trained(made)
    assert first is not None and first != server_sha256(simulated(made))
