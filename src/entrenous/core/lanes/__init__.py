"""Strict arithmetic: float32 and float64 lanes in a fixed order, so that every machine gives the
same bits.
"""

from ..compiling import COMPILES

if COMPILES:
    # Before a kernel is compiled, numba must know what stands for the functions of this room.
    from . import doubles_instructions, simd_instructions, tiles_instructions  # noqa: F401
