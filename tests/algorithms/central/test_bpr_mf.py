"""BPR-MF: its step is the gradient it claims, and its draws are what it says."""

from __future__ import annotations

import numpy as np
import pytest

from entrenous.core.keys import key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central import bpr_mf
from entrenous.systems.central.bpr_mf import BprMf, BprMfModel, learn, step


def objective(p, Q, b, i, j, reg):
    """ln sigma(x_uij) - 1/2 sum of reg times the squares of the triple's parameters, in float64."""
    reg_user, reg_positive, reg_negative, reg_bias = reg
    x = b[i] - b[j] + p @ (Q[i] - Q[j])
    weights = (
        reg_user * p @ p
        + reg_positive * Q[i] @ Q[i]
        + reg_negative * Q[j] @ Q[j]
        + reg_bias * (b[i] ** 2 + b[j] ** 2)
    )
    return -np.log1p(np.exp(-x)) - weights / 2


def test_a_step_is_the_gradient_of_the_objective():
    rng = np.random.default_rng(3)
    theta, reg = rng.normal(size=5 + 4 * 5 + 4), (0.3, 0.2, 0.1, 0.4)
    parts = lambda t: (t[:5].copy(), t[5:25].reshape(4, 5).copy(), t[25:].copy())  # noqa: E731
    moved, alpha, i, j = parts(theta), 1e-6, 2, 0
    step(*moved, i, j, np.array([alpha, *reg]))
    gradient = (np.concatenate([part.ravel() for part in moved]) - theta) / alpha
    for at in range(len(theta)):
        e = np.zeros(len(theta))
        e[at] = 1e-5
        difference = (
            objective(*parts(theta + e), i, j, reg) - objective(*parts(theta - e), i, j, reg)
        ) / 2e-5
        assert gradient[at] == pytest.approx(difference, abs=1e-6)


@pytest.mark.parametrize("x", [-1e4, -2.0, 0.0, 2.0, 1e4])
def test_the_slope_does_not_overflow(x):
    expected = {
        -1e4: 1.0,
        -2.0: 1 / (1 + np.exp(-2.0)),
        0.0: 1 / 2,
        2.0: 1 / (1 + np.exp(2.0)),
        1e4: 0.0,
    }[x]
    assert bpr_mf.loss_slope(x) == pytest.approx(expected, abs=1e-15)


def test_defaults_of_the_regularisation_follow_the_learning_rate():
    rates = BprMf(learning_rate=0.5, reg_bias=0.7)._rates()
    assert (
        rates.tolist() == np.array([0.5, 0.5 / 20, 0.5 / 20, 0.5 / 200, 0.7], np.float32).tolist()
    )
    assert BprMf(reg_negative=0.0)._rates()[3] == 0


def drawn(sample):
    """The biases after 200 epochs: which items moved up, and how far. User 0 has 20 of 60 items,
    user 1 has item 59.
    """
    user, item = [0] * 20 + [1], [*range(20), 59]
    data = build(user, item, users=Vocabulary(size=3), items=Vocabulary(size=60))
    b = np.zeros(60, np.float32)
    model = BprMfModel(np.zeros((3, 1), np.float32), np.zeros((60, 1), np.float32), b)
    draws = BprMf(sample=sample)._draws(data)
    for epoch in range(200):
        learn(model, draws, key(0, epoch), np.array([1e-3, 0, 0, 0, 0], np.float32))
    return b


def test_rows_or_users_are_drawn_uniformly():
    by_row, by_user = drawn("interaction"), drawn("user")
    ups = 200 * 21 * 1e-3 / 2  # 21 triples an epoch, and sigma(-x) stays near 1/2
    assert by_row[59] == pytest.approx(ups * 1 / 21, abs=0.25 * ups)
    assert by_user[59] == pytest.approx(ups * 1 / 2, rel=0.25)
    assert (by_row[:20] > 0).all()
    assert (by_row[20:59] < 0).all()


def test_a_negative_is_never_a_consumed_item():
    data = build([0] * 4, [0, 1, 2, 4], users=Vocabulary(size=1), items=Vocabulary(size=5))
    model = BprMf(epochs=5, factors=2).fit(data, key(0))
    assert (model.b[[0, 1, 2, 4]] > 0).all() and model.b[3] < 0


def test_a_user_who_consumed_everything_is_passed_over():
    data = build([0, 0], [0, 1], users=Vocabulary(size=2), items=Vocabulary(size=2))
    assert BprMf(epochs=3).fit(data, key(0)).b.tolist() == [0, 0]
