"""Adam, an optimiser whose steps are scaled by running means of the gradient and of its square.

D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1. For a
gradient g, in step t = 1, 2, ...

    m <- beta1 m + (1 - beta1) g
    v <- beta2 v + (1 - beta2) g^2
    x <- x - rate m^ / (sqrt(v^) + epsilon),   m^ = m / (1 - beta1^t),   v^ = v / (1 - beta2^t)

`moment` and `direction` are plain Python on whatever knows + * /: NumPy arrays as they are; in
compiled kernels float32 numbers, or sixteen at a time (core/lanes/simd.py). The order of operations
is part of the result, so it is written here alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.compiling import also_compiled
from ..core.lanes.simd import root

# A float32, an array, or sixteen lanes.
Numbers: TypeAlias = Any

# As the paper recommends.
BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


class AdamStep(NamedTuple):
    """The coefficients of Adam's step number t, in float32."""

    first: np.float32
    """rate / (1 - beta1^t)"""
    second: np.float32
    """1 / (1 - beta2^t)"""
    beta1: np.float32
    """The weight of the old mean of gradients."""
    rest1: np.float32
    """1 - beta1"""
    beta2: np.float32
    """The weight of the old mean of squares."""
    rest2: np.float32
    """1 - beta2"""
    epsilon: np.float32
    """Keeps a step finite where gradients were 0."""


def adam_step(rate: float, step: int) -> AdamStep:
    """Returns the coefficients of step number `step` (>= 1) at this learning rate, with the betas
    that the paper recommends.

    >>> float(adam_step(0.5, 1).first)
    5.0
    """
    # The means begin at 0: without these divisors the first steps would be too short.
    first = rate / (1 - BETA1**step)
    second = 1 / (1 - BETA2**step)
    return AdamStep(
        first=np.float32(first),
        second=np.float32(second),
        beta1=np.float32(BETA1),
        rest1=np.float32(1 - BETA1),
        beta2=np.float32(BETA2),
        rest2=np.float32(1 - BETA2),
        epsilon=np.float32(EPSILON),
    )


@also_compiled
def moment(old: Numbers, new: Numbers, beta: Numbers, rest: Numbers) -> Numbers:
    """Returns a running mean after one more value, beta old + rest new. rest: 1 - beta; new: the
    gradient, or its square.

    >>> float(moment(1.0, 3.0, 0.75, 0.25))
    1.5
    """
    return beta * old + rest * new


@also_compiled
def direction(
    mean: Numbers, square: Numbers, first: Numbers, second: Numbers, epsilon: Numbers
) -> Numbers:
    """Returns first mean / (sqrt(second square) + epsilon), which is taken off x; the learning rate
    may be part of `first` or be multiplied later.

    >>> float(direction(0.5, 0.25, 1.0, 1.0, 0.0))
    1.0
    """
    return first * mean / (root(second * square) + epsilon)
