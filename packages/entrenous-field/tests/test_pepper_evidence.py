"""PEPPER with evidence: a model weighs by how sure a node is that it is better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entrenous_field import pepper_evidence
from entrenous_field.pepper_evidence import PepperEvidenceGMF

from entrenous.federation.gossip import Gossip
from tests.algorithms.test_pepper import arriving, federation


def evident_share(gossip: Gossip, swarm: Any, sender: int) -> float:
    """The share that node 0 takes of a model of `sender`, without taking it."""
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pepper_evidence, "merge_and_train", lambda *given: seen.append(given[4]))
        a = arriving(gossip, swarm, 0, sender)
        gossip.algorithm.policy.on_model_received(
            gossip.algorithm.model, a, swarm.nodes, gossip.private
        )
    return float(seen[0][0])


def test_all_models_between_two_pushes_are_averaged() -> None:
    """Without trust in the evidence each weighs the same: 1/2, 1/3, 1/4; after a push the node's
    own is one model again.
    """
    gossip = federation(PepperEvidenceGMF, weighting=0.5, trust=0.0)
    swarm = gossip.advance(gossip.start(), 3)
    swarm.nodes.pushes[0] += 1
    assert [evident_share(gossip, swarm, sender) for sender in (5, 6, 7)] == pytest.approx(
        [1 / 2, 1 / 3, 1 / 4]
    )
    swarm.nodes.pushes[0] += 1
    assert evident_share(gossip, swarm, 8) == 0.5 and 8 in swarm.nodes.heard[0]


def test_a_model_weighs_by_the_evidence_for_it() -> None:
    """By hand: the paired lead over weighting rows, over its standard error; the other way round
    the weight is the inverse.
    """
    gossip = federation(PepperEvidenceGMF, weighting=0.5, trust=0.7)
    swarm = gossip.advance(gossip.start(), 3)
    a, sets = arriving(gossip, swarm, 0, 5), gossip.private.weighing
    behind = []
    for at in (a.own, a.received):
        (score,) = gossip.algorithm.model.score(a.pool, at, swarm.nodes, a.who, gossip.private)
        rows = range(sets.ptr[0], sets.ptr[1])
        behind.append(
            [np.mean([score[c] < score[sets.item[r]] for c in sets.candidates[r]]) for r in rows]
        )
    lead = np.subtract(behind[1], behind[0])
    t = lead.mean() / np.sqrt((lead.var(ddof=1) + 1 / 100**2) / len(lead))
    z = 0.35 * t
    weight = (z + np.sqrt(1 + z * z)) ** 2
    assert len(lead) == 4 and abs(t) > 0.2
    swarm.nodes.pushes[0] += 1
    assert evident_share(gossip, swarm, 5) == pytest.approx(weight / (1 + weight), rel=1e-5)
    both = pepper_evidence.weight_of(np.array([0.1, -0.1]), np.array([1e-6, 1e-6]), 3.0)
    assert both[0] * both[1] == pytest.approx(1) and both[0] > 1e3


@pytest.mark.parametrize(("sign", "taken"), [(1, True), (-1, False)])
def test_a_model_that_points_elsewhere_weighs_nothing_as_evidence_too(
    sign: int, taken: bool
) -> None:
    gossip = federation(PepperEvidenceGMF, weighting=0.5, alike=0.1)
    swarm = gossip.advance(gossip.start(), 3)
    swarm.nodes.pushes[0] += 1
    a = arriving(gossip, swarm, 0, 5, sign * swarm.pool.values[swarm.slot[0]])
    assert gossip.algorithm.policy.points_elsewhere(gossip.algorithm.model, a)[0] != taken
