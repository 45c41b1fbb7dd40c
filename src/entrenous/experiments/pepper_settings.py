"""The settings of every system of PEPPER's tables: chosen on the weighting sets, never on test rows.

Found by `entrenous tune --search`, with the same number of trials for every system of a split. A system that is not in TUNED has the
defaults of its file. Where `rounds` is None, the experiments themselves choose the round: the best on the weighting sets, of seed 0.
"""

from __future__ import annotations

from .cali3f_settings import Settings, Tuned

TUNED: dict[tuple[str, str], Tuned] = {}


def tuned(split: str, algorithm: str) -> Tuned:
    """What the weighting sets chose for an algorithm on a split, such as ("ml-100k, pepper-given", "fedavg-gmf")."""
    return TUNED.get((split, algorithm), Tuned())


__all__ = ["Settings", "Tuned", "tuned"]
