"""`leakcheck` and `receipt` from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, final

from ..auditing.receipt import ReceiptFound, receipt_of_run
from ..core.keywords import values
from ..runs import store
from ..runs.leakcheck import LeakcheckFound
from ..runs.leakcheck import leakcheck as checked
from ..runs.options import LeakcheckTraining, OpenOptions
from .arguments import (
    AlgorithmAsked,
    DataAsked,
    FrameT,
    Ids,
    ProgressAsked,
    algorithm_asked,
    asked_progress,
    data_asked,
    id_asked,
    in_python,
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
class DeviceReceipt(Report[ReceiptFound, FrameT]):
    """The messages of one user's device. `table()` has a row for each round."""

    of_rows = "rounds"

    @property
    def notes(self) -> list[str]:
        """Sentences on the user's part in the training, on what is guessable anyway, and on what is
        known because the user took part.
        """
        found = self.found
        return [*found["part"], *found["guessable"], *found["because"]]

    def expected(self) -> FrameT:
        """A frame of what attacks are expected to find out from these messages, by measured
        audits.
        """
        return self._frame(self.found["expected"])

    def _caption(self) -> str:
        slip = self.found
        return (
            f"{slip['user']} in {slip['run']}: {slip['algorithm']}, profile {slip['profile']},"
            f" {slip['history']} items consumed"
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


def receipt(
    subject: str | Path = "latest",
    *,
    user: Ids,
    root: str | Path = "runs",
    data: str | Path | None = None,
    algorithm: AlgorithmAsked | None = None,
    todays_code: bool = False,
    threads: int = 0,
    progress: ProgressAsked = None,
) -> DeviceReceipt:
    """Show what the device of one user gave away in each round, and how much of the user's history
    attacks are expected to find out from that. A stored run is repeated for this.

    subject: a run's folder, its name under `root`, or "latest". user: the id of the user. The other
    options are those of `entrenous.open`. The receipt of a node is in the node's own store, and
    `entrenous receipt` shows it. Raises InputError for an unknown run or user, and for a run that
    cannot be repeated.
    """
    with in_python(), asked_progress(progress) as shown:
        name = id_asked("user", user)
        place = None if algorithm is None else algorithm_asked(algorithm)[0]
        moved = None if data is None else str(data)
        how = OpenOptions(data=moved, algorithm=place, todays_code=todays_code)
        run = store.read(str(subject), Path(root), moved)
        return DeviceReceipt(receipt_of_run(run, name, how=how, threads=threads, progress=shown))
