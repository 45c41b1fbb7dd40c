"""The slow oracle: the device code as plain Python (NUMBA_DISABLE_JIT=1) ends with the bytes of the
compiled code.
"""

from __future__ import annotations

import pytest
from plain_python import printed_both_ways
from small_federations import GOSSIP

from entrenous.federation.shard import Ledger

PROGRAM = """
import numpy as np
from small_federations import PLAIN
from entrenous.systems.cali3f import Cali3F
from entrenous.systems.ditto import Ditto
from entrenous.systems.fcf import FCF
from entrenous.systems.fedfast import FedFast
from entrenous.systems.reptile import Reptile
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.runs.recommenders import fitted
from entrenous.core.contract.protocols import model_sha256

data = synthetic(users=6, items=30, interactions=45, skew=0.5, seed=2)
lean = {**PLAIN, "negatives": 1}
for algorithm, until in (
    (FCF(factors=3), 2),
    (FCF(factors=3, form="gram"), 2),
    (Cali3F(**lean, factors=3, layers=(4, 3), clusters=2, cohort=4, init_std=0.3), 3),
    (FedFast(**lean, factors=0, layers=(5,), clusters=2, cohort=4, init_std=0.3), 3),
    (Ditto(**{**lean, "optimiser": "adam"}, factors=2, layers=(3,), cohort=4), 2),
    (Reptile(**lean, factors=2, layers=(3,), cohort=4), 2),
):
    rounds = Rounds(algorithm, data, seed=1)
    result = fitted(rounds, rounds.advance(rounds.start(), until))
    print(model_sha256(result.arrays), model_sha256({"s": result.recommender.scores(np.arange(6))}))
"""

PEERS = """
import sys
import numpy as np
from small_federations import gossiping, shop
from entrenous.federation.gossip import Gossip
from entrenous.federation.network import Network
from entrenous.runs.recommenders import fitted
from entrenous.core.contract.protocols import model_sha256

rough = Network.read({"clock": "random", "latency": "uniform:0.2:2", "churn": 0.2, "restarts": 0.05, "loss": 0.1, "bad": 0.2})
for name in sys.argv[1:]:
    gossip = Gossip(gossiping(name), shop(10, 30), seed=1, network=rough)
    result = fitted(gossip, gossip.advance(gossip.start(), 5))
    scores = result.recommender.scores(np.arange(10))
    print(name, model_sha256(result.arrays), model_sha256({"s": scores}), ",".join(map(str, result.ledger)))
"""


@pytest.mark.timeout(400)
def test_plain_python_and_compiled_code_agree_to_the_bit() -> None:
    found = printed_both_ways(PROGRAM).split()
    assert len(found) == 12 == len(set(found))


@pytest.mark.timeout(400)
def test_peers_end_with_the_same_bytes_too() -> None:
    """Over a network on which everything happens: late and lost messages, churn, restarts, models
    that are refused.
    """
    lines = [line.split() for line in printed_both_ways(PEERS, *GOSSIP).splitlines()]
    assert [name for name, *_ in lines] == GOSSIP
    for _, model, scores, ledger in lines:
        refused = ledger.split(",")[Ledger._fields.index("refused")]
        assert model != scores and int(refused) > 0
