"""FBALF as printed against its formulas in plain Python, and finite differences of its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_data import few_ratings, visited
from small_federations import stored

from entrenous.core.keys import key
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds, Training
from entrenous.privacy.decoys import Mixed, with_decoys
from entrenous.systems.fbalf import FBALF, FBALFDevices, FBALFServer

USERS, ITEMS = 7, 12
EVERYONE = np.arange(USERS)
BASE: dict[str, Any] = {
    "factors": 3,
    "rho": 1.0,
    "threshold": 1,
    "local_iterations": 2,
    "learning_rate": 0.05,
    "local_rate": 0.03,
    "decay": 0.9,
    "reg": 0.02,
    "reg_bias": 0.1,
    "init_std": 0.3,
    "start": "middle",
    "style": "stochastic",
}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS, idle=True)


def decoys(algorithm: FBALF, training: Training, data: Interactions) -> Mixed:
    """The rows of every device, in rounds that do not redraw."""
    return with_decoys(data.histories(EVERYONE), algorithm.rho, training.devices.key, ITEMS)


class Plain:
    """The paper's federation in float64, one device at a time."""

    def __init__(self, settings: dict[str, Any], start: Training) -> None:
        self.s = settings
        self.q, self.b = start.server.q.astype(float), start.server.b.astype(float)
        self.p, self.bias = start.devices.p.astype(float), start.devices.bias.astype(float)

    def visit(self, d: int, rows: Mixed, t: int) -> tuple[Any, Any, Any]:
        """Local iterations of device d in pass t; its items and their gradients."""
        (item, rated, r), s = visited(rows, d), self.s
        mean = r[rated].mean() if rated.any() else 3.0
        constant = mean if s["start"] == "mean" else 3.0
        eta, p, bias = s["local_rate"] * s["decay"] ** t, self.p[d].copy(), self.bias[d]
        before = constant + self.q[item] @ self.p[d] + self.bias[d] + self.b[item]
        known = np.where(rated, r, before if t >= s["threshold"] else mean)  # (6)
        learns = rated | s.get("decoys_move_u", False)
        for _ in range(s["local_iterations"]):
            for i, value in zip(item[learns], known[learns], strict=True):
                e = value - (constant + p @ self.q[i] + bias + self.b[i])
                p = p - eta * (-e * self.q[i] + s["reg"] * p)
                if s.get("user_bias", True):
                    bias = bias - eta * (-e + s["reg_bias"] * bias)
        predicted = constant + self.q[item] @ p + bias + self.b[item]
        at, at_p = (
            (before, self.p[d].copy()) if s.get("gradients_at") == "before" else (predicted, p)
        )
        made_up = predicted - before if t >= s["threshold"] else mean - at
        e = np.where(rated, r - at, made_up)
        self.p[d], self.bias[d] = p, bias
        g_b = s["reg_bias"] * self.b[item] - e
        if not s.get("item_bias", True):
            g_b = np.zeros(len(item))
        return item, s["reg"] * self.q[item] - e[:, None] * at_p, g_b

    def step(self, item: Any, g_q: Any, g_b: Any, t: int) -> None:
        eta = self.s["learning_rate"] * self.s["decay"] ** t
        self.q[item] -= eta * g_q
        self.b[item] -= eta * g_b

    def agrees(self, server: FBALFServer, devices: FBALFDevices) -> None:
        for left, right in (
            (server.q, self.q),
            (server.b, self.b),
            (devices.p, self.p),
            (devices.bias, self.bias),
        ):
            np.testing.assert_allclose(left, right, atol=2e-4)


READINGS: list[dict[str, Any]] = [
    {"decoys_move_u": True},
    {"gradients_at": "before"},
    {"decoys_move_u": True, "gradients_at": "before", "threshold": 0},
]
BIASES: list[dict[str, Any]] = [
    {"user_bias": False},
    {"item_bias": False},
    {"user_bias": False, "item_bias": False},
]


@pytest.mark.parametrize(
    "change",
    [{}, {"start": "mean"}, {"threshold": 9}, {"rho": 0.0}, {"factors": 20}, *READINGS, *BIASES],
)
def test_stochastic_rounds_are_the_papers_device_by_device(
    change: dict, data: Interactions
) -> None:
    """Three passes: averages in the first, predictions after it."""
    settings = {**BASE, **change}
    rounds = Rounds(FBALF(**settings), data)
    start = rounds.start()
    plain, rows = Plain(settings, start), decoys(FBALF(**settings), start, data)
    assert rows.rated.all() == (settings["rho"] == 0)
    for t in range(3):
        for d in EVERYONE:
            plain.step(*plain.visit(d, rows, t), t)
    after = rounds.advance(rounds.start(), 3 * USERS)
    assert abs(plain.q - start.server.q).max() > 0.1
    plain.agrees(after.server, after.devices)
    assert after.ledger.rows_up == 3 * len(rows.item)


