"""`tune`: settings of an algorithm chosen on validation rows, from Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from ..core.contract.protocols import Progress
from ..core.keywords import values
from ..runs.options import TuneOptions
from ..runs.tuning.choose import chosen
from ..runs.tuning.grid import TuneRequest
from .arguments import algorithm_asked, asked_progress, data_asked, public


@final
@dataclass(frozen=True, eq=False, repr=False)
class TunedSettings:
    """The result of a choice of settings."""

    found: dict[str, Any]
    """The whole report, as `entrenous tune --json` prints it."""

    @property
    def best(self) -> dict[str, Any]:
        """The settings that did best on validation, for `entrenous.run(..., settings=...)`."""
        chosen: dict[str, Any] = self.found["rows"][0]["settings"]
        return chosen

    def __repr__(self) -> str:
        rows = self.found["rows"]
        best = rows[0]
        settings = ", ".join(f"{name}={value}" for name, value in best["settings"].items())
        # Two metrics are enough for one line.
        metrics = list(best["validation"].items())[:2]
        shown = ", ".join(f"{name} {value:.4f}" for name, value in metrics)
        return (
            f"TunedSettings({settings}; {best['rounds']} rounds: {shown} on validation;"
            f" {len(rows)} tried)"
        )

    def rows(self) -> Any:
        """A frame with a row for each choice of settings, the best first: settings, `rounds`, and
        each metric on validation.
        """
        import polars as pl

        rows = []
        for row in self.found["rows"]:
            rows.append({**row["settings"], "rounds": row["rounds"], **row["validation"]})
        # A setting may be a number in one row and a text in another.
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TuneKeywords(TuneOptions):
    """The keywords of `tune`: the options of `entrenous tune`, and what only Python can hand in."""

    algorithm: Any = field(kw_only=False)
    """As of `entrenous.run`. The settings of an instance are the same for all."""
    data: Any = field(default="ml-100k", kw_only=False)
    """As of `entrenous.run`."""
    progress: bool | Progress | None = None
    """As of `entrenous.run`."""


@public(TuneKeywords)
def tune(asked: TuneKeywords) -> TunedSettings:
    """Train with several choices of settings and compare them on validation rows; the test rows
    stay closed.

    Raises InputError for neither a grid nor a space, or both, and for settings that the algorithm
    does not have.
    """
    with asked_progress(asked.progress) as progress:
        name, own = algorithm_asked(asked.algorithm)
        options = values(asked, TuneOptions)
        options["settings"] = {**own, **asked.settings}
        request = TuneRequest(name, data_asked(asked.data), progress=progress, **options)
        return TunedSettings(chosen(request))
