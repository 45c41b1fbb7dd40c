"""Strict arithmetic: float32 and float64 lanes in a fixed order, so that every machine gives the
same bits.
"""
