"""`receipt` from Python."""

from __future__ import annotations

from pathlib import Path
from typing import final

from entrenous.api.arguments import (
    AlgorithmAsked,
    FrameT,
    Ids,
    ProgressAsked,
    algorithm_asked,
    asked_progress,
    id_asked,
    in_python,
)
from entrenous.api.results import Report
from entrenous.runs import store
from entrenous.runs.options import OpenOptions

from ..receipt import ReceiptFound, receipt_of_run


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

    def own(self) -> FrameT:
        """A frame of what each attack finds in these very messages."""
        return self._frame(self.found["own"])

    def expected(self) -> FrameT:
        """A frame of what attacks are expected to find out from the rest, by audits of others."""
        return self._frame(self.found["expected"])

    def _caption(self) -> str:
        slip = self.found
        return (
            f"{slip['user']} in {slip['run']}: {slip['algorithm']}, profile {slip['profile']},"
            f" {slip['history']} items consumed"
        )


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
    attacks find out from that. A stored run is repeated for this.

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
