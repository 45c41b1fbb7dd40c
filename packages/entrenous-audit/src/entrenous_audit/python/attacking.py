"""`attack`: colluding devices or peers against a federation, from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, final

import numpy as np

from entrenous.api.arguments import (
    AlgorithmAsked,
    DataAsked,
    FrameT,
    ProgressAsked,
    algorithm_asked,
    asked_progress,
    ids_asked,
    kind_of,
    named_rows,
    public,
)
from entrenous.api.results import Figure, Report
from entrenous.core.errors import InputError
from entrenous.core.keywords import values
from entrenous.report import figures
from entrenous.report.figures import FigureFormat

from ..plan import AttackOptions, AttackPlan
from ..robustness import AttackFound
from ..robustness import attack as measured


@final
class AttackEffect(Report[AttackFound, FrameT]):
    """The effect of an attack. `table()` has a row for each defence, with `hr@10`,
    `hr@10_attacked` and `er@10`.
    """

    def plot(self) -> Figure:
        """The exposure of the targets before and under attack, for each defence."""
        rows = self.found["rows"]
        before = [row["er@10_before"] for row in rows]
        attacked = [row["er@10"] for row in rows]
        series = {"before": np.array(before, float), "attacked": np.array(attacked, float)}
        look = FigureFormat(self._caption(), "er@10 of the targets", "")
        return Figure(figures.bars([str(row["defence"]) for row in rows], series, look))

    def _caption(self) -> str:
        found = self.found
        return (
            f"{found['algorithm']} on {found['data']}, {found['protocol']},"
            f" {found['rounds']} rounds: {found['attack']}, {found['colluders']} colluders among"
            f" {found['honest']} honest users"
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AttackKeywords(AttackOptions, Generic[FrameT]):
    """The keywords of `attack`: the options of `entrenous attack`, and what only Python can hand
    in.
    """

    algorithm: AlgorithmAsked = field(kw_only=False)
    """A name, a place, a class or an instance, as of `entrenous.run`, with a server or between
    peers."""
    data: DataAsked[FrameT] = field(default="ml-100k", kw_only=False)
    """As of `entrenous.run`."""
    progress: ProgressAsked = None
    """As of `entrenous.run`."""


@public(AttackKeywords)
def attack(asked: AttackKeywords[FrameT]) -> AttackEffect[FrameT]:
    """Train a federation with and without colluding devices, and measure the effect of the attack
    under each defence.

    Raises InputError for what cannot be run, in one line.
    """
    return AttackEffect(attacked(asked), kind_of(asked.data))


def attacked(asked: AttackKeywords[Any]) -> AttackFound:
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
        options["target"] = tuple(ids_asked("target", asked.target))
        plan = AttackPlan(algorithm=name, data=data, **options)
        return measured(plan, rows, progress=progress)
