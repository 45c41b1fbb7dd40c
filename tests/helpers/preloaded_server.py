"""Imported by the process that tests fork servers and nodes from: with compiled code loaded, these
are there at once.
"""

import dying_processes  # noqa: F401  # its functions are there too
from federation_links import FPL, ratings

from entrenous.algorithms.fpl import FPL as Algorithm
from entrenous.federation.rounds import Rounds

_rounds = Rounds(Algorithm(**FPL), ratings(), seed=1)
_rounds.advance(_rounds.start(), 2)
