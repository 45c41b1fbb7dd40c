"""FCF against the paper's formulas computed with plain linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from small_data import few_ratings

from entrenous.core.contract.update import Update, add_update, empty_total
from entrenous.core.keys import key
from entrenous.core.types import Float64Array
from entrenous.data.interactions import Interactions
from entrenous.federation.rounds import Rounds
from entrenous.systems.fcf import FCF, FCFDevices, FCFServer

USERS, ITEMS = 6, 9
STEEP = {"optimiser": "sgd", "learning_rate": 1.0, "reg": 0.0}


@pytest.fixture
def data() -> Interactions:
    return few_ratings(USERS, ITEMS)


def server_of(y: np.ndarray) -> FCFServer:
    """A server with these item factors, before its first step."""
    nothing = np.zeros_like(y)
    return FCFServer(y, nothing, nothing, np.zeros(1, np.int64))


def told(fcf: FCF, y: np.ndarray, data: Interactions) -> tuple[FCFDevices, Update]:
    """What all devices keep and send under these item factors."""
    everyone = np.arange(USERS)
    devices = fcf.init_devices(everyone, data.catalogue, key(0))
    received = fcf.follow(fcf.download(server_of(y)))
    return fcf.local(received, devices, data.histories(everyone), everyone, key(1))


def stepped(fcf: FCF, y: np.ndarray, update: Update) -> np.ndarray:
    """The item factors after the server's step."""
    return fcf.aggregate(server_of(y), add_update(empty_total(update, ITEMS), update)).y


def dense(data: Interactions) -> Float64Array:
    """r_ui as a matrix."""
    matrix = np.zeros((USERS, ITEMS))
    matrix[data.user, data.item] = data.value
    return matrix


@pytest.mark.parametrize(
    "settings", [{}, {"ratings": True, "alpha": 0.5}, {"unobserved": 0.0, "alpha": 0.0}]
)
def test_local_solves_for_x_and_sends_the_papers_gradient(
    data: Interactions, settings: dict
) -> None:
    fcf = FCF(factors=3, reg=0.7, **settings)
    y = np.random.default_rng(1).normal(size=(ITEMS, 3)).astype(np.float32)
    private, update = told(fcf, y, data)
    r = dense(data)
    p = (r > 0).astype(float)
    c = np.where(
        p > 0,
        fcf.unobserved + fcf.alpha * (r if fcf.ratings else 1) if fcf.unobserved else 1.0,
        fcf.unobserved,
    )
    for u in range(USERS):
        y64 = y.astype(float)
        x = np.linalg.solve(y64.T @ np.diag(c[u]) @ y64 + 0.7 * np.eye(3), y64.T @ (c[u] * p[u]))
        assert np.allclose(private.x[u], x, atol=1e-5)
        assert np.allclose(
            update.dense["f"][u], (c[u] * (p[u] - y64 @ x))[:, None] * x[None, :], atol=1e-5
        )


@pytest.mark.parametrize(
    "settings", [{}, {"ratings": True, "alpha": 0.5}, {"unobserved": 0.0, "alpha": 0.0}]
)
def test_both_forms_have_the_same_gradient(data: Interactions, settings: dict) -> None:
    """Before anything is rounded: what the server makes of x_u x_u^T and rows of consumed items is
    the sum of f(u, i).
    """
    printed, gram = (FCF(factors=3, reg=0.7, form=form, **settings) for form in ("printed", "gram"))
    y = np.random.default_rng(1).normal(size=(ITEMS, 3)).astype(np.float32)
    alike, whole_update = told(printed, y, data)
    own, update = told(gram, y, data)
    f = whole_update.dense["f"].sum(axis=0, dtype=np.float64)
    assert np.array_equal(own.x, alike.x) and update.nbytes == 4 * (USERS * 6 + len(data) * 4)
    triangle = np.zeros((3, 3))
    triangle[np.tril_indices(3)] = update.dense["outer"].sum(axis=0)
    rows = np.zeros((ITEMS, 3))
    np.add.at(rows, update.item, update.rows["own"])
    whole = triangle + np.tril(triangle, -1).T
    assert np.allclose(rows - gram.unobserved * y @ whole, f, atol=1e-5)
    # Sums on a grid of 2^-16.
    for fcf, one in ((printed, whole_update), (gram, update)):
        moved = stepped(fcf.model_copy(update=STEEP), y, one)
        assert np.allclose(moved - y, 2 * f, atol=1e-3)


