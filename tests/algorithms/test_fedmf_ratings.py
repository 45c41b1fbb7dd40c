"""FedMF against the paper's formulas, by both ways of sending."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_data import few_ratings
from small_federations import stored

from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds
from entrenous.systems.fedmf_ratings import FedMFRatings

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
PUBLISHED: dict[str, Any] = {
    "factors": 3,
    "learning_rate": 0.01,
    "reg": 0.05,
    "step": "sum",
    "init": 0.01,
    "init_std": 0.3,
}
MEANS: dict[str, Any] = {**PUBLISHED, "learning_rate": 0.1, "step": "mean"}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


@pytest.mark.parametrize("settings", [PUBLISHED, MEANS])
@pytest.mark.parametrize("send", ["part", "full"])
def test_rounds_are_the_papers(settings: dict, send: str, data: Interactions) -> None:
    fedmf = FedMFRatings(**settings, send=send)
    rounds = Rounds(fedmf, data)
    start, rate, mean = rounds.start(), settings["learning_rate"], settings["step"] == "mean"
    u, v = start.devices.u.astype(float), start.server.v.astype(float)
    for _ in range(4):
        sums, raters = np.zeros_like(v), np.zeros(ITEMS)
        for i in EVERYONE:
            j, r = data.item[data.user == i], data.value[data.user == i].astype(float)
            slope = (-2 * v[j] * (r - v[j] @ u[i])[:, None] + 2 * 0.05 * u[i]).sum(axis=0)
            u[i] -= rate * slope / (len(j) if mean else 1)
            sums[j] += -2 * u[i] * (r - v[j] @ u[i])[:, None] + 2 * 0.05 * v[j]  # with the new u_i
            raters[j] += 1
        v -= rate * sums / (np.maximum(raters, 1)[:, None] if mean else 1)
    after = rounds.advance(rounds.start(), 4)
    assert np.allclose(after.devices.u, u, atol=2e-4) and np.allclose(after.server.v, v, atol=2e-4)
    assert np.allclose(
        fedmf.score(after.server, after.devices, data.histories(EVERYONE)), u @ v.T, atol=2e-3
    )


def test_full_and_part_learn_the_same_and_differ_in_what_they_send(data: Interactions) -> None:
    part, full = (Rounds(FedMFRatings(**MEANS, send=send), data) for send in ("part", "full"))
    one, other = part.advance(part.start(), 5), full.advance(full.start(), 5)
    assert stored(one)[:2] == stored(other)[:2]
    assert (
        one.ledger.bytes_up == 5 * len(data) * (4 + 4 * 4)
        and other.ledger.bytes_up == 5 * USERS * ITEMS * 4 * 4
    )
    assert (one.ledger.rows_up, other.ledger.rows_up) == (5 * len(data), 0)
