"""The promise over real sockets: nodes of one user each and nodes of many, with and without secure
sums, TLS and node keys on, end with the model of one process; so do threads. (Ray:
test_cluster_same_bytes; in memory and for all other algorithms: test_deploy_same_bytes.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from federation_links import federation, ratings, simulated, whole_sha256
from over_https import over_https

from entrenous.core.errors import InputError
from entrenous.deploy.operate.founding import FoundedFederation, Place
from entrenous.federation.shard import Threads
from entrenous.privacy.secure_sum.terms import Floors

ALGORITHMS: dict[str, dict[str, Any]] = {
    "fpl": {"factors": 4, "triples": 5},
    "fcf": {"factors": 4},
    "fbalf-bayes": {},
    "cali3f-gmf": {"factors": 4, "clusters": 3, "cohort": 9},
    "fedfast-gmf": {"factors": 4, "clusters": 3, "cohort": 9},
    # What other papers compare with.
    "fedmf": {"factors": 4},
    "fedncf": {"factors": 4},
    "pfedrec": {"factors": 4},
    "fedrap": {"factors": 4},
    "gpfedrec": {"factors": 16},
    "fedrecon": {"factors": 4},
    "colr": {"factors": 4, "rank": 2},
}
GROUPED = ("cali3f-gmf",)  # refused with masks
USERS, ROUNDS = 12, 3
EACH, GATEWAYS = USERS, 3  # nodes


def expected(made: FoundedFederation, **how: Any) -> str:
    """The same in one process."""
    return whole_sha256(simulated(made, ratings(USERS), **how))


def promised(folder: Path, algorithm: str, nodes: int, secure: str) -> None:
    made = federation(
        folder / "f",
        nodes,
        ROUNDS,
        algorithm,
        ratings(USERS),
        ALGORITHMS[algorithm],
        secure=secure,
        place=Place(port=8443),
        floors=Floors(people=1, parties=2, occupancy=0.0),
    )
    want = expected(made)
    for threads in (2, 8):
        assert expected(made, executor=Threads(threads)) == want
    assert over_https(made) == want


@pytest.mark.parametrize(
    ("algorithm", "nodes", "secure"),
    [
        ("fpl", EACH, "none"),
        ("fedfast-gmf", GATEWAYS, "masks"),
        ("pfedrec", GATEWAYS, "masks"),
    ],
)
def test_c7_over_sockets_the_model_is_that_of_one_process(
    tmp_path: Path, algorithm: str, nodes: int, secure: str
) -> None:
    promised(tmp_path, algorithm, nodes, secure)


@pytest.mark.slow
@pytest.mark.parametrize("secure", ["none", "masks"])
@pytest.mark.parametrize("nodes", [EACH, GATEWAYS], ids=["one-user-each", "gateways"])
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_c7_the_whole_promise_over_sockets(
    tmp_path: Path, algorithm: str, nodes: int, secure: str
) -> None:
    if secure == "masks" and algorithm in GROUPED:
        with pytest.raises(InputError, match="a group of one hides nothing"):
            promised(tmp_path, algorithm, nodes, secure)
        return
    promised(tmp_path, algorithm, nodes, secure)
