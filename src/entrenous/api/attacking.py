"""`attack`: colluding devices or peers against a federation, from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from ..audit.plan import AttackOptions, AttackPlan
from ..audit.robustness import attack as measured
from ..core.contract.protocols import Progress
from ..core.errors import InputError
from ..core.keywords import values
from .arguments import algorithm_asked, asked_progress, named_rows, public


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AttackKeywords(AttackOptions):
    """The keywords of `attack`: the options of `entrenous attack`, and what only Python can hand
    in.
    """

    algorithm: Any = field(kw_only=False)
    """A name, a place, a class or an instance, as of `entrenous.run`, with a server or between
    peers."""
    data: Any = field(default="ml-100k", kw_only=False)
    """As of `entrenous.run`."""
    progress: bool | Progress | None = None
    """As of `entrenous.run`."""


@public(AttackKeywords)
def attack(asked: AttackKeywords) -> dict[str, Any]:
    """Train a federation with and without colluding devices, and measure the effect of the attack
    under each defence.

    Returns what `entrenous attack --json` prints: `rows` has one entry for each defence, with
    `hr@10`, `hr@10_attacked` and `er@10`. Raises InputError for what cannot be run, in one line.
    """
    return attacked(asked)


def attacked(asked: AttackKeywords) -> dict[str, Any]:
    """As `attack`, with errors in the words of the command line."""
    # A caller who names items takes the wrong one of two similar keywords.
    if not isinstance(asked.targets, int):
        fix = 'name items with target=("ID", ...)'
        raise InputError("--targets", f"got {asked.targets!r:.40}", expected="a number", fix=fix)
    with asked_progress(asked.progress) as progress:
        name, own = algorithm_asked(asked.algorithm)
        data, rows = named_rows(asked.data)
        options = values(asked, AttackOptions)
        # Settings that were given with an instance are stronger than the instance's.
        options["settings"] = {**own, **asked.settings}
        options["defences"] = tuple(asked.defences)
        options["target"] = tuple(asked.target)
        plan = AttackPlan(algorithm=name, data=data, **options)
        return measured(plan, rows, progress=progress)
