"""The scale that users rate on, and the one line for data in which nothing is rated."""

from __future__ import annotations

from .errors import InputError


def rated(scale: tuple[float, float], where: str) -> tuple[float, float]:
    """(lowest, highest) rating. where: what cannot do without ratings. Raises InputError where all
    are the same.

    >>> rated((1.0, 5.0), "fbalf")
    (1.0, 5.0)
    """
    low, high = scale
    if not low < high:
        fix = "name their column with --load value=COLUMN, or use an algorithm that ranks"
        raise InputError(
            where, "the data has no ratings to learn from", expected="ratings that differ", fix=fix
        )
    return low, high
