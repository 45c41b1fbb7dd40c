"""Imported by the process that tests fork servers, nodes and attacks from: with compiled code
loaded, these are there at once.
"""

import dying_processes  # noqa: F401  # its functions are there too
from entrenous_audit import attacker  # noqa: F401
from entrenous_audit.known import known
from federation_links import FPL, ratings

from entrenous.federation.rounds import Rounds
from entrenous.systems.fpl import FPL as Algorithm

_rounds = Rounds(Algorithm(**FPL), ratings(), seed=1)
_rounds.advance(_rounds.start(), 2)
known()
