"""Eight float64 at a time: the arithmetic of sums of outer products, and of the factorisation of a
small matrix.

As in `simd`, the function is plain NumPy; `doubles_instructions` has what stands for it in a
compiled kernel. Both add one product after the other, so they give the same bits on every machine,
and those of a plain loop.

>>> out, rows = np.ones(8), np.arange(32.0)
>>> add_products(out, 0, np.array([1.0, 0.0, 0.0, 2.0]), 0, 1, rows, 0, 8)
>>> out.tolist()[:3]
[49.0, 52.0, 55.0]
"""

from __future__ import annotations

from ..types import Float64Array

# Numbers of a vector.
DOUBLES = 8
# Products that one call adds: a row of `out` is read and written once for all of them.
TERMS = 4


def add_products(
    out: Float64Array,
    at: int,
    weights: Float64Array,
    w: int,
    apart: int,
    rows: Float64Array,
    r: int,
    stride: int,
) -> None:
    """Adds weights[w + k apart] * rows[r + k stride : ... + 8] to out[at : at + 8], for k = 0, 1,
    2, 3 in this order.

    Arrays are C-contiguous and addressed by flat position; out overlaps neither of the others.
    """
    total = out.reshape(-1)[at : at + DOUBLES]
    factors = weights.reshape(-1)
    terms = rows.reshape(-1)
    for k in range(TERMS):
        begin = r + k * stride
        total += factors[w + k * apart] * terms[begin : begin + DOUBLES]
