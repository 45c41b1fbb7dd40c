"""`leakcheck` from Python: models that were trained alone must score like chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, final

from ..core.keywords import values
from ..runs.leakcheck import LeakcheckFound
from ..runs.leakcheck import leakcheck as checked
from ..runs.options import LeakcheckTraining
from .arguments import (
    AlgorithmAsked,
    DataAsked,
    FrameT,
    ProgressAsked,
    algorithm_asked,
    asked_progress,
    data_asked,
    kind_of,
    public,
)
from .results import Report


@final
class Leakcheck(Report[LeakcheckFound, FrameT]):
    """Purely local models compared with chance. `table()` has a row for each metric."""

    of_rows = "checks"

    @property
    def passed(self) -> bool:
        """True if no metric differs from chance."""
        return self.found["passed"]

    def _caption(self) -> str:
        found = self.found
        return (
            f"purely local models of {found['algorithm']} on {found['data']},"
            f" {found['protocol']}, negatives: {found['negatives']}"
        )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class LeakcheckKeywords(LeakcheckTraining, Generic[FrameT]):
    """The keywords of `leakcheck`: the options of `entrenous leakcheck`, and what only Python can
    hand in.
    """

    algorithm: AlgorithmAsked = field(default="fpl", kw_only=False)
    """The algorithm that each user trains alone, one with a server, as of `entrenous.run`."""
    data: DataAsked[FrameT] = field(default="ml-100k", kw_only=False)
    """As of `entrenous.run`."""
    progress: ProgressAsked = None
    """As of `entrenous.run`."""


@public(LeakcheckKeywords)
def leakcheck(asked: LeakcheckKeywords[FrameT]) -> Leakcheck[FrameT]:
    """Check that an experiment does not leak the answers: models that each user trains alone must
    score like chance.

    Raises InputError for what cannot be checked, in one line.
    """
    name, own = algorithm_asked(asked.algorithm)
    options = values(asked, LeakcheckTraining)
    options["settings"] = {**own, **asked.settings}
    data = data_asked(asked.data)
    with asked_progress(asked.progress) as progress:
        report = checked(data, algorithm=name, progress=progress, **options)
    return Leakcheck(report, kind_of(asked.data))
