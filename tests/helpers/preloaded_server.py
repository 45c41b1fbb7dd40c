"""Imported by the process that tests fork servers, nodes and attacks from: with compiled code
loaded, these are there at once. Of the neighbours, those that are installed.
"""

from importlib.util import find_spec

from small_federations import shop

from entrenous.federation.rounds import Rounds
from entrenous.systems.fpl import FPL

_rounds = Rounds(FPL(factors=4, triples=5), shop(), seed=1)
_rounds.advance(_rounds.start(), 2)
if find_spec("entrenous_network") and find_spec("entrenous_lab"):
    import dying_processes  # noqa: F401  # its functions are there too
if find_spec("entrenous_audit"):
    from entrenous_audit import attacker  # noqa: F401
    from entrenous_audit.known import known

    known()
