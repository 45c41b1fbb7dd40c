"""What FBALF, FedRec and FedRec++ share: passes over devices one in turn or all at once, decoys, and
runs of one-device rounds with the bits of plain ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_python import printed_both_ways
from small_data import few_ratings
from small_federations import stored

from entrenous.core.errors import NonFiniteError
from entrenous.core.keys import key
from entrenous.federation.rounds import Rounds
from entrenous.systems.fbalf import FBALF
from entrenous.systems.fedrec import FedRec
from entrenous.systems.fedrec_pp import FedRecPP

USERS, ITEMS = 7, 12
DATA = few_ratings(USERS, ITEMS, idle=True)
KINDS = [FBALF, FedRec, FedRecPP]
SMALL: dict[str, Any] = {
    "factors": 3,
    "rho": 1.0,
    "local_iterations": 2,
    "learning_rate": 0.05,
    "decay": 0.9,
    "reg": 0.02,
    "style": "stochastic",
}
# Numbers that are sent beyond 128, which are not rounded in the quick way.
LARGE = {"init_std": 5.0, "learning_rate": 1e-5, "local_rate": 1e-5}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *((kind, change) for kind in KINDS for change in ({}, {"redraw": True}, {"rho": 0.0})),
        (FBALF, {"start": "mean"}),
        (FBALF, {"factors": 20}),
        (FBALF, LARGE),
        (FedRec, {"model": "svd++"}),
        (FedRec, {"filling": "average"}),
        (FedRecPP, {"rho": 2.0, "pads": False}),
    ],
)
def test_a_run_of_one_device_rounds_has_the_bits_of_plain_rounds(
    kind: Any, change: dict[str, Any]
) -> None:
    """Stopping in the middle of a pass included."""
    rounds = Rounds(kind(**{**SMALL, **change}), DATA, seed=2)
    fast = rounds.advance(rounds.advance(rounds.start(), 5), 3 * USERS + 2)
    slow = rounds.start()
    for _ in range(3 * USERS + 2):
        slow = rounds.one_round(slow)
    assert stored(fast) == stored(slow)


@pytest.mark.parametrize("kind", KINDS)
def test_decoys_stay_the_same_unless_redrawn(kind: Any) -> None:
    everyone = np.arange(USERS)
    for redraw in (False, True):
        algorithm = kind(**SMALL, redraw=redraw)
        start = Rounds(algorithm, DATA).start()
        given = start.server, start.devices, DATA.histories(everyone), everyone
        sent = [algorithm.local(*given, key(0, "round", n))[1].item.tolist() for n in range(2)]
        assert (sent[0] == sent[1]) is not redraw


@pytest.mark.parametrize("style", ["batch", "stochastic"])
@pytest.mark.parametrize("kind", [FBALF, FedRec])
def test_a_rate_that_is_too_high_is_refused_by_name(kind: Any, style: str) -> None:
    wild = {"style": style, "learning_rate": 10.0, "decay": 1.0}
    rounds = Rounds(kind(**{**SMALL, **wild}), DATA)
    with pytest.raises(NonFiniteError, match="the model is unchanged"):
        rounds.advance(rounds.start(), 100 * USERS)


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_count_passes_and_devices_take_turns(kind: Any) -> None:
    catalogue = DATA.catalogue
    assert kind(style="batch", rounds=9).default_rounds(catalogue) == 9
    one = kind(style="stochastic", rounds=9)
    assert one.default_rounds(catalogue) == 9 * USERS == 9 * one.rounds_an_epoch(catalogue)
    start = Rounds(one, DATA).start()
    steps = (start.server._replace(step=np.array([n])) for n in range(USERS + 2))
    turns = [int(one.select(server, catalogue, key(0))[0]) for server in steps]
    assert turns == [*range(USERS), 0, 1]


PROGRAM = """
import hashlib
import tests.algorithms.test_in_turn as here
from entrenous.systems.fedmf_ratings import FedMFRatings

batch = {**here.SMALL, "style": "batch", "learning_rate": 0.5}
systems = {
    here.FBALF(**{**here.SMALL, "factors": 20}): 3 * here.USERS,
    here.FBALF(**batch): 3,
    here.FedRec(**batch): 3,
    here.FedRec(**{**here.SMALL, "model": "svd++"}): 2 * here.USERS,
    here.FedRecPP(**batch, denoisers=2.0, pads=True): 3,
    FedMFRatings(factors=3, learning_rate=0.1, reg=0.05, step="mean", send="part", init_std=0.3): 3,
}
for system, until in systems.items():
    rounds = here.Rounds(system, here.DATA, seed=1)
    print(hashlib.sha256(b"".join(here.stored(rounds.advance(rounds.start(), until)))).hexdigest())
"""


def test_the_same_bits_without_compiling() -> None:
    """And FedMF, whose kernels are like theirs."""
    assert len(set(printed_both_ways(PROGRAM).split())) == 6
