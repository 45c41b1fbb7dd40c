"""The one line with which a run begins that limits nothing: what it gives away, as far as it was
measured.
"""

from __future__ import annotations

from ..core.contract.declared import is_central, is_federated
from ..core.registry.own import short
from ..privacy import evidence
from ..privacy.protection import PAPER
from .options import RunPlan
from .recommenders import Algorithm


def gives_away(plan: RunPlan, algorithm: Algorithm) -> str:
    """The line for a plan, "" where something limits what leaves devices, or nothing does."""
    if plan.profile != PAPER or plan.protect or is_central(algorithm):
        return ""
    name = short(plan.algorithm)
    said = evidence.gives_away(name) or f"`entrenous audit {name}` measures what that gives away"
    limited = "; --profile private limits it" if is_federated(algorithm) else ""
    return (
        f"profile paper: each message of a device can be read by who receives it; {said}{limited}"
    )
