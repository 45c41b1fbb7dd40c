"""The step of a model: what one round may move, and which algorithms can have it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from small_data import random_data

from entrenous.core.contract.declared import bound
from entrenous.core.errors import InputError
from entrenous.federation.rounds import Rounds
from entrenous.privacy.protection import Protection
from entrenous.privacy.step import LEAST, ROUNDED, longest_move, within_step
from entrenous.systems.fcf import FCF
from entrenous.systems.metamf import MetaMF

ALGORITHM = FCF(factors=4)
DATA = random_data()
CONTRACT = bound(ALGORITHM, DATA.catalogue)


def models(step: float, rounds: int = 4) -> list[Any]:
    """The models of a short training, that of before the first round included."""
    training = Rounds(ALGORITHM, DATA, protection=Protection(step=step))
    now = training.start()
    found = [now.server]
    for _ in range(rounds):
        now = training.one_round(now)
        found.append(now.server)
    return found


def test_no_round_moves_a_row_further_than_the_step() -> None:
    step = 0.05
    free = models(0)
    short = models(step)
    assert longest_move(CONTRACT, free[0], free[1]) > step
    for before, after in pairwise(short):
        assert step / 2 < longest_move(CONTRACT, before, after) <= step * ROUNDED + LEAST


def test_what_moves_less_stays_as_it_is_to_the_bit() -> None:
    free = models(0)
    assert np.array_equal(models(100.0)[-1].y, free[-1].y)


def test_a_row_is_shortened_by_itself_and_keeps_its_direction() -> None:
    before = models(0, 0)[0]
    move = np.zeros_like(before.y)
    move[2] = 3, 4, 0, 0
    move[5] = 0.25
    after = before._replace(y=before.y + move)
    found = within_step(CONTRACT, before, after, 1.0).y - before.y
    assert np.allclose(found[2], [0.6, 0.8, 0, 0], atol=1e-6)
    assert np.allclose(found[5], 0.25, atol=1e-6) and not found[[0, 1, 3, 4]].any()


def test_a_model_that_the_server_does_not_hold_as_it_is_sent_has_no_step() -> None:
    with pytest.raises(InputError, match="not held by the server as it is sent"):
        Rounds(MetaMF(), DATA, protection=Protection(step=1.0))
