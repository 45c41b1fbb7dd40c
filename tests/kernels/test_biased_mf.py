"""FBALF's arithmetic on one device, held against the sums it stands for, written out in float64."""

from __future__ import annotations

import numpy as np
import pytest
from plain_python import printed_both_ways

from entrenous.kernels.biased_mf import BiasedMFRates, BiasedMFRows, gradients

ITEMS, USERS, MEMBERS, FACTORS = 30, 4, 2, 5
RATES = {"steps": 400, "reg": 0.7, "reg_bias": 1.5, "noise": 0.0, "bias": True, "predict": True}


def rates(**other: object) -> BiasedMFRates:
    of = {**RATES, **other}
    numbers = [np.float32(of[name]) for name in ("reg", "reg_bias", "noise")]
    return BiasedMFRates(of["steps"], *numbers, of["bias"], of["predict"])


class World:
    """Some devices with rated items and decoys, each item once; device 3 has rated nothing."""

    def __init__(self, factors: int = FACTORS) -> None:
        rng = np.random.default_rng(8)
        self.q = rng.normal(0, 0.5, (ITEMS, MEMBERS, factors)).astype(np.float32)
        self.b = rng.normal(0, 0.3, (ITEMS, MEMBERS)).astype(np.float32)
        self.v = rng.uniform(0, 0.1, ITEMS).astype(np.float32)
        self.p = rng.normal(0, 0.5, (USERS, MEMBERS, factors)).astype(np.float32)
        self.offset = rng.normal(0, 0.2, (USERS, MEMBERS)).astype(np.float32)
        counts = [12, 20, 3, 0]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        item = np.concatenate([np.sort(rng.permutation(ITEMS)[:n]) for n in counts]).astype(
            np.int32
        )
        rated = rng.random(len(item)) < 0.6
        value = np.where(rated, rng.integers(1, 6, len(item)), 0).astype(np.float32)
        self.rows = BiasedMFRows(ptr, item, value, rated, np.full(USERS, 3, np.float32))

    def run(self, how: BiasedMFRates) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(gradients of q, of b, new p, new offset)."""
        p, offset = self.p.copy(), self.offset.copy()
        g_q, g_b = gradients(self.q, self.b, self.v, p, offset, self.rows, how)
        return g_q, g_b, p, offset

    def own(self, d: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Device d in float64: its rows, which are rated, q and what is left of the ratings for p.q
        + offset.
        """
        part = slice(*self.rows.ptr[d : d + 2])
        item, rated = self.rows.item[part], self.rows.rated[part]
        return (
            np.arange(part.start, part.stop),
            rated,
            self.q[item, k].astype(float),
            self.rows.value[part] - self.b[item, k] - 3.0,
        )


@pytest.mark.parametrize("factors", [5, 16, 19])
@pytest.mark.parametrize(("d", "k"), [(0, 0), (1, 1), (2, 0)])
def test_many_local_iterations_solve_the_regularised_least_squares(
    d: int, k: int, factors: int
) -> None:
    """min over (p, offset) of sum (y - offset - p.q)^2 + (reg + sum v) |p|^2 + reg_b offset^2."""
    world = World(factors)
    _, rated, q, y = world.own(d, k)
    *_, p, offset = world.run(rates())
    spread = world.v[world.rows.item[world.rows.ptr[d] : world.rows.ptr[d + 1]][rated]].sum()
    x = np.hstack([q[rated], np.ones((rated.sum(), 1))])
    hold = np.diag([*[0.7 + spread] * factors, 1.5])
    assert np.linalg.solve(x.T @ x + hold, x.T @ y[rated]) == pytest.approx(
        [*p[d, k], offset[d, k]], abs=2e-4
    )


