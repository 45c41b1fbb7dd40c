"""FedRec against its formulas in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_data import few_ratings, visited

from entrenous.core.errors import InputError
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.decoys import Mixed, with_decoys
from entrenous.systems.fedrec import FedRec

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
BASE: dict[str, Any] = {
    "factors": 3,
    "rho": 1.0,
    "filling": "hybrid",
    "predict_after": 1,
    "local_iterations": 2,
    "reg": 0.02,
}
BATCH = {**BASE, "style": "batch", "learning_rate": 0.5, "decay": 0.9}
STOCHASTIC = {**BASE, "style": "stochastic", "learning_rate": 0.05, "decay": 0.9}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


def decoys(fedrec: FedRec, training: Training, data: Interactions) -> Mixed:
    """The rows of every device, in rounds that do not redraw."""
    return with_decoys(data.histories(EVERYONE), fedrec.rho, training.devices.key, ITEMS)


def test_batch_rounds_are_the_papers(data: Interactions) -> None:
    """Three rounds in float64: averages in the first, predictions of a temporary U' after it; the
    server's mean takes decoys in.
    """
    fedrec = FedRec(**BATCH)
    rounds = Rounds(fedrec, data)
    start = rounds.start()
    v, u, rows = (
        start.server.v.astype(float),
        start.devices.u.astype(float),
        decoys(fedrec, start, data),
    )
    assert not rows.rated.all()
    for t in range(3):
        rate, total, count = 0.5 * 0.9**t, np.zeros_like(v), np.zeros(ITEMS)
        for d in EVERYONE:
            item, rated, r = visited(rows, d)
            own, x = item[rated], u[d].copy()
            for _ in range(2):
                x -= rate * np.mean(
                    [0.02 * x - (a - x @ v[i]) * v[i] for i, a in zip(own, r[rated], strict=True)],
                    axis=0,
                )
            r[~rated] = v[item[~rated]] @ x if t >= 1 else r[rated].mean()
            e = r - v[item] @ u[d]
            total[item] += 0.02 * v[item] - e[:, None] * u[d]
            count[item] += 1
            u[d] -= rate * (0.02 * u[d] - e[:, None] * v[item]).mean(axis=0)
        seen = count > 0
        v[seen] -= rate * total[seen] / count[seen, None]
    after = rounds.advance(rounds.start(), 3)
    assert np.allclose(after.server.v, v, atol=2e-4) and np.allclose(after.devices.u, u, atol=2e-4)
    assert after.server.step.tolist() == [3]
    assert after.ledger.rows_up == 3 * len(rows.item)


@pytest.mark.parametrize("model", ["pmf", "svd++"])
def test_stochastic_rounds_are_plain_sgd_device_by_device(model: str, data: Interactions) -> None:
    """Two passes in float64. U moves after each item; grad V takes the U before; every O_k of the
    device moves after each item.
    """
    fedrec = FedRec(**{**STOCHASTIC, "model": model, "local_iterations": 1})
    rounds = Rounds(fedrec, data)
    start, wide = rounds.start(), model == "svd++"
    table, u, rows = (
        start.server.v.astype(float),
        start.devices.u.astype(float),
        decoys(fedrec, start, data),
    )
    assert table.shape == (ITEMS, 6 if wide else 3)
    v, o = table[:, :3], table[:, 3:] if wide else np.zeros((ITEMS, 3))
    for t in range(2):
        rate = 0.05 * 0.9**t
        for d in EVERYONE:
            item, rated, r = visited(rows, d)
            own, root = item[rated], np.sqrt(rated.sum())
            y, x = o[own].sum(axis=0) / root, u[d].copy()
            for i, a in zip(own, r[rated], strict=True):
                x -= rate * (0.02 * x - (a - (x + y) @ v[i]) * v[i])
            r[~rated] = v[item[~rated]] @ (x + y) if t >= 1 else r[rated].mean()
            for i, a in zip(item, r, strict=True):
                y, before, v_i = o[own].sum(axis=0) / root, u[d].copy(), v[i].copy()
                e = a - (before + y) @ v_i
                v[i] -= rate * (0.02 * v_i - e * (before + y))
                u[d] -= rate * (0.02 * before - e * v_i)
                if wide:
                    o[own] -= rate * (0.02 * o[own] - e * v_i / root)
    after = rounds.advance(rounds.start(), 2 * USERS)
    assert np.allclose(after.devices.u, u, atol=1e-4) and np.allclose(
        after.server.v, table, atol=1e-4
    )
    everyone = data.histories(EVERYONE)
    y = np.array(
        [
            o[data.item[data.user == d]].sum(axis=0) / np.sqrt(max(1, (data.user == d).sum()))
            for d in EVERYONE
        ]
    )
    assert np.allclose(
        fedrec.score(after.server, after.devices, everyone), (u + y) @ v.T, atol=1e-3
    )


def test_what_does_not_go_together_is_refused(data: Interactions) -> None:
    with pytest.raises(InputError, match=r"style=stochastic with model=svd\+\+"):
        FedRec.parse({"model": "svd++", "style": "batch"})
    with pytest.raises(InputError, match="no ratings to learn from"):
        FedRec().configured(data.catalogue._replace(scale=(1.0, 1.0)))
