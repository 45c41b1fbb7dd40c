"""FCF's cost: a history gives the vector of its user, and with it what the device sends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from entrenous.core.types import Float32Array, Float64Array

from ..transcript import Transcript
from ._followed import sums_noise
from ._rows_seen import sends


class Terms(NamedTuple):
    """The constants of FCF's cost."""

    w: float
    """The confidence in an item that was not consumed."""
    c: float
    """The confidence in a consumed item."""
    reg: float
    reg_by: str
    noise: float
    """The variance of the noise of a number of a sum."""


def of_implicit(transcript: Transcript) -> bool:
    """Checks whether devices send a gradient of all item factors of an implicit factorisation."""
    sent = sends(transcript, "f") or sends(transcript, "own")
    return sent and "unobserved" in transcript.settings


def gradients(transcript: Transcript) -> bool:
    """Checks whether devices send FCF's gradient, of consumed items and of others."""
    return of_implicit(transcript) and not transcript.setting("ratings")


def terms_of(transcript: Transcript, sums: int) -> Terms:
    """The constants of a transcript. sums: whose noise is in each that is read."""
    w = float(transcript.setting("unobserved"))
    c = 1.0
    if w:
        c = 1 + float(transcript.setting("alpha"))
    noise = sums * sums_noise(transcript)
    reg = float(transcript.setting("reg"))
    return Terms(w, c, reg, str(transcript.setting("reg_by")), noise)


def vectors(y: Float32Array, chance: Float32Array, terms: Terms) -> Float32Array:
    """x_u of users whose items have some chances, float32 [m, F]: FCF's closed form with expected
    confidences.
    """
    factors = y.shape[1]
    low = np.tril_indices(factors)
    # sum_i chance_ui y_i y_i^T, by its lower triangle.
    pairs = y[:, low[0]] * y[:, low[1]]
    triangle = (terms.c - terms.w) * (chance @ pairs)
    square = np.empty((len(chance), factors, factors))
    square[:, low[0], low[1]] = triangle
    square[:, low[1], low[0]] = triangle
    square += terms.w * (y.T @ y)
    ridge = _regs(chance, terms)
    square += ridge[:, None, None] * np.eye(factors)
    aim = terms.c * (chance @ y)
    x = np.linalg.solve(square, aim[:, :, None].astype(np.float64))
    return x[:, :, 0].astype(np.float32)


def _regs(chance: Float32Array, terms: Terms) -> Float64Array:
    """Lambda of x_u, float64 [m], and never quite 0, so that any catalogue can be solved."""
    if terms.reg_by == "vector":
        by = np.ones(len(chance))
    else:
        extra = (terms.c - terms.w) * chance.sum(axis=1, dtype=np.float64)
        by = terms.w * chance.shape[1] + extra
    if terms.reg_by == "root":
        by = np.sqrt(by)
    return np.maximum(terms.reg * by, 1e-6)
