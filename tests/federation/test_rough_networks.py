"""What failures of the network cost peers (G1 to G5 of the failure tests), small enough for every
run of the suite: 60 users of two tastes, 100 rounds, three seeds. test_gossip_failures.py has the
figures of MovieLens-100K.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from command_line import write_shop

from entrenous.data.interactions import Interactions
from entrenous.data.load import load
from entrenous.runs.pipeline import run
from entrenous.runs.recommenders import GossipRecommender

SETTINGS = {"factors": 8, "learning_rate": 0.05, "learning_rate_user": 0.05, "view": 3}
WITHIN = 0.05  # HR@10 that a failure may cost; chance is at .09, without failures peers reach .42
FAILURES: dict[str, dict[str, Any]] = {
    "G1: 30 % of the messages are lost": {"loss": 0.3},
    "G2: messages take up to five rounds": {"latency": "uniform:0:5"},
    "G3: half of the nodes are away at any time": {"churn": 0.5},
    "G4: cut in two for thirty rounds": {"partition": "50:80"},
    "G5: nodes lose all but their rows": {"restarts": 0.01},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Interactions:
    return load(
        str(write_shop(tmp_path_factory.mktemp("shop") / "shop.csv", users=60, items=160, rows=30))
    )


@cache
def hit_rate(data: Interactions, **network: Any) -> float:
    """HR@10 of PEPPER, the mean of three seeds; no view is empty or too long, and no model
    spoiled.
    """
    found = []
    for seed in (0, 1, 2):
        made = run(
            "pepper-gmf",
            data,
            protocol="pepper-85-15",
            seed=seed,
            rounds=100,
            network=network,
            threads=1,
            settings=SETTINGS,
        )
        assert isinstance(made.recommender, GossipRecommender)
        nodes: Any = made.recommender.nodes
        pushed = (
            nodes.pushes > 0
        )  # a view is drawn with the first push; who has just begun anew has none yet
        assert pushed.sum() >= 55 and np.isfinite(made.recommender.models).all()
        for me, view in zip(nodes.me[pushed].tolist(), nodes.view[pushed].tolist(), strict=True):
            assert min(view) >= 0 and len({me, *view}) == 4
        found.append(made.metrics["hr@10"])
    return float(np.mean(found))


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_costs_little(failure: str, data: Interactions) -> None:
    assert hit_rate(data) - hit_rate(data, **FAILURES[failure]) <= WITHIN


def test_peers_that_hear_nothing_learn_less(data: Interactions) -> None:
    """So what is measured above is what they learn from each other."""
    assert hit_rate(data) - hit_rate(data, loss=0.99) > WITHIN


def test_each_failure_happens(data: Interactions) -> None:
    """Messages are lost, late or fewer, nodes begin anew: the ledger of one run of each differs
    from the quiet one as it should.
    """

    def ledger(**network: Any) -> dict[str, int]:
        return run(
            "pepper-gmf",
            data,
            protocol="pepper-85-15",
            rounds=100,
            network=network,
            threads=1,
            settings=SETTINGS,
        ).manifest["ledger"]

    quiet, (lossy, late, away, cut, anew) = ledger(), (ledger(**one) for one in FAILURES.values())
    assert quiet["messages"] == 60 * 3 * 100 and quiet["lost"] == 0
    assert lossy["lost"] == pytest.approx(0.3 * lossy["messages"], rel=0.05)
    assert late["messages"] == quiet["messages"] and late["bytes_down"] < quiet["bytes_down"]
    assert (
        away["messages"] == pytest.approx(0.5 * quiet["messages"], rel=0.25)
        and away["lost"] > 0.2 * away["messages"]
    )
    assert 0.1 * 0.3 * cut["messages"] < cut["lost"] < 0.6 * 0.3 * cut["messages"]
    assert anew["messages"] == quiet["messages"] and anew["lost"] == 0
