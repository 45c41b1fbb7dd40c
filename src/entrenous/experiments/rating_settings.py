"""The settings of every system of FBALF's tables: chosen on validation rows, never on test rows.

Found by `entrenous tune --search` with the same number of trials for every system on a data set; the commands and what they found are
in docs/fbalf.md. A system that is not in TUNED has the defaults of its file.
"""

from __future__ import annotations

from .cali3f_settings import Settings, Tuned

# FedRec++ is FedRec with rho = 0 to the bit, however many decoys it has, so it is trained with FedRec's settings; RFRecF is RFRec in
# another order of steps.
FOLLOWS = {
    "fedrec++, batch": "fedrec, batch",
    "fedrec++, stochastic": "fedrec, stochastic",
    "fedrec, user average": "fedrec, batch",
    "fedrec, hybrid filling": "fedrec, batch",
    "rfrecf": "rfrec",
}
TUNED: dict[tuple[str, str], Tuned] = {}


def tuned(data: str, system: str) -> Tuned:
    """What validation chose for a system on a data set, or for the one that it follows."""
    return TUNED.get((data, FOLLOWS.get(system, system)), Tuned())


__all__ = ["Settings", "Tuned", "tuned"]