def test_gradients_are_those_of_half_the_squared_error_at_the_new_p() -> None:
    """By finite differences of 1/2 sum e^2 over q and b."""
    world = World()
    g_q, g_b, p, offset = world.run(rates(steps=3))
    rows, rated, q, y = world.own(1, 1)

    def loss(change: np.ndarray, shift: np.ndarray) -> float:
        e = y - shift - offset[1, 1] - ((q + change) * p[1, 1].astype(float)).sum(axis=1)
        return 0.5 * (e[rated] ** 2).sum()

    tiny, zero = 1e-5, np.zeros_like(q)
    for n in np.flatnonzero(rated)[:3]:
        for f in range(FACTORS):
            step = zero.copy()
            step[n, f] = tiny
            numeric = (loss(step, np.zeros(len(q))) - loss(-step, np.zeros(len(q)))) / (2 * tiny)
            assert g_q[rows[n], 1, f] == pytest.approx(numeric, abs=1e-4)
        shift = np.zeros(len(q))
        shift[n] = tiny
        assert g_b[rows[n], 1] == pytest.approx(
            (loss(zero, shift) - loss(zero, -shift)) / (2 * tiny), abs=1e-4
        )


def test_noise_adds_the_covariance_of_p_to_rated_rows_alone() -> None:
    """The mean of (e p) over p ~ N(p_u, C) is e p_u - C q."""
    world = World()
    plain, _, _, _ = world.run(rates())
    noisy, g_b, _, _ = world.run(rates(noise=0.7))
    rows, rated, q, _ = world.own(0, 0)
    spread = world.v[world.rows.item[: world.rows.ptr[1]][rated]].sum()
    c = 0.7 * np.linalg.inv(q[rated].T @ q[rated] + np.eye(FACTORS) * (0.7 + spread))
    assert noisy[rows[rated], 0] - plain[rows[rated], 0] == pytest.approx(q[rated] @ c, abs=1e-4)
    assert np.array_equal(noisy[rows[~rated], 0], plain[rows[~rated], 0])
    assert np.isfinite(g_b).all()


def test_a_decoy_is_rated_by_the_mean_and_later_by_the_new_prediction() -> None:
    world = World()
    rows, rated, q, y = world.own(0, 1)
    _, early, p, offset = world.run(rates(steps=2, predict=False))
    mean = world.rows.value[rows[rated]].mean()
    by_new = offset[0, 1] + q @ p[0, 1].astype(float)
    assert -early[rows[~rated], 1] == pytest.approx(
        (mean + y - by_new)[~rated], abs=1e-5
    )  # y of a decoy is 0 - b - 3
    g_q, late, _, _ = world.run(rates(steps=2, predict=True))
    by_old = world.offset[0, 1] + q @ world.p[0, 1].astype(float)
    assert -late[rows[~rated], 1] == pytest.approx((by_new - by_old)[~rated], abs=1e-5)
    assert g_q[rows[~rated], 1] == pytest.approx(np.outer(late[rows[~rated], 1], p[0, 1]), abs=1e-5)


def test_members_know_nothing_of_each_other() -> None:
    world, how = World(), rates(noise=0.5, steps=4)
    whole = world.run(how)
    world.q[:, 1], world.p[:, 1] = 9, 7
    changed = world.run(how)
    assert np.array_equal(whole[0][:, 0], changed[0][:, 0]) and np.array_equal(
        whole[2][:, 0], changed[2][:, 0]
    )


def test_a_device_without_ratings_is_drawn_to_its_prior() -> None:
    *_, p, offset = World().run(rates())
    assert np.abs(p[3]).max() == 0 and np.abs(offset[3]).max() == 0
    *_, p, offset = World().run(rates(reg=0, reg_bias=0))  # nothing holds it: it stays
    assert np.array_equal(p[3], World().p[3]) and np.array_equal(offset[3], World().offset[3])


PROGRAM = """
import hashlib, numpy as np
from tests.kernels.test_biased_mf import World, rates
digest = hashlib.sha256()
for factors in (5, 19):
    for how in (rates(steps=3, noise=0.7), rates(steps=2, predict=False, bias=False)):
        for array in World(factors).run(how):
            digest.update(np.ascontiguousarray(array).tobytes())
print(digest.hexdigest())
"""


def test_compiled_and_uncompiled_have_the_same_bits() -> None:
    assert len(printed_both_ways(PROGRAM)) == 64
