"""How old a model can be: no honest age is ever refused, whatever the network, and one that cannot
be counts for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_data import random_data
from small_gossip import shop

from entrenous.core.contract.gossip import Headers
from entrenous.core.types import Float32Array
from entrenous.federation.gossip import Gossip
from entrenous.federation.network import Network
from entrenous.federation.swarm import Swarm
from entrenous.systems.gossip_node import OLDEST, most_ageing, oldest_after
from entrenous.systems.pepper import ALGORITHMS, GossipAgeGMF

N, LIAR, CONSTANT = 8, 5, 3.0
PLACES = {name: np.linspace(40, 41, 30).astype("U6") for name in ("lat", "lon")}
DATA = replace(random_data(N, 30, 90), features=PLACES)
NETWORKS: list[dict[str, str]] = [
    {},
    {"clock": "regular"},
    {"clock": "random", "latency": "exponential:0.3"},
    {"clock": "random", "churn": "0.3", "restarts": "0.05"},
    {"clock": "random", "period": "exponential:1", "loss": "0.2"},
    {"clock": "regular", "partition": "3:12"},
]
SIZES = [(2, 1), (8, 3), (20, 12), (60, 3)]


class Constant:
    """One node pushes a constant model instead of its own, and says that it is some updates
    older.
    """

    def __init__(self, ahead: int, pushes: int) -> None:
        self.who, self._ahead, self._left = np.array([LIAR]), ahead, pushes

    def __call__(
        self, models: Float32Array, base: Float32Array, headers: Headers
    ) -> tuple[Float32Array, Headers]:
        if not self._left:
            return models, headers
        self._left -= 1
        return np.full_like(models, CONSTANT), headers._replace(age=headers.age + self._ahead)


def trained(algorithm: str, lies: Constant | None = None, rounds: int = 15) -> Swarm:
    made: Any = ALGORITHMS[algorithm](factors=4)
    gossip = Gossip(made, DATA, seed=1, network=Network.read({"clock": "regular"}), lies=lies)
    return gossip.advance(gossip.start(), rounds)


@pytest.mark.parametrize("pushes", [1, 1000])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_liar_of_eight_who_claims_a_huge_age_moves_nobody(algorithm: str, pushes: int) -> None:
    clean = np.delete(trained(algorithm).models, LIAR, axis=0)
    swarm = trained(algorithm, Constant(1 << 16, pushes))
    way = CONSTANT - clean
    moved = float(((np.delete(swarm.models, LIAR, axis=0) - clean) * way).sum() / (way * way).sum())
    assert abs(moved) < 0.125 / 2
    assert swarm.ledger.refused == 3 * min(pushes, 15)
    # no relay passes it on
    assert np.delete(swarm.nodes.age, LIAR).max() < 1000  # type: ignore[attr-defined]


# Many nodes push thousands of times.
CASES = [
    pytest.param(
        users,
        view,
        network,
        marks=[pytest.mark.slow] if users > 8 else [],
    )
    for users, view in SIZES
    for network in NETWORKS
]


@pytest.mark.parametrize(("users", "view", "network"), CASES)
def test_no_honest_age_is_refused_in_any_network(
    users: int, view: int, network: dict[str, str]
) -> None:
    gossip = Gossip(
        GossipAgeGMF(factors=2, view=view), shop(users), seed=2, network=Network.read(network)
    )
    swarm = gossip.advance(gossip.start(), 20)
    assert swarm.ledger.refused == 0
    assert swarm.nodes.age.max() > 10  # type: ignore[attr-defined]


def test_the_bound_on_ages_by_hand() -> None:
    """n = 8, view 3: 15 a period; 1 + 15 (t + 2) + 2 x 3 x log2 8."""
    assert most_ageing(3, 0, 8) == 15 and most_ageing(3, 2, 8) == 31
    assert oldest_after(np.array([0.0, 10.0, 1e12]), 3, 0, 8).tolist() == [49, 199, OLDEST]
