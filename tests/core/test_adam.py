"""Adam: its first steps by hand, and the same bits from NumPy arrays, compiled float32 numbers and
lanes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from entrenous.core.lanes.simd import LANES, every, load, store
from entrenous.kernels.adam import BETA1, BETA2, EPSILON, AdamStep, adam_step, direction, moment


@njit
def _one_by_one(
    m: np.ndarray, v: np.ndarray, g: np.ndarray, step: AdamStep, out: np.ndarray
) -> None:
    for k in range(len(g)):
        m[k] = moment(m[k], g[k], step.beta1, step.rest1)
        v[k] = moment(v[k], g[k] * g[k], step.beta2, step.rest2)
        out[k] = direction(m[k], v[k], step.first, step.second, step.epsilon)


@njit
def _in_lanes(m: np.ndarray, v: np.ndarray, g: np.ndarray, step: AdamStep, out: np.ndarray) -> None:
    for k in range(0, len(g), LANES):
        gradient = load(g, k)
        mean = moment(load(m, k), gradient, every(step.beta1), every(step.rest1))
        square = moment(load(v, k), gradient * gradient, every(step.beta2), every(step.rest2))
        store(m, k, mean)
        store(v, k, square)
        store(
            out,
            k,
            direction(mean, square, every(step.first), every(step.second), every(step.epsilon)),
        )


def _as_arrays(
    m: np.ndarray, v: np.ndarray, g: np.ndarray, step: AdamStep, out: np.ndarray
) -> None:
    m[:] = moment(m, g, step.beta1, step.rest1)
    v[:] = moment(v, g * g, step.beta2, step.rest2)
    out[:] = direction(m, v, step.first, step.second, step.epsilon)


def test_numbers_lanes_and_arrays_give_the_same_bits() -> None:
    rng, ends = np.random.default_rng(0), []
    gradients = (rng.normal(size=(7, 64)) * 10.0 ** rng.integers(-6, 4, (7, 64))).astype(np.float32)
    for way in (_one_by_one, _in_lanes, _as_arrays):
        m, v, out = np.zeros((3, 64), np.float32)
        for t, g in enumerate(gradients, start=1):
            way(m, v, g, adam_step(0.01, t), out)
        ends.append((m.tobytes(), v.tobytes(), out.tobytes()))
    assert ends[0] == ends[1] == ends[2]


def test_steps_are_those_of_the_paper() -> None:
    """Algorithm 1 once more in float64; the first step has the length of the rate whatever the
    gradient.
    """
    m = v = paper_m = paper_v = 0.0
    for t, g in enumerate([0.3, -2.0, 0.01, 5.0], start=1):
        step = adam_step(0.1, t)
        m, v = moment(m, g, BETA1, 1 - BETA1), moment(v, g * g, BETA2, 1 - BETA2)
        paper_m, paper_v = 0.9 * paper_m + 0.1 * g, 0.999 * paper_v + 0.001 * g**2
        expected = 0.1 * (paper_m / (1 - 0.9**t)) / (np.sqrt(paper_v / (1 - 0.999**t)) + EPSILON)
        assert np.isclose(
            direction(m, v, float(step.first), float(step.second), EPSILON), expected, rtol=1e-6
        )
        assert t > 1 or np.isclose(expected, 0.1)
