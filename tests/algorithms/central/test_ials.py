"""iALS against a dense exact solve, and without its library."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from entrenous.core.errors import InputError
from entrenous.core.keys import fold_name, key
from entrenous.data.interactions import Vocabulary, build
from entrenous.systems.central.ials import Ials


@pytest.fixture
def data():
    rows = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 3), (2, 4), (4, 4)]  # user 3 has none
    return build(*zip(*rows, strict=True), users=Vocabulary(size=5), items=Vocabulary(size=6))


def solve(own, other, x, alpha, reg):
    """argmin over `own` of sum (1 + alpha x_ui) (x_ui - own_u . other_i)^2 + reg |own|^2, one exact
    solve per row, in float64.
    """
    for u in range(len(own)):
        weight = np.diag(1 + alpha * x[u])
        own[u] = np.linalg.solve(
            other.T @ weight @ other + reg * np.eye(other.shape[1]), other.T @ weight @ x[u]
        )


@pytest.mark.parametrize("alpha", [0.0, 1.0, 40.0])
def test_every_sweep_is_the_exact_solution(data, alpha):
    pytest.importorskip("implicit")
    algorithm = Ials(factors=3, epochs=4, alpha=alpha, reg=0.1)
    model = algorithm.fit(data, key(0))
    x = np.zeros((5, 6))
    x[data.user, data.item] = 1
    P = algorithm._start(fold_name(key(0), "P"), 5).astype(np.float64)
    Q = algorithm._start(fold_name(key(0), "Q"), 6).astype(np.float64)
    for _ in range(4):
        solve(P, Q, x, alpha, 0.1)
        solve(Q, P, x.T, alpha, 0.1)
    assert algorithm.score(model, data, np.arange(5)) == pytest.approx(P @ Q.T, abs=2e-4)


def test_a_singular_system_is_refused_in_one_line(data):
    pytest.importorskip("implicit")
    with pytest.raises(
        InputError, match=r"^--set reg: a system is singular with reg 1e-12; choose a larger reg$"
    ):
        Ials(factors=200, reg=1e-12).fit(data, key(0))


def test_without_implicit_one_line_says_what_to_do(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)
    with pytest.raises(
        InputError, match=r'^ials: implicit is not installed; pip install "entrenous\[implicit\]"$'
    ):
        Ials().fit(data, key(0))


def test_users_are_folded_in_as_a_half_sweep_does(data) -> None:
    pytest.importorskip("implicit")
    algorithm = Ials(factors=4, epochs=3)
    model = algorithm.fit(data, key(0))
    folded = algorithm.fold_in(model, data)
    # The last half sweep moved the items, so users are solved for the stored items.
    q = model.Q.astype(np.float64)
    consumed = np.zeros((len(data.users), len(q)))
    consumed[data.user, data.item] = 1
    for user, own in enumerate(consumed):
        gradient = q.T @ ((1 + algorithm.alpha * own) * (own - q @ folded.P[user]))
        assert np.allclose(gradient, algorithm.reg * folded.P[user], atol=1e-3)