@pytest.mark.parametrize("change", [{}, READINGS[2], BIASES[2]])
def test_batch_rounds_step_along_the_mean_over_senders(data: Interactions, change: dict) -> None:
    settings = {**BASE, "style": "batch", "learning_rate": 0.5, **change}
    rounds = Rounds(FBALF(**settings), data)
    start = rounds.start()
    plain, rows = Plain(settings, start), decoys(FBALF(**settings), start, data)
    for t in range(3):
        total_q, total_b, count = np.zeros_like(plain.q), np.zeros_like(plain.b), np.zeros(ITEMS)
        for d in EVERYONE:
            item, g_q, g_b = plain.visit(d, rows, t)
            total_q[item] += g_q
            total_b[item] += g_b
            count[item] += 1
        sent = np.flatnonzero(count)
        plain.step(sent, total_q[sent] / count[sent, None], total_b[sent] / count[sent], t)
    after = rounds.advance(rounds.start(), 3)
    plain.agrees(after.server, after.devices)
    assert after.server.step.tolist() == [3]


def test_what_is_sent_is_the_gradient_of_the_loss_at_the_new_user(data: Interactions) -> None:
    """1/2 e^2 + lambda / 2 |q_i|^2 + lambda_b / 2 b_i^2 by finite differences."""
    algorithm = FBALF(**{**BASE, "rho": 0.0})
    start, history, rng = (
        Rounds(algorithm, data).start(),
        data.histories(EVERYONE),
        np.random.default_rng(1),
    )
    server = start.server._replace(b=rng.normal(size=ITEMS).astype(np.float32))
    after, update = algorithm.local(server, start.devices, history, EVERYONE, key(1))
    owner = np.repeat(EVERYONE, np.diff(history.ptr))
    assert not np.array_equal(after.p, start.devices.p)

    def loss(r: int, q: Any, b: Any) -> float:
        u, i = owner[r], history.item[r]
        e = history.value[r] - (3 + after.p[u].astype(float) @ q[i] + float(after.bias[u]) + b[i])
        return float((e**2 + 0.02 * (q[i] ** 2).sum() + 0.1 * b[i] ** 2) / 2)

    for r in (0, len(owner) // 2, len(owner) - 1):
        for f in range(3):
            bump = np.zeros((ITEMS, 3))
            bump[history.item[r], f] = 1e-5
            slope = (loss(r, server.q + bump, server.b) - loss(r, server.q - bump, server.b)) / 2e-5
            assert update.rows["q"][r, f] == pytest.approx(slope, rel=1e-3, abs=1e-4)
        bump = np.full(ITEMS, 1e-5)
        slope = (loss(r, server.q, server.b + bump) - loss(r, server.q, server.b - bump)) / 2e-5
        assert update.rows["b"][r] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_biases_are_held_by_reg_unless_they_have_their_own(data: Interactions) -> None:
    def trained(**change: Any) -> list[bytes]:
        rounds = Rounds(FBALF(**{**BASE, **change}), data)
        return stored(rounds.advance(rounds.start(), USERS))

    assert trained(reg_bias=None) == trained(reg_bias=0.02) != trained(reg_bias=0.1)


def test_predictions_are_constant_and_biases_and_product(data: Interactions) -> None:
    algorithm, everyone = FBALF(**{**BASE, "start": "mean"}), data.histories(EVERYONE)
    rounds = Rounds(algorithm, data)
    server, devices = rounds.advance(rounds.start(), 2 * USERS)[:2]
    mean = np.array([data.value[data.user == d].mean() for d in EVERYONE[:-1]] + [3.0])
    of_user, of_item = algorithm.biases(server, devices, everyone)
    np.testing.assert_allclose(of_user, mean + devices.bias, rtol=1e-6)
    assert of_item.tobytes() == server.b.tobytes()
    scores = algorithm.score(server, devices, everyone)
    np.testing.assert_allclose(
        scores, of_user[:, None] + of_item + devices.p @ server.q.T, rtol=1e-5
    )
