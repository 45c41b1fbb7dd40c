"""The slow oracle: the device code as plain Python (NUMBA_DISABLE_JIT=1) ends with the bytes of the
compiled code.
"""

from __future__ import annotations

import pytest
from plain_python import printed, printed_both_ways
from small_federations import GOSSIP

from entrenous.federation.shard import Ledger

PROGRAM = """
from small_federations import PLAIN
from entrenous.systems.cali3f import Cali3F
from entrenous.systems.ditto import Ditto
from entrenous.systems.fcf import FCF
from entrenous.systems.fedavg import FedAvg
from entrenous.systems.fedfast import FedFast
from entrenous.systems.fpl import FPL
from entrenous.systems.reptile import Reptile
from entrenous.data.synthetic import synthetic
from entrenous.federation.rounds import Rounds
from entrenous.runs.recommenders import fitted
from entrenous.core.contract.protocols import model_sha256

data = synthetic(users=12, items=90, interactions=150, skew=0.5, seed=2)
for algorithm, until in (
    (FPL(factors=5, triples=7, pi=0.6), 3),
    (FPL(factors=8, triples=4, user_step="once"), 3),
    (FPL(factors=6, triples=1, cohort=1), 60),
    (FCF(factors=3), 2),
    (FCF(factors=3, form="gram"), 2),
    (FedAvg(**PLAIN, factors=5, layers=()), 2),
    (Cali3F(**PLAIN, factors=3, layers=(4, 3), clusters=3, cohort=6, init_std=0.3), 3),
    (Cali3F(clusters=3, cohort=6), 2),
    (FedFast(**PLAIN, factors=0, layers=(5,), clusters=3, cohort=6, init_std=0.3), 3),
    (Ditto(**{**PLAIN, "optimiser": "adam"}, factors=2, layers=(3,), cohort=6), 2),
    (Reptile(**PLAIN, factors=2, layers=(3,), cohort=6), 2),
):
    rounds = Rounds(algorithm, data, seed=1)
    result = fitted(rounds, rounds.advance(rounds.start(), until))
    print(model_sha256(result.arrays), model_sha256({"s": result.recommender.scores(__import__("numpy").arange(12))}))
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
    assert len(found) == 22 == len(set(found))


@pytest.fixture(scope="module")
def both_ways() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What plain Python and compiled code print of each algorithm that gossips, by name: one
    process each.
    """
    plain, compiled = (printed(PEERS, *GOSSIP, compiled=way).splitlines() for way in (False, True))
    first, second = (
        {line.split()[0]: line.split()[1:] for line in lines} for lines in (plain, compiled)
    )
    assert list(first) == list(second) == GOSSIP
    return first, second


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", GOSSIP)
def test_peers_end_with_the_same_bytes_too(
    name: str, both_ways: tuple[dict[str, list[str]], dict[str, list[str]]]
) -> None:
    """Over a network on which everything happens: late and lost messages, churn, restarts, models
    that are refused.
    """
    plain, compiled = (way[name] for way in both_ways)
    assert plain == compiled
    refused = plain[2].split(",")[Ledger._fields.index("refused")]
    assert len(plain) == 3 == len(set(plain)) and int(refused) > 0