def test_the_server_steps_along_the_gradient_of_the_cost(data: Interactions) -> None:
    """-2 sum f + 2 lambda y is dJ/dy: checked against finite differences of J at fixed x; one SGD
    step follows it.
    """
    fcf = FCF(factors=3, reg=0.7, alpha=2.0, optimiser="sgd", learning_rate=1.0)
    rng = np.random.default_rng(2)
    y = rng.normal(size=(ITEMS, 3)).astype(np.float32)
    private, update = told(fcf, y, data)
    moved = stepped(fcf, y, update)
    p = (dense(data) > 0).astype(float)

    def cost(factors: Float64Array) -> float:
        x = private.x.astype(float)
        return float(
            ((1 + 2 * p) * (p - x @ factors.T) ** 2).sum()
            + 0.7 * ((x**2).sum() + (factors**2).sum())
        )

    eps = 1e-5
    for i, f in ((0, 0), (4, 1), (8, 2)):
        bump = np.zeros((ITEMS, 3))
        bump[i, f] = eps
        slope = (cost(y + bump) - cost(y - bump)) / (2 * eps)
        assert (y - moved)[i, f] == pytest.approx(slope, rel=2e-3, abs=2e-3)


def test_adams_first_step_moves_every_factor_by_the_learning_rate(data: Interactions) -> None:
    fcf = FCF(factors=4, learning_rate=0.05)
    rounds = Rounds(fcf, data)
    before = rounds.start()
    after = rounds.one_round(before)
    assert np.allclose(
        np.abs(after.server.y - before.server.y), 0.05, atol=1e-4
    )  # m / sqrt(v) is +-1 after one step
    assert after.server.step.tolist() == [1]


def test_what_fpl_compared_with_is_another_method() -> None:
    from entrenous.systems.named import algorithms

    compared = algorithms()["fcf-huawei"]()
    assert (compared.unobserved, compared.alpha, compared.optimiser) == (0.0, 0.0, "sgd")
    assert (FCF().unobserved, FCF().optimiser) == (1.0, "adam")


def test_newton_steps_over_the_curvature(data: Interactions) -> None:
    """One step from y: (w S (1 + alpha n_i / m / w) + lambda_i I)^-1 (sum of f - lambda_i y_i)
    added, by plain linear algebra.
    """
    fcf = FCF(
        factors=3,
        form="gram",
        optimiser="newton",
        learning_rate=1.0,
        alpha=2.0,
        reg=0.05,
        reg_by="root",
    )
    y = np.random.default_rng(1).normal(size=(ITEMS, 3)).astype(np.float32)
    private, update = told(fcf, y, data)
    moved = stepped(fcf, y, update)
    p, y64 = (dense(data) > 0).astype(float), y.astype(float)
    c, consumed = 1 + 2 * p, p.sum(axis=0)
    for u in range(USERS):
        x = np.linalg.solve(
            y64.T @ np.diag(c[u]) @ y64 + 0.05 * c[u].sum() ** 0.5 * np.eye(3),
            y64.T @ (c[u] * p[u]),
        )
        assert np.allclose(private.x[u], x, atol=1e-5)
    x64 = private.x.astype(float)
    s, f = x64.T @ x64, (c * (p - x64 @ y64.T)).T @ x64
    for i in range(ITEMS):
        reg = 0.05 * c[:, i].sum() ** 0.5
        step = np.linalg.solve(
            (1 + 2 * consumed[i] / USERS) * s + reg * np.eye(3), f[i] - reg * y64[i]
        )
        assert np.allclose(moved[i] - y[i], step, atol=1e-3)


def test_newton_needs_the_form_that_says_the_curvature() -> None:
    with pytest.raises(ValueError, match="optimiser=newton needs form=gram"):
        FCF(optimiser="newton")
