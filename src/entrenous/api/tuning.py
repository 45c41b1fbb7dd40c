"""`tune`: settings of an algorithm chosen on validation rows, from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, final

from ..core.keywords import values
from ..core.registry.discover import short
from ..core.values import SettingValue
from ..runs.options import TuneOptions
from ..runs.tuning.grid import TuneRequest, TuningFound, try_grid
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
from .results import Report, Table


@final
class TunedSettings(Report[TuningFound, FrameT]):
    """The result of a choice of settings. `table()` has a row for each choice, the best first:
    settings, `rounds`, and each metric on validation.
    """

    @property
    def best(self) -> dict[str, SettingValue]:
        """The settings that did best on validation, for `entrenous.run(..., settings=...)`."""
        return self.found["rows"][0]["settings"]

    def _caption(self) -> str:
        found = self.found
        return (
            f"{short(found['algorithm'])} on {Path(found['data']).name}, {found['protocol']}:"
            f" validation, mean of {found['seeds']} seed(s), best first"
        )

    def _records(self) -> list[dict[str, object]]:
        return [
            {**row["settings"], "rounds": row["rounds"], **row["validation"]}
            for row in self.found["rows"]
        ]

    def _shown(self) -> Table:
        """With settings as they are typed: metrics alone are rounded."""
        shown = super()._shown()
        body = []
        for row, line in zip(self.found["rows"], shown.body, strict=True):
            typed = [str(value) for value in row["settings"].values()]
            body.append([*typed, *line[len(typed) :]])
        return shown._replace(body=body)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TuneKeywords(TuneOptions, Generic[FrameT]):
    """The keywords of `tune`: the options of `entrenous tune`, and what only Python can hand in."""

    algorithm: AlgorithmAsked = field(kw_only=False)
    """As of `entrenous.run`. The settings of an instance are the same for all."""
    data: DataAsked[FrameT] = field(default="ml-100k", kw_only=False)
    """As of `entrenous.run`."""
    progress: ProgressAsked = None
    """As of `entrenous.run`."""


@public(TuneKeywords)
def tune(asked: TuneKeywords[FrameT]) -> TunedSettings[FrameT]:
    """Train with several choices of settings and compare them on validation rows; the test rows
    stay closed.

    Raises InputError without a grid, and for settings that the algorithm does not have.
    """
    with asked_progress(asked.progress) as progress:
        name, own = algorithm_asked(asked.algorithm)
        options = values(asked, TuneOptions)
        options["settings"] = {**own, **asked.settings}
        request = TuneRequest(name, data_asked(asked.data), progress=progress, **options)
        return TunedSettings(try_grid(request), kind_of(asked.data))
